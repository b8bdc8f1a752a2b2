"""Runs one release's own pool configurators on questions, without a GPU and without torch.

    python driver.py UNPACKED_WHEEL < questions > answers     one JSON object a line

`pool_configurator.py` is loaded alone. Whatever it imports is replaced by an object that answers anything;
the functions that sizes depend on are given what a start would have made of the question.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

REPLACED = ("torch", "sglang", "numpy", "transformers", "msgspec", "orjson", "triton")
CONFIGURATORS = (
    "DefaultPoolConfigurator",
    "HybridSWAPoolConfigurator",
    "SWARequestCapPoolConfigurator",
    "SWAChunkCapPoolConfigurator",
)
EVICTION_INTERVAL = 128


class AnyModule(ModuleType):
    """A module that has every attribute."""

    __path__: Sequence[str] = ()  # type: ignore[assignment]

    def __getattr__(self, name: str) -> MagicMock:
        if name.startswith("__"):
            raise AttributeError(name)
        value = MagicMock()
        setattr(self, name, value)
        return value


class AnyModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds modules of packages that are not installed."""

    def find_spec(self, fullname: str, *_: object) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] in REPLACED:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return AnyModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: the module has every attribute."""


def load(folder: Path) -> Any:  # noqa: ANN401
    """Return the release's module of configurators."""
    sys.meta_path.insert(0, AnyModules())
    file = folder / "sglang" / "srt" / "model_executor" / "pool_configurator.py"
    spec = importlib.util.spec_from_file_location("asked", file)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(file)
    module: Any = importlib.util.module_from_spec(spec)
    sys.modules["asked"] = module
    spec.loader.exec_module(module)
    module.ceil_div = lambda value, divisor: -(-value // divisor)
    module.ceil_align = lambda value, multiple: -(-value // multiple) * multiple
    for name, answer in {
        "_dflash_draft_cell_size": 0,
        "compute_page_shard_scratch_bytes": 0,
        "mambaish_config": None,
        "is_deepseek_dsa": False,
        "is_deepseek_v4": False,
        "is_minimax_sparse": False,
        "is_float4_e2m1fn_x2": False,
    }.items():
        setattr(module, name, constant(answer))
    module.envs.SGLANG_SWA_EVICTION_INTERVAL.get = constant(EVICTION_INTERVAL)
    return module


def constant(value: object) -> Callable[..., object]:
    """Return a function with one answer."""
    return lambda *_, **__: value


def start(module: Any, question: Mapping[str, Any]) -> MagicMock:  # noqa: ANN401
    """Return the configurator's argument, after telling the module what the start is like."""
    ranks = question["tp_size"]
    flags = SimpleNamespace(
        swa_full_tokens_ratio=question["swa_full_tokens_ratio"],
        _swa_full_tokens_ratio_explicitly_set=True,
        max_running_requests=question["max_running_requests"],
        chunked_prefill_size=question["chunked_prefill_size"],
        disable_overlap_schedule=question["disable_overlap_schedule"],
        max_total_tokens=None,
        page_size=question["page_size"],
        enable_unified_memory=False,
        enable_hisparse=False,
        disable_radix_cache=True,
        speculative_num_draft_tokens=None,
        speculative_algorithm=None,
        disaggregation_mode="null",
        disaggregation_decode_extra_slots=0,
        attn_tp_size=ranks,
        attn_dcp_size=1,
        tp_size=ranks,
        pp_size=1,
        dcp_size=1,
    )
    for name in ("parallel", "schedule", "memory", "spec", "disagg"):
        setattr(module, f"get_{name}", constant(flags))
    module.get_server_args = constant(flags)
    module.torch._utils._element_size = constant(question["element_bytes"])  # noqa: SLF001
    layers: Any = importlib.import_module("sglang.srt.layers.cp.utils")
    layers.get_glm_dsa_layer_split_effective_num_layers = lambda _, count: count
    module.DefaultPoolConfigurator._compute_qsa_cell_size = staticmethod(constant(0))  # noqa: SLF001
    kvc = MagicMock()
    kvc.use_mla_backend = False
    kvc.is_draft_worker = False
    kvc.kv_cache_dtype_str = "auto"
    kvc.page_size = question["page_size"]
    kvc.sliding_window_size = question["window"]
    kvc.attn_dp_size = kvc.ps.attn_dp_size = 1
    kvc.pp_size = 1
    kvc.fused_entry_bytes = constant(None)
    for algorithm in ("eagle", "standalone", "dflash", "dflash_family"):
        setattr(kvc.spec_algorithm, f"is_{algorithm}", constant(False))
    full, windows = range(question["full_layers"]), range(question["window_layers"])
    kvc.layer_info = SimpleNamespace(
        full_attention_layer_ids=full,
        swa_attention_layer_ids=windows,
        num_effective_layers=len(full) + len(windows),
        start_layer=0,
        end_layer=len(full) + len(windows),
    )
    kvc.model_config = SimpleNamespace(
        full_attention_layer_ids=full,
        swa_attention_layer_ids=windows,
        attention_arch="MHA",
        head_dim=question["full_size"],
        v_head_dim=question["full_value_size"],
        swa_head_dim=question["window_size"],
        swa_v_head_dim=question["window_value_size"],
        get_num_kv_heads=lambda shards, *_: max(1, question["full_heads"] // shards),
        get_swa_num_kv_heads=lambda shards, *_: max(1, question["window_heads"] // shards),
        hf_config=None,
        hf_text_config=None,
        context_len=1 << 20,
    )
    return kvc


def ask(module: Any, question: Mapping[str, Any]) -> dict[str, object]:  # noqa: ANN401
    """Return the tokens of both pools by configurator, or the words of a refusal."""
    answers: dict[str, object] = {}
    for name in CONFIGURATORS:
        configurator = getattr(module, name, None)
        if configurator is None:
            continue
        try:
            pools = configurator(start(module, question)).calculate_pool_sizes(
                question["budget"], question["page_size"]
            )
            full = pools.full_max_total_num_tokens or pools.max_total_num_tokens
            answers[name] = [full, pools.swa_max_total_num_tokens]
        except (RuntimeError, ValueError) as refusal:
            answers[name] = str(refusal)
    return answers


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    asked = load(Path(sys.argv[1]))
    for line in sys.stdin:
        sys.stdout.write(json.dumps(ask(asked, json.loads(line))) + "\n")
