"""The ranks that a start has, and the GPUs that its text gives it."""

from collections.abc import Iterator
from typing import Any, Final

from service.launch_command.launch import LaunchCommand

_RANKS: Final = ("tensor_parallel_size", "pipeline_parallel_size", "prefill_context_parallel_size")
_COPIES: Final = ("data_parallel_size", "data_parallel_size_local", "nnodes")


def too_few_gpus(launch: LaunchCommand) -> Iterator[str]:
    """Say that the text gives the start fewer GPUs than it has ranks.

    Source: vLLM 0.28.0, v1/executor/multiproc_executor.py: each rank takes a GPU of its own.
    """
    gpus, ranks = _gpus_and_ranks(launch)
    if gpus is not None and ranks > gpus:
        yield f"The command starts {ranks} ranks, and the text gives it {gpus} GPUs."


def idle_gpus(launch: LaunchCommand) -> Iterator[str]:
    """Say that the text gives the start more GPUs than it has ranks, and which."""
    gpus, ranks = _gpus_and_ranks(launch)
    if gpus is not None and ranks < gpus:
        devices = launch.placement.devices
        named = f" ({', '.join(devices)})" if devices else ""
        yield (
            f"The text gives the start {gpus} GPUs{named}, and it uses {ranks}: --tensor-parallel-size "
            f"{gpus} would use all."
        )


def _gpus_and_ranks(launch: LaunchCommand) -> tuple[int | None, int]:
    """Return the GPUs that the text gives a start, if it says so and ranks take no others, and its ranks."""
    gpus, backend = launch.placement.gpus_per_node, launch.flag("distributed_executor_backend")
    ranks = 1
    for name in _RANKS:
        ranks *= _number(launch, name)
    local = launch.flag("data_parallel_size_local")
    ranks *= _number(launch, "data_parallel_size_local" if local else "data_parallel_size")
    unknown = any(flag.missing for flag in launch.flags if flag.name in {*_RANKS, *_COPIES})
    if gpus is None or unknown or (backend is not None and backend.value == "ray"):
        return None, ranks
    # --data-parallel-size-local counts the ranks of one node.
    return gpus * (1 if local else nodes_of_launch(launch)), ranks


def nodes_of_launch(launch: LaunchCommand) -> int:
    """Return on how many nodes a text starts one engine, as far as it says so."""
    return launch.placement.nodes or _number(launch, "nnodes")


def _number(launch: LaunchCommand, name: str) -> int:
    flag = launch.flag(name)
    value: Any = None if flag is None else flag.value
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 1
