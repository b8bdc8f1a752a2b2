"""What the numbers of a log alone say against its failure, where nothing could be planned too."""

import re
from collections.abc import Iterator
from math import ceil, floor
from typing import Final

from packaging.version import Version

from service.engines.arguments.arguments import UnknownArgument, arguments_of
from service.engines.arguments.successors import successor_of
from service.explanation.log_facts import nearest_release
from service.nearest_names import nearest
from service.startup_log.log import StartupLog
from service.startup_log.logged_failure import Failure
from service.startup_log.released_names import released_name

MOST_UTILIZATION: Final = 0.97
"""A higher value leaves too little memory for the driver."""
ALIKE: Final = 0.5
"""Least similarity of a name that is offered, from 0 to 1."""
_CHOICE: Final = re.compile(
    r"argument (?P<flag>--[\w-]{1,60})(?:/\S{1,60})?: invalid choice: '?(?P<given>[\w.-]{1,80})'? "
    r"\(choose from (?P<listed>[^()]{1,1500})"
)
_PARSER: Final = re.compile(
    r"invalid (?P<flag>tool call parser|reasoning parser): (?P<given>[\w.-]{1,80}) "
    r"\(chose from \{(?P<listed>[^(){}]{1,1500})"
)
MOST_ALIKE: Final = 5
"""Flags that are named beside an unknown one."""
_UNRECOGNIZED: Final = re.compile(r"unrecognized arguments: (--[a-z][\w-]{1,60})", re.ASCII)
_ALLOCATION: Final = re.compile(
    r"Tried to allocate (\d{1,6}(?:\.\d{1,3})?) GiB\. GPU \d{1,3} has a total capacity of "
    r"(\d{1,6}(?:\.\d{1,3})?) GiB"
)
"""PyTorch 2, CUDACachingAllocator: what was asked, and the whole device."""
HALF: Final = 0.5
"""Of a hundredth: what the digits of a log can hide."""


def offers(log: StartupLog, failure: Failure) -> tuple[str, ...]:
    """Return flags that follow from the logged numbers, each with its reason."""
    named = tuple(_releases(failure.message))
    if failure.cause is None:
        return named
    return (*named, *_offers(log, failure.cause.name, failure.message))


def _releases(message: str) -> Iterator[str]:
    """Yield which releases have the name that a program could not import from the engine."""
    found = released_name(message)
    if found is None:
        return
    if found.still:
        yield f"vLLM {found.first} or newer: of the releases that were read, none before it has {found.name}"
    else:
        which = f"{found.first} has" if found.first == found.last else f"{found.first} to {found.last} have"
        yield (
            f"of the releases that were read, vLLM {which} {found.name}: use that, or a version of the "
            "package that imports it which is made for your release"
        )


def share_left(log: StartupLog) -> float | None:
    """Return the largest utilization, in hundredths, that fits beside the memory in use at the start."""
    free, total = log.number("free_gib"), log.number("total_gib")
    if free is None or total is None or not 0 < free <= total:
        return None
    return floor(100 * free / total) / 100 or None


def _offers(log: StartupLog, cause: str, message: str) -> Iterator[str]:
    match cause:
        case "kv_cache_smaller_than_one_request":
            yield from _length(log)
            yield from _utilization(log)
        case "memory_taken_by_others" if (share := share_left(log)) is not None:
            free, total = log.number("free_gib"), log.number("total_gib")
            why = f"{free:.2f} of {total:.2f} GiB were free; the model must fit into that share"
            yield f"--gpu-memory-utilization {share:.2f} at most: {why}"
        case "out_of_memory" | "media_fill_memory" if (sizes := _ALLOCATION.search(message)) is not None:
            yield from _larger_than_device(*(float(each) for each in sizes.groups()))
        case "unknown_argument":
            yield from _spelled_alike(message)
            yield from _unknown_flag(log, message)
        case "more_requests_than_state_blocks" if (blocks := log.number("mamba_blocks")) is not None:
            yield f"--max-num-seqs {int(blocks)}: that many blocks of recurrent state fit"
        case "lora_rank" if (rank := log.number("lora_rank")) is not None:
            yield f"--max-lora-rank {_allowed_rank(int(rank))}: the adapter's rank is {int(rank)}"


def _larger_than_device(asked: float, total: float) -> Iterator[str]:
    """Yield what a single allocation shows that no share of the device holds."""
    if asked > total:
        yield (
            f"find what makes one allocation {asked:.2f} GiB large on a device of {total:.2f} GiB, such "
            f"as the "
            "size or number of images and videos, the length or the batch: no share of the memory holds it"
        )


def _spelled_alike(message: str) -> Iterator[str]:
    """Yield the choice of those which a message lists that is spelled most like the refused one."""
    for pattern in (_CHOICE, _PARSER):
        found = pattern.search(message)
        if found is None:
            continue
        flag = found["flag"] if found["flag"].startswith("--") else f"--{found['flag'].replace(' ', '-')}"
        listed = (each.strip(" '\"") for each in found["listed"].split(","))
        for name in nearest(found["given"], filter(None, listed), count=1, cutoff=ALIKE):
            yield f"{flag} {name}: of the names that this release lists, it is spelled most like it"
        return


def _unknown_flag(log: StartupLog, message: str) -> Iterator[str]:
    """Yield since when, or until when, releases have a refused flag, or those that begin with its word."""
    found = _UNRECOGNIZED.search(message)
    if found is None:
        return
    named = log.release or log.around.release
    table = arguments_of(Version(nearest_release(named or "")))
    try:
        table.find(found[1])
    except UnknownArgument as error:
        removed = error.since is None or (error.until is not None and table.release >= error.until)
        instead = successor_of(found[1]) if removed else ""
        if instead and error.since is None:
            yield f"{found[1]}: {instead}"
        if error.since is not None:
            doubt = "" if named else " (the text names no release)"
            yield f"{error}{doubt}"
            return
        first = found[1].replace("_", "-").split("-")[2]
        alike = sorted(table[name].spelling for name in table.names if name.split("_")[0] == first)
        if alike and not instead:
            yield f"no release has {found[1]}; vLLM {table.release} has {', '.join(alike[:MOST_ALIKE])}"


def _length(log: StartupLog) -> Iterator[str]:
    length = log.number("est_max_model_len")
    if length is not None and length >= 1:
        yield f"--max-model-len {int(length)}: the engine's own estimate of what fits"


def _utilization(log: StartupLog) -> Iterator[str]:
    offered = log.number("offered_utilization")
    if offered is not None and 0 < offered < 1:
        yield f"--gpu-memory-utilization {offered}: the engine names it, to regain what CUDA graphs took"
    old, total = log.number("gpu_memory_utilization"), log.number("total_gib")
    old = log.flags.get("gpu_memory_utilization", old)
    needed, available = log.number("kv_needed_gib"), log.number("available_kv_gib")
    if not total or not isinstance(old, float) or needed is None or available is None:
        return
    share = ceil(100 * (old + (needed - available) / total) + HALF) / 100
    if share <= MOST_UTILIZATION:
        missing = needed - available
        yield f"--gpu-memory-utilization {share:.2f}: it adds the {missing:.2f} GiB that are missing"


def _allowed_rank(rank: int) -> int:
    """Return the least value of --max-lora-rank for an adapter: vLLM 0.19.0, config/lora.py MaxLoRARanks."""
    return next((each for each in (1, 8, 16, 32, 64, 128, 256, 320, 512) if each >= rank), rank)
