"""Says which programs that start the ranks of an engine a release refuses."""

from collections.abc import Iterator, Mapping
from typing import Final

from service.engines.rules.parallelism import ParallelismRules
from service.launch_command.launch import WrittenFlag
from service.nearest_names import few_of, nearest, quoted

EXECUTORS: Final = ("mp", "ray", "uni", "external_launcher")
"""Source: vLLM 0.10.2 to 0.33.0, config/parallel.py DistributedExecutorBackend."""


def refused_backends(flags: Mapping[str, WrittenFlag], rules: ParallelismRules) -> Iterator[str]:
    """Yield, in words, which executors a release refuses, alone or with the number of nodes."""
    executor, starter = flags.get("distributed_executor_backend"), flags.get("data_parallel_backend")
    if executor is not None:
        yield from _executor(executor)
    if starter is not None and rules.rank_starters:
        yield from _not_among(starter, rules.rank_starters)
    nodes = flags.get("nnodes")
    if nodes is None or not isinstance(nodes.value, int) or nodes.value < 2:  # noqa: PLR2004 - several nodes
        return
    if rules.node_executors:
        yield from _of_nodes(executor, rules.node_executors)
    if starter is not None and starter.value == "ray":
        yield "nnodes > 1 is only supported with data_parallel_backend=mp"


def _executor(flag: WrittenFlag) -> Iterator[str]:
    """Yield that a word names no executor: another is a class in a module, and has a dot in it.

    Source: vLLM 0.10.2 to 0.33.0, v1/executor/abstract.py Executor.get_class and resolve_obj_by_qualname.
    """
    if isinstance(flag.value, str) and "." not in flag.value:
        yield from _not_among(flag, EXECUTORS, ", or the class of a plugin with its module")


def _not_among(flag: WrittenFlag, known: tuple[str, ...], more: str = "") -> Iterator[str]:
    if flag.missing or not isinstance(flag.value, str) or flag.value in known:
        return
    spelling = f"--{flag.name.replace('_', '-')}"
    words = few_of(nearest(flag.value, known), known, "")
    yield f"{spelling}: the release has no {quoted(flag.value)}; {words}{more}"


def _of_nodes(executor: WrittenFlag | None, executors: tuple[str, ...]) -> Iterator[str]:
    """Yield that an executor starts no ranks on several nodes; the default is mp."""
    if executor is None or executor.missing or executor.value in executors or executor.value not in EXECUTORS:
        return
    listed = " or ".join(executors)
    yield f"nnodes > 1 can only be set when distributed executor backend is {listed}; it is {executor.value}"
