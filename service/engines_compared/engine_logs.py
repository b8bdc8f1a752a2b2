"""EngineLog: what a startup log of an engine beside vLLM says of its caches, and what follows from it."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from service.bundled_toml import read_toml
from service.startup_log.text.long_logs import CondensedLog
from service.units import GIB, MIB

LONGEST_LINE: Final = 2000
"""Characters of a line that are searched."""
MOST_READINGS: Final = 200
MARKS: Final = re.compile(
    r"llama_(?:context|kv_cache|memory_recurrent|new_context)|sched_reserve:|load_tensors:|full-size SWA"
    r"|KV Cache is allocated|liding window memory pool|Mamba Cache is allocated|max_total_num_tokens="
    r"|hybrid SWA memory|KV cache primary pool|Max KV cache |paged [kK][vV] cache|KV cache manager v2"
    r"|allocated in kv cache manager"
)
"""Words of the lines below, one of which every such log has."""


@dataclass(frozen=True, slots=True)
class EngineLine:
    """One line that says something of a cache."""

    number: int
    """From 1."""
    name: str
    says: str
    values: Mapping[str, str]
    """The values of the line by name, as printed."""


@dataclass(frozen=True, slots=True)
class EngineConclusion:
    """A figure that follows from lines of a log."""

    name: str
    value: int
    unit: str
    because: str


@dataclass(frozen=True, slots=True)
class EngineLog:
    """The lines of one engine."""

    engine: str
    lines: tuple[EngineLine, ...]
    conclusions: tuple[EngineConclusion, ...]


@dataclass(frozen=True, slots=True)
class _Pattern:
    engine: str
    name: str
    line: re.Pattern[str]
    says: str


@cache
def _patterns() -> tuple[_Pattern, ...]:
    table = read_toml("service.engines_compared", "engine_logs.toml")["lines"]
    return tuple(_Pattern(row["engine"], row["name"], re.compile(row["line"]), row["says"]) for row in table)


def engine_log_of(log: str | CondensedLog) -> EngineLog | None:
    """Return what a log says of the caches of an engine beside vLLM; ``None``: nothing.

    A log without any of the engines' own words is not searched line by line.
    """
    if isinstance(log, str):
        return read_engine_log(enumerate(log.splitlines(), start=1)) if MARKS.search(log) else None
    return read_engine_log(line for line in log.numbered if MARKS.search(line[1]))


def read_engine_log(numbered: Iterable[tuple[int, str]]) -> EngineLog | None:
    """Return what numbered lines say of the caches of the engine they mention most; ``None``: of none."""
    found: dict[str, list[EngineLine]] = {}
    for number, line in numbered:
        for engine, reading in _readings(number, line[:LONGEST_LINE].rstrip()):
            readings = found.setdefault(engine, [])
            if len(readings) < MOST_READINGS:
                readings.append(reading)
    if not found:
        return None
    engine = max(found, key=lambda name: len(found[name]))
    conclude = _CONCLUSIONS[engine]
    return EngineLog(engine, tuple(found[engine]), tuple(conclude(found[engine])))


def _readings(number: int, line: str) -> Iterator[tuple[str, EngineLine]]:
    for pattern in _patterns():
        match = pattern.line.search(line)
        if match is not None:
            values = match.groupdict()
            yield pattern.engine, EngineLine(number, pattern.name, pattern.says.format(**values), values)
            return


def _named(lines: Iterable[EngineLine], name: str) -> Iterator[Mapping[str, str]]:
    return (line.values for line in lines if line.name == name)


def _of_llama_cpp(lines: list[EngineLine]) -> Iterator[EngineConclusion]:
    context = {values["what"]: int(values["value"]) for values in _named(lines, "context")}
    length = context.get("n_ctx_seq", context.get("n_ctx_per_seq"))
    if length is not None:
        yield EngineConclusion("longest_request", length, "tokens", "a sequence has n_ctx_seq cells")
    caches = list(_named(lines, "cache"))
    grown = [values for values in caches if length is None or int(values["cells"]) == length]
    bytes_per_cell = 0
    for values in grown:
        cells = int(values["cells"]) * int(values["streams"])
        bytes_per_cell += round(float(values["mib"]) * MIB / cells) if cells else 0
    if bytes_per_cell:
        because = "the size of the caches that grow with the context, divided by their cells"
        yield EngineConclusion("bytes_per_token", bytes_per_cell, "bytes", because)
    sizes = (*caches, *_named(lines, "states"))
    if sizes:
        size = round(sum(float(values["mib"]) for values in sizes) * MIB)
        yield EngineConclusion("cache_bytes", size, "bytes", "all caches and states together")


def _of_sglang(lines: list[EngineLine]) -> Iterator[EngineConclusion]:
    for values in _named(lines, "totals"):
        longest = min(int(values["tokens"]), int(values["context"])) - 1
        yield EngineConclusion(
            "longest_request", longest, "tokens", "one less than the pool's tokens, or than the context"
        )
        yield EngineConclusion("longest_prompt", longest - 5, "tokens", "five less than the longest request")
    for values in _named(lines, "pool"):
        size = (float(values["keys"]) + float(values["values"])) * GIB / max(1, int(values["tokens"]))
        yield EngineConclusion(
            "bytes_per_token", round(size), "bytes", "keys and values by tokens, on one rank"
        )
    for values in _named(lines, "mla_pool"):
        size = float(values["both"]) * GIB / max(1, int(values["tokens"]))
        yield EngineConclusion("bytes_per_token", round(size), "bytes", "the pool by its tokens, on one rank")


def _of_tensorrt_llm(lines: list[EngineLine]) -> Iterator[EngineConclusion]:
    for values in _named(lines, "shortened"):
        yield EngineConclusion(
            "longest_request", int(float(values["tokens"])), "tokens", "as the manager says"
        )
    for values in _named(lines, "blocks_per_sequence"):
        tokens = int(values["size"]) * int(values["blocks"])
        yield EngineConclusion("tokens", tokens, "tokens", "blocks by the tokens of a block")
    for values in _named(lines, "allocated"):
        size = float(values["gib"]) * GIB / max(1, int(values["tokens"]))
        yield EngineConclusion("bytes_per_token", round(size), "bytes", "what was allocated by its tokens")


_CONCLUSIONS: Final = {"llama.cpp": _of_llama_cpp, "sglang": _of_sglang, "tensorrt-llm": _of_tensorrt_llm}
