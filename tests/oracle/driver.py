"""Ask one release's own cache planning; run by the Python of that release's environment.

``python driver.py QUESTIONS ANSWERS`` reads one JSON object a line and writes one for each. It knows
nothing of the project: only the standard library and vLLM are imported. What differs between releases is
found out by looking at their classes and functions, never by a version.
"""

import dataclasses
import inspect
import json
import logging
import re
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

REFUSALS = (ValueError, NotImplementedError, AssertionError)
"""How the engine refuses; anything else is a fault of this script and ends it."""
CLASSES = {
    "FullAttentionSpec": "full_attention",
    "TQFullAttentionSpec": "full_attention",
    "MLAAttentionSpec": "mla_attention",
    "SlidingWindowMLASpec": "sliding_window_mla",
    "SlidingWindowSpec": "sliding_window",
    "ChunkedLocalAttentionSpec": "chunked_local_attention",
    "CircularBufferSpec": "circular_buffer",
    "CrossAttentionSpec": "cross_attention",
    "SinkFullAttentionSpec": "sink_full_attention",
    "MambaSpec": "mamba",
    "UniformTypeKVCacheSpecs": "uniform_type",
}
"""The engine's spec classes by the names that our answers give them."""


class Recorder:
    """Stands for the module's logger: what is logged once a process must be seen in every answer."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __getattr__(self, method: str) -> Any:  # noqa: ANN401 - any of a logger's methods
        def record(message: str, *values: object, **_: object) -> None:
            self.lines.append(message % values if values else message)

        return record

    def reports(self) -> list[str]:
        """Return what is said about capacity; every pipeline stage may say the same."""
        return [
            line
            for line in dict.fromkeys(self.lines)
            if re.search("KV cache size: |^Maximum concurrency", line)
        ]


class Release:
    """The modules of one release, and the few ways in which they differ."""

    def __init__(self) -> None:
        self.interface = import_module("vllm.v1.kv_cache_interface")
        self.utils = import_module("vllm.v1.core.kv_cache_utils")
        # 0.33.0 moved the planning out of kv_cache_utils.
        self.planning = _optional("vllm.v1.core.kv_cache_planning") or self.utils
        # 0.10.2 and 0.11.0 keep the table of dtypes in vllm.utils itself.
        torch_utils = _optional("vllm.utils.torch_utils") or import_module("vllm.utils")
        self.dtypes: dict[str, Any] = torch_utils.STR_DTYPE_TO_TORCH_DTYPE
        self.torch = import_module("torch")
        self.recorder = Recorder()
        for module in (self.utils, self.planning):
            vars(module)["logger"] = self.recorder

    def build(self, name: str, words: dict[str, Any]) -> Any:  # noqa: ANN401 - a class of the engine
        """Return a spec of some class, built from those words that it has a field for."""
        kind = getattr(self.interface, name)
        known = {field.name for field in dataclasses.fields(kind)}
        return kind(**{key: value for key, value in words.items() if key in known})


def _optional(name: str) -> ModuleType | None:
    try:
        return import_module(name)
    except ModuleNotFoundError as missing:
        if missing.name != name:
            raise
        return None


def spec_of(release: Release, words: dict[str, Any], config: dict[str, Any]) -> Any:  # noqa: ANN401
    """Return the engine's own spec."""
    if words["kind"] == "mamba":
        return _state(release, words, config)
    dtype = words["cache_dtype"]
    model_dtype = getattr(release.torch, config["model_dtype"])
    fields = {
        **{key: value for key, value in words.items() if value is not None},
        "dtype": model_dtype if dtype == "auto" else release.dtypes[dtype],
        "cache_dtype_str": words.get("cache_dtype_str", dtype),
        "use_mla": words["latent"],  # 0.10.2 has no class for MLA but this field
    }
    # 0.20.0 came with packed formats, which specs name by a mode.
    if hasattr(release.interface, "get_kv_quant_mode"):
        fields["kv_quant_mode"] = release.interface.get_kv_quant_mode(dtype)
    return _packed(release.build(_class_of(release, words), fields), words)


def _class_of(release: Release, words: dict[str, Any]) -> str:
    # 0.20.0 to 0.27.1 have a class of its own for full attention in TurboQuant.
    turbo = words["cache_dtype"].startswith("turboquant_") and hasattr(
        release.interface, "TQFullAttentionSpec"
    )
    if words["kind"] == "full_attention" and turbo:
        return "TQFullAttentionSpec"
    return next(name for name, kind in CLASSES.items() if kind == words["kind"])


def _packed(spec: Any, words: dict[str, Any]) -> Any:  # noqa: ANN401
    """Return the spec with the bytes of a packed format, where the release leaves them to the backend."""
    dtype = words["cache_dtype"]
    if dtype.startswith("turboquant_") and hasattr(spec, "tq_slot_size"):
        return dataclasses.replace(spec, tq_slot_size=_turboquant_slot(dtype, spec.head_size))
    if not hasattr(spec, "state_content_bytes"):
        return spec
    if words["slot_bytes"] is not None:
        # 0.28.0 and later: the layer knows the slot of sparse MLA, not its spec.
        return dataclasses.replace(spec, state_content_bytes=words["slot_bytes"])
    # 0.28.0 and later: AttentionBackend.customize_spec.
    if dtype.startswith("nvfp4") and not words["latent"]:
        # That of FlashInfer, whose own package is not installed here.
        full = import_module("vllm.utils.torch_utils").nvfp4_kv_cache_full_dim
        return dataclasses.replace(
            spec, num_head_slots=2 * spec.num_kv_heads, state_content_bytes=full(spec.head_size)
        )
    backends = import_module("vllm.v1.attention.backends.registry").AttentionBackendEnum
    if dtype.startswith("turboquant_") or dtype.endswith("_per_token_head"):
        return backends[words["backend"]].get_class().customize_spec(spec)
    return spec


def _turboquant_slot(dtype: str, head_size: int) -> int:
    config = import_module("vllm.model_executor.layers.quantization.turboquant.config").TurboQuantConfig
    slot: int = config.from_cache_dtype(dtype, head_size).slot_size_aligned
    return slot


def _state(release: Release, words: dict[str, Any], config: dict[str, Any]) -> Any:  # noqa: ANN401
    if "shape_function" in words:
        shapes_of = import_module("vllm.model_executor.layers.mamba.mamba_utils").MambaStateShapeCalculator
        shapes = getattr(shapes_of, words["shape_function"])(*words["shape_arguments"])
        dtypes = tuple(getattr(release.torch, name) for name in words["state_dtypes"])
    else:
        shapes, dtypes = ((words["state_bytes"],),), (release.torch.int8,)
    fields = {
        "shapes": tuple(map(tuple, shapes)),
        "dtypes": dtypes,
        "block_size": words["block_size"],
        "page_size_padded": words["page_size_padded"],
        "mamba_cache_mode": config["mamba_cache_mode"],
        "num_prefill_checkpoint_blocks": words["prefill_checkpoints"],
        "prefill_checkpoint_alignment": words["prefill_checkpoint_alignment"],
    }
    return release.build("MambaSpec", fields)


def config_of(words: dict[str, Any]) -> Any:  # noqa: ANN401 - stands for VllmConfig
    """Return an object with what planning reads of a VllmConfig.

    A release that reads something new fails with an AttributeError, which names it.
    """
    layouts = _optional("vllm.v1.kv_cache_layout")
    return SimpleNamespace(
        model_config=SimpleNamespace(
            max_model_len=words["max_model_len"],
            original_max_model_len=-1 if words["fit_max_model_len"] else words["max_model_len"],
            supports_kv_cache_grouping=False,
        ),
        cache_config=SimpleNamespace(
            num_gpu_blocks_override=words["num_gpu_blocks_override"],
            enable_prefix_caching=words["enable_prefix_caching"],
            mamba_cache_mode=words["mamba_cache_mode"],
            prefix_cache_retention_interval=None,
            # 0.29.0 asks how bytes are strided: layer by layer, unless a backend declares otherwise.
            get_resolved_kv_cache_layout=lambda: layouts and layouts.KVCacheLayout.LBNHC,
        ),
        scheduler_config=SimpleNamespace(
            max_num_batched_tokens=words["max_num_batched_tokens"],
            disable_hybrid_kv_cache_manager=words["disable_hybrid_kv_cache_manager"],
            max_num_encoder_input_tokens=0,
        ),
        parallel_config=SimpleNamespace(
            tensor_parallel_size=words["tensor_parallel_size"],
            pipeline_parallel_size=words["pipeline_parallel_size"],
            decode_context_parallel_size=words["decode_context_parallel_size"],
            prefill_context_parallel_size=1,
        ),
        attention_config=SimpleNamespace(hisparse_config=None),
        device_config=SimpleNamespace(device_type="cuda"),
        speculative_config=None,
        kv_transfer_config=None,
        num_prefill_lookahead_tokens=0,
        max_in_flight_tokens=words["max_in_flight_tokens"],
    )


def plan(release: Release, config: Any, stages: list[dict[str, Any]], available: int) -> list[Any]:  # noqa: ANN401
    """Return the engine's KVCacheConfig of every stage."""
    memory = [available] * len(stages)
    # 0.10.2 plans each stage alone and makes them alike afterwards.
    if not hasattr(release.planning, "get_kv_cache_configs"):
        alone = [
            release.planning.get_kv_cache_config(config, *each) for each in zip(stages, memory, strict=True)
        ]
        release.planning.unify_kv_cache_configs(alone)
        return alone
    # 0.33.0 forms the groups of the whole model in a function of its own.
    arguments: tuple[Any, ...] = (config, stages, memory)
    if "global_kv_cache_groups" in inspect.signature(release.planning.get_kv_cache_configs).parameters:
        arguments += (release.planning.get_global_kv_cache_groups(config, stages),)
    configs: list[Any] = release.planning.get_kv_cache_configs(*arguments)
    # 0.28.0 reports from the engine's core, once.
    if hasattr(release.utils, "update_kv_cache_capacity"):
        merged = release.utils.generate_scheduler_kv_cache_config(configs)
        release.utils.update_kv_cache_capacity(config, merged)
    return configs


def bytes_per_block(planned: Any) -> int:  # noqa: ANN401 - a KVCacheConfig
    """Return the bytes of one block id on a stage."""
    sizes = [tensor.size for tensor in planned.kv_cache_tensors]
    # 0.29.0: every tensor names the whole allocation that it lies in.
    total = sizes[0] if hasattr(planned.kv_cache_tensors[0], "layers") else sum(sizes)
    return int(total) // int(planned.num_blocks)


def answer(release: Release, question: dict[str, Any]) -> dict[str, Any]:
    """Return what the engine says to one question."""
    config = config_of(question["config"])
    specs = [spec_of(release, words, question["config"]) for words in question["specs"]]
    pages = [spec.page_size_bytes for spec in specs]
    stages = [{name: specs[number] for name, number in stage.items()} for stage in question["stages"]]
    release.recorder.lines.clear()
    try:
        configs = plan(release, config, stages, question["available_bytes"])
    except REFUSALS as refusal:
        return {"pages": pages, "error": {"type": type(refusal).__name__, "message": str(refusal)}}
    return {
        "pages": pages,
        "groups": [_group(config, group) for group in configs[0].kv_cache_groups],
        "num_blocks": configs[0].num_blocks,
        "bytes_per_block": bytes_per_block(configs[0]),
        "max_model_len": config.model_config.max_model_len,
        "max_concurrency": release.utils.get_max_concurrency_for_kv_cache_config(config, configs[0]),
        "log_lines": release.recorder.reports(),
    }


def _group(config: Any, group: Any) -> dict[str, Any]:  # noqa: ANN401 - a KVCacheGroupSpec
    spec = group.kv_cache_spec
    page = spec.page_size_bytes
    return {
        "kind": CLASSES[type(spec).__name__],
        "layers": len(group.layer_names),
        "block_size": spec.block_size,
        "page_size_bytes": page,
        "blocks_per_request": -(-spec.max_memory_usage_bytes(config) // page) if page else 0,
    }


def main() -> None:
    """Answer every question."""
    logging.disable(logging.WARNING)
    source, target = map(Path, sys.argv[1:])
    release = Release()
    with source.open(encoding="utf-8") as questions, target.open("w", encoding="utf-8") as answers:
        for line in questions:
            answers.write(json.dumps(answer(release, json.loads(line))) + "\n")


if __name__ == "__main__":
    main()
