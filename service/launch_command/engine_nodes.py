"""Joins the commands that start one engine on several nodes, each of which starts some of its ranks.

Source: vLLM 0.13.0 to 0.33.0, entrypoints/cli/serve.py run_headless and ParallelConfig: ``--node-rank``,
``--data-parallel-start-rank`` and ``--data-parallel-rank`` say which ranks a process starts, ``--headless``
that it serves no requests; every other flag of the engine must be the same on all nodes.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from service.launch_command.command_reading import CommandReading
from service.launch_command.launch import LaunchCommand, Placement

_RANKS: Final = ("node_rank", "data_parallel_start_rank", "data_parallel_rank")
_OF_A_NODE: Final = frozenset(
    {
        *_RANKS,
        "headless",
        *("data_parallel_size_local", "api_server_count", "host", "port", "uds"),
    }
)
"""Flags that may differ from node to node."""
Role = tuple[Any, ...]


def joined_nodes(readings: Sequence[CommandReading]) -> tuple[CommandReading, ...]:
    """Return the starts of a text, the commands of one engine's nodes as one start.

    The command that serves requests stands for the engine: the one that is not headless, or has the first
    ranks.
    """
    engines: dict[str, list[CommandReading]] = {}
    for at, reading in enumerate(readings):
        key = _engine(reading.launch)
        nodes = engines.get(key, [])
        if nodes and not _joins(reading.launch, [each.launch for each in nodes]):
            key = f"{key} {at}"
        engines.setdefault(key, []).append(reading)
    return tuple(_joined(nodes) for nodes in engines.values())


def _engine(launch: LaunchCommand) -> str:
    """Return a text that is the same for the nodes of one engine."""
    flags = {flag.name: flag.value for flag in launch.flags if flag.name not in _OF_A_NODE}
    return json.dumps([launch.model, launch.release.version, flags], sort_keys=True, default=str)


def _role(launch: LaunchCommand) -> Role:
    return (_is_headless(launch), *(getattr(launch.flag(name), "value", 0) for name in _RANKS))


def _is_headless(launch: LaunchCommand) -> bool:
    return getattr(launch.flag("headless"), "value", False) is True


def _joins(launch: LaunchCommand, nodes: Sequence[LaunchCommand]) -> bool:
    """Whether a command is of another node of an engine: the ranks it starts are others."""
    roles = [_role(each) for each in nodes]
    return _role(launch) not in roles and any(any(role) for role in (*roles, _role(launch)))


def _joined(nodes: Sequence[CommandReading]) -> CommandReading:
    if len(nodes) == 1:
        return nodes[0]
    first = min(nodes, key=lambda each: [str(part) for part in _role(each.launch)])
    others = [each for each in nodes if each is not first]
    lines = ", ".join(f"line {each.launch.line}" for each in others)
    note = f"The same engine's other ranks are started at {lines}: planned as one start."
    launch = replace(first.launch, placement=_placement(first.launch, [each.launch for each in nodes]))
    return replace(first, launch=launch, notes=(*first.notes, note), commands=len(nodes))


def _placement(first: LaunchCommand, nodes: Sequence[LaunchCommand]) -> Placement:
    """Return where the engine runs: GPUs that its commands name apart are those of one machine."""
    named = [device for each in nodes for device in each.placement.devices]
    if not named:
        return first.placement
    if len(set(named)) < len(named):
        return replace(first.placement, devices=(), nodes=first.placement.nodes or len(nodes))
    return replace(first.placement, devices=tuple(named), gpus_per_node=len(named))
