"""Asks a release's own LoRA manager what it allocates; run by the Python of that release's environment.

``python adapters_driver.py QUESTIONS ANSWERS`` reads one JSON object a line and writes one for each. The
model is built on torch's meta device, with a process group of the asked size that sends nothing, so that no
byte is allocated. It knows nothing of the project: only torch and vLLM are imported.
"""

import json
import logging
import os
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch
import vllm.distributed.parallel_state as ranks
import vllm.lora.layers.fused_moe as expert_adapters
from torch.testing._internal.distributed.fake_pg import FakeStore
from vllm.config import set_current_vllm_config
from vllm.distributed.device_communicators import cpu_communicator, shm_broadcast
from vllm.engine.arg_utils import EngineArgs
from vllm.lora.model_manager import LoRAModelManager
from vllm.model_executor.model_loader.utils import initialize_model

os.environ.setdefault("VLLM_DIST_IDENT", "alone")  # what a launcher on CPUs names a group of ranks
MAX_TOKENS = 2048
"""Of a batch, and of a request: buffers for adapters do not depend on them."""
MAX_REQUESTS = 8


class Kernel:
    """Stands for the kernel of experts, which builds for CPUs lack; no buffer for adapters depends on it."""

    def __init__(self) -> None:
        self.impl = object.__new__(expert_adapters.FusedMoEKernelModularImpl)
        self.fused_experts = expert_adapters.LoRAExpertsMixin()
        self.prepare_finalize = None

    def supports_lora(self) -> bool:
        """Return what the kernels of GPUs do."""
        return True


def with_kernels(model: torch.nn.Module) -> None:
    """Give every layer of experts a kernel, as it has one on a GPU."""
    for module in model.modules():
        method = getattr(getattr(module, "routed_experts", None), "quant_method", None)
        if method is not None and getattr(method, "moe_kernel", None) is None:
            kind = type(method)
            kind.supports_internal_mk = True
            kind.is_monolithic = False
            method.moe_kernel = Kernel()
    expert_adapters.FusedMoEModularMethod = lambda method, _: method


NEW_GROUP = torch.distributed.new_group


def fake_group(*words: Any, **named: Any) -> Any:  # noqa: ANN401 - a group of torch
    """Return a group that sends nothing, whatever backend the engine asks for."""
    return NEW_GROUP(*words, **{**named, "backend": "fake"})


def group(size: int) -> None:
    """Make this process rank 0 of as many ranks, of which the others do not exist."""
    if torch.distributed.is_initialized():
        ranks.destroy_model_parallel()
        ranks.destroy_distributed_environment()
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    torch.distributed.new_group = fake_group
    torch.distributed.init_process_group(backend="fake", store=FakeStore(), rank=0, world_size=size)
    # Messages between ranks: nobody else is there to read them.
    shm_broadcast.MessageQueue.create_from_process_group = staticmethod(lambda *_, **__: None)
    cpu_communicator.CpuCommunicator._all_group_ranks_share_shm_group_name = lambda _: False  # noqa: SLF001
    if hasattr(ranks, "in_the_same_node_as"):
        ranks.in_the_same_node_as = lambda *_, **__: [True] * size
    ranks.init_distributed_environment(size, 0, "env://", 0, "fake")
    ranks.ensure_model_parallel_initialized(size, 1)


def config_of(question: dict[str, Any], folder: Path) -> Any:  # noqa: ANN401 - a class of the engine
    """Return the engine's configuration for a question, with the model's config in a folder."""
    (folder / "config.json").write_text(json.dumps(question["config"]), "utf-8")
    flags = dict(question["flags"])
    return EngineArgs(
        model=str(folder),
        skip_tokenizer_init=True,
        load_format="dummy",
        dtype="bfloat16",
        enforce_eager=True,
        max_model_len=MAX_TOKENS,
        max_num_batched_tokens=MAX_TOKENS,
        max_num_seqs=MAX_REQUESTS,
        enable_lora=True,
        tensor_parallel_size=question["tensor_parallel_size"],
        enable_expert_parallel=question["enable_expert_parallel"],
        distributed_executor_backend="external_launcher",
        **flags,
    ).create_engine_config()


def allocated(question: dict[str, Any]) -> dict[str, Any]:
    """Return the bytes of all buffers for adapters, in all and by the classes and names of modules."""
    with tempfile.TemporaryDirectory() as folder:
        config = config_of(question, Path(folder))
        meta = torch.device("meta")
        with set_current_vllm_config(config):
            group(question["tensor_parallel_size"])
            torch.set_default_dtype(torch.bfloat16)
            with meta:
                model = initialize_model(vllm_config=config)
                with_kernels(model)
                before = {_storage(tensor) for tensor in (*model.parameters(), *model.buffers())}
                manager = LoRAModelManager(
                    model, MAX_REQUESTS, MAX_TOKENS, model.config.vocab_size, config.lora_config, meta, config
                )
            torch.set_default_dtype(torch.float32)
    by: dict[str, int] = defaultdict(int)
    for name, module in manager.modules.items():
        title = f"{type(module).__name__}:{name.rpartition('.')[2]}"
        by[title] += sum(size for key, size in _buffers(module) if key not in before)
    return {"bytes": sum(by.values()), "by": {name: size for name, size in by.items() if size}}


def _storage(tensor: torch.Tensor) -> int:
    """Return what is equal for tensors that are views of the same memory."""
    return int(tensor.untyped_storage()._cdata)  # noqa: SLF001 - torch has no other name for it


def _buffers(module: torch.nn.Module) -> list[tuple[int, int]]:
    """Return identity and bytes of the storages that a module holds itself; views share one."""
    found: dict[int, int] = {}
    waiting = [value for name, value in vars(module).items() if not name.startswith("_")]
    while waiting:
        value = waiting.pop()
        if isinstance(value, torch.Tensor):
            found[_storage(value)] = value.untyped_storage().nbytes()
        elif isinstance(value, list | tuple):
            waiting += value
    return list(found.items())


def main() -> None:
    """Answer every question; one that the release refuses is answered with its words."""
    logging.disable(logging.INFO)
    source, target = map(Path, sys.argv[1:])
    with target.open("w", encoding="utf-8") as answers:
        for line in source.read_text("utf-8").splitlines():
            try:
                answer = allocated(json.loads(line))
            except (ValueError, NotImplementedError, AssertionError, RuntimeError) as refusal:
                answer = {"refused": f"{type(refusal).__name__}: {refusal}"[:400]}
            answers.write(json.dumps(answer) + "\n")
            answers.flush()


if __name__ == "__main__":
    main()
