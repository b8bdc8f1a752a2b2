"""What the numbers of a log alone say against its failure, where nothing could be planned too."""

import re
from collections.abc import Iterator
from math import ceil, floor, gcd
from typing import Final

from packaging.version import Version

from service.engines.arguments.arguments import UnknownArgument, arguments_of
from service.engines.arguments.successors import successor_of
from service.explanation.log_facts import nearest_release
from service.explanation.whole_classes import whole_classes
from service.nearest_names import nearest
from service.startup_log.catalogue.released_names import released_name
from service.startup_log.failures.logged_failure import Failure
from service.startup_log.log import StartupLog
from service.startup_log.prose.sentences import without_formats
from service.units import GIB

MOST_UTILIZATION: Final = 0.97
"""A higher value leaves too little memory for the driver."""
LEAST_SHARE: Final = 0.3
"""The least utilization that is offered beside other processes: a start that asked for the usual share has a
model for it. Chosen by us."""
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
_ONE_DASH: Final = re.compile(r"unrecognized arguments: -([a-z][\w-]{2,60})", re.ASCII)
_ALLOCATION: Final = re.compile(
    r"Tried to allocate (\d{1,6}(?:\.\d{1,3})?) GiB\. GPU \d{1,3} has a total capacity of "
    r"(\d{1,6}(?:\.\d{1,3})?) GiB"
)
"""PyTorch 2, CUDACachingAllocator: what was asked, and the whole device."""
_CUT: Final = re.compile(
    r" = (\d{1,8}) is not\s{1,16}divisible by (?:[\w']{1,24} ){0,4}[\w']{1,24} = (\d{1,6})"
)
"""A part of a weight on a rank, and the block that it should be a multiple of."""
_BILLIONS: Final = re.compile(r"[-_](\d{1,4}(?:\.\d)?)[bB](?![a-zA-Z0-9])")
"""The size in the name of a model: `Some-Model-72B-Instruct`."""
OF_TWO_BYTES: Final = frozenset({"bfloat16", "float16", "half"})
MOST_OF_A_GPU: Final = 80
"""GiB of weights that a GPU with 80 GB cannot hold."""
HALF: Final = 0.5
"""Of a hundredth: what the digits of a log can hide."""


def offers(log: StartupLog, failure: Failure) -> tuple[str, ...]:
    """Return flags that follow from the logged numbers, each with its reason."""
    hidden = failure.cause is not None and failure.cause.name == "package_hidden"
    # What Python took in place of the package lacks names that the release has.
    named = () if hidden else tuple(_releases(failure.message))
    if failure.cause is None:
        return named
    if failure.cause.name == "unknown_architecture":
        return (*named, *whole_classes(failure.message))
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


def _beside_others(log: StartupLog, share: float) -> str:
    """Return the share that is left beside other processes, unless no model would fit into it."""
    were = f"{log.number('free_gib'):.2f} of {log.number('total_gib'):.2f} GiB were free"
    if share < LEAST_SHARE:
        return f"end what else uses this GPU, and start again: {were}, too little for a lower share"
    return f"--gpu-memory-utilization {share:.2f} at most: {were}; the model must fit into that share"


def _offers(log: StartupLog, cause: str, message: str) -> Iterator[str]:
    match cause:
        case "kv_cache_smaller_than_one_request":
            yield from _length(log)
            yield from _utilization(log)
        case "memory_taken_by_others" if (share := share_left(log)) is not None:
            yield _beside_others(log, share)
        case "media_fill_memory":
            yield from _larger_than_device(message)
        case "out_of_memory":
            yield from _larger_than_device(message)
            yield from _weights_of_its_name(log)
            yield from _format_not_seen(log)
        case "quantization_blocks_do_not_divide" if (cut := _CUT.search(message)) is not None:
            yield from _whole_blocks(log, int(cut[1]), int(cut[2]))
        case "ray_cluster_not_ready" if (ray := log.around.ray) is not None and ray.counted < ray.asked:
            yield (
                f"let Ray count {ray.asked} GPUs, of which it knows {ray.counted}: a node that joined "
                "brought none, or another device; start Ray there again with --num-gpus"
            )
        case "unknown_argument":
            yield from _one_dash(log, message)
            yield from _spelled_alike(message)
            yield from _unknown_flag(log, message)
        case "more_requests_than_state_blocks" if (blocks := log.number("mamba_blocks")) is not None:
            yield f"--max-num-seqs {int(blocks)}: that many blocks of recurrent state fit"
        case "lora_rank" if (rank := log.number("lora_rank")) is not None:
            yield f"--max-lora-rank {_allowed_rank(int(rank))}: the adapter's rank is {int(rank)}"


def _weights_of_its_name(log: StartupLog) -> Iterator[str]:
    """Yield what the size in a model's name says where its weights alone are more than any one GPU has."""
    config = {**log.resolved, **log.flags}
    name = (log.model or "").rstrip("/").rpartition("/")[2]
    named = _BILLIONS.search(name)
    quantized = log.word("weight_quantization") not in {None, "None"} or "quantization" in config
    if named is None or quantized or config.get("dtype") not in OF_TWO_BYTES:
        return
    if without_formats(name) != name:
        return
    ranks = int(config.get("tensor_parallel_size", 1)) * int(config.get("pipeline_parallel_size", 1))
    size = float(named[1]) * 2e9 / GIB
    if size / ranks > MOST_OF_A_GPU:
        yield (
            f"--tensor-parallel-size over more GPUs, or a quantized checkpoint: {named[1]} billion "
            f"parameters of 2 bytes are {size:.0f} GiB, here on {ranks} GPU{'s' if ranks > 1 else ''}"
        )


def _whole_blocks(log: StartupLog, part: int, block: int) -> Iterator[str]:
    """Yield with how many ranks the part of a weight on one of them is whole blocks."""
    config = {**log.resolved, **log.flags}
    ranks = config.get("tensor_parallel_size", 1 if log.flags_logged else None)
    times = block // gcd(part, block)
    whole = f"{part:,} x {times} = {part * times:,} is {part * times // block:,} blocks of {block}"
    if ranks == 1:
        yield f"other kernels or another checkpoint: {part:,} is not a multiple of {block} on one rank either"
    elif ranks is None:
        yield f"1/{times} of this start's --tensor-parallel-size, if ranks cut this weight: {whole}"
    elif ranks % times == 0:
        yield f"--tensor-parallel-size {ranks // times}, if ranks cut this weight: {whole}"


def _format_not_seen(log: StartupLog) -> Iterator[str]:
    """Yield that the engine loads a checkpoint unquantized whose name says otherwise."""
    name = (log.model or "").rstrip("/").rpartition("/")[2]
    if log.word("weight_quantization") != "None" or without_formats(name) == name:
        return
    yield (
        f"let the engine see the quantization that the name {name} says: it loads the weights without any. A "
        "GGUF checkpoint is given as its one .gguf file, with --tokenizer; of another form config.json must "
        "have quantization_config"
    )


def _larger_than_device(message: str) -> Iterator[str]:
    """Yield what a single allocation shows that no share of the device holds."""
    sizes = _ALLOCATION.search(message)
    asked, total = (0.0, 0.0) if sizes is None else map(float, sizes.groups())
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


def _one_dash(log: StartupLog, message: str) -> Iterator[str]:
    """Yield the flag that was written with one dash where the release has it with two."""
    found = _ONE_DASH.search(message)
    if found is None:
        return
    table = arguments_of(Version(nearest_release(log.release or log.around.release or "")))
    if found[1].replace("-", "_") in table.names:
        yield f"--{found[1]}: with two dashes it is a flag of vLLM {table.release}"


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
