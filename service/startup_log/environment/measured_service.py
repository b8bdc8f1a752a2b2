"""What a text says about the speed of a running engine: a benchmark's result, or the page of its metrics."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from service.redaction import HIDDEN
from service.startup_log.text.lines import LogLine

BEGINNING: Final = "Serving Benchmark Result"
"""vLLM 0.10.2 to 0.33.0, benchmarks/serve.py: the head of what ``vllm bench serve`` prints."""
OUTPUT_RATE: Final = ("Output token throughput (tok/s)", f"Output token {HIDDEN} (tok/s)")
"""The rate of tokens; the word behind "token" is masked in logs like a secret."""
LONGEST_BLOCK: Final = 60
"""Lines of one result at most."""
MOST_BLOCKS: Final = 64
MOST_TOKENS: Final = 1 << 30
"""Tokens of one request and requests at once: a greater figure is none of these."""
METRIC_PREFIX: Final = "vllm:"
MOST_METRICS: Final = 20_000
MILLI: Final = 1e3

_FIGURE: Final = re.compile(r"^\s*([A-Z][\w *()/-]{2,60}):\s{1,60}(-?\d[\d.]{0,30})\s*$")
_SAMPLE: Final = re.compile(
    r"^(vllm:[a-z_:]{1,100})(?:\{[^}]{0,4000}\})? {1,4}"
    r"(-?(?:[0-9]{1,24}(?:\.[0-9]{0,24})?|\.[0-9]{1,24})(?:e[+-]?[0-9]{1,3})?)\s*$"
)
_LABEL: Final = re.compile(r'([a-z_]{1,60})="([^"]{0,300})"')


@dataclass(frozen=True, slots=True)
class MeasuredService:
    """Figures of an engine that serves."""

    line: int
    """Where they begin, counted from 1 in the text."""
    prompt_tokens: float
    """Of one request, on average."""
    output_tokens: float
    concurrency: float
    """Requests at once, on average over the measurement."""
    tpot_ms: float
    """Median, or mean where there is no median."""
    ttft_ms: float | None
    output_tokens_per_second: float | None


@dataclass(frozen=True, slots=True)
class ServedCache:
    """The cache of an engine that serves, as its metrics say."""

    line: int
    num_gpu_blocks: int
    block_size: int | None


def benchmark_results(lines: Sequence[LogLine]) -> Iterator[MeasuredService]:
    """Yield the results of ``vllm bench serve`` in a text."""
    heads = [place for place, line in enumerate(lines) if BEGINNING in line.text]
    for place in heads[:MOST_BLOCKS]:
        figures = dict(_figures(lines[place + 1 : place + LONGEST_BLOCK]))
        found = _of_block(lines[place].number, figures)
        if found is not None:
            yield found


def _figures(lines: Iterable[LogLine]) -> Iterator[tuple[str, float]]:
    for line in lines:
        if BEGINNING in line.text:
            return
        match = _FIGURE.match(line.text)
        if match is not None and match[2].count(".") <= 1:
            yield match[1], float(match[2])


def _of_block(line: int, figures: dict[str, float]) -> MeasuredService | None:
    """Return the result of a block; ``None`` where it lacks what a speed is computed from."""
    requests = figures.get("Successful requests", 0)
    tpot = figures.get("Median TPOT (ms)") or figures.get("Mean TPOT (ms)")
    tokens = next((figures[name] for name in OUTPUT_RATE if name in figures), None)
    outputs, inputs = figures.get("Total generated tokens", 0), figures.get("Total input tokens", 0)
    if not (requests and tpot and outputs):
        return None
    # Without a limit, by Little's law, as many requests run as the rate of tokens by the time of one.
    running = figures.get("Maximum request concurrency") or (tokens or 0) * tpot / MILLI
    if not running or max(inputs / requests, outputs / requests, running) > MOST_TOKENS:
        return None
    return MeasuredService(
        line=line,
        prompt_tokens=inputs / requests,
        output_tokens=outputs / requests,
        concurrency=min(running, requests),
        tpot_ms=tpot,
        ttft_ms=figures.get("Median TTFT (ms)") or figures.get("Mean TTFT (ms)"),
        output_tokens_per_second=tokens,
    )


@dataclass(frozen=True, slots=True)
class _Metrics:
    """Samples of a page of metrics, those of several engines added."""

    line: int
    sums: dict[str, float]

    def mean(self, *names: str) -> float | None:
        """Return the mean of the first histogram of these names that has observations."""
        for name in names:
            count = self.sums.get(f"{name}_count", 0)
            if count > 0:
                return self.sums.get(f"{name}_sum", 0) / count
        return None


def engine_metrics(lines: Sequence[LogLine]) -> MeasuredService | None:
    """Return what the page of metrics of a running engine says; ``None`` where nothing was served.

    Source: vLLM 0.10.2 to 0.33.0, v1/metrics/loggers.py.
    """
    metrics = _samples(lines)
    if metrics is None:
        return None
    prompt, output = (
        metrics.mean("vllm:request_prompt_tokens"),
        metrics.mean("vllm:request_generation_tokens"),
    )
    seconds = metrics.mean(
        "vllm:request_time_per_output_token_seconds",
        "vllm:time_per_output_token_seconds",
        "vllm:inter_token_latency_seconds",
    )
    running = metrics.sums.get("vllm:num_requests_running", 0)
    first = metrics.mean("vllm:time_to_first_token_seconds")
    if not prompt or not output or not seconds or running < 1:
        return None
    if max(prompt, output, running) > MOST_TOKENS:
        return None
    return MeasuredService(
        line=metrics.line,
        prompt_tokens=prompt,
        output_tokens=output,
        concurrency=running,
        tpot_ms=seconds * MILLI,
        ttft_ms=None if first is None else first * MILLI,
        output_tokens_per_second=None,
    )


def served_cache(lines: Iterable[LogLine]) -> ServedCache | None:
    """Return the cache that the metrics of a running engine state."""
    for line in lines:
        if line.text.startswith("vllm:cache_config_info{"):
            labels = dict(_LABEL.findall(line.text))
            blocks, size = labels.get("num_gpu_blocks", ""), labels.get("block_size", "")
            if blocks.isdecimal():
                return ServedCache(line.number, int(blocks), int(size) if size.isdecimal() else None)
    return None


def _samples(lines: Iterable[LogLine]) -> _Metrics | None:
    sums: dict[str, float] = {}
    first, count = 0, 0
    for line in lines:
        if not line.text.startswith(METRIC_PREFIX) or count >= MOST_METRICS:
            continue
        match = _SAMPLE.match(line.text)
        if match is None or match[1].endswith("_bucket"):
            continue
        first, count = first or line.number, count + 1
        sums[match[1]] = sums.get(match[1], 0) + float(match[2])
    return _Metrics(first, sums) if sums else None
