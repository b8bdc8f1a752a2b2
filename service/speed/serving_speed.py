"""The steady state of a workload on one start: tokens per second, times per token, and what binds them."""

from dataclasses import dataclass
from typing import Final

from service.speed.step_time import Bound, StepClock

MILLI: Final = 1e3
SOURCES: Final = {
    "calibrated": "a step's bytes and operations; held against measurements on compute capability "
    "{capability} (speed.toml)",
    "assumed": "a step's bytes and operations; this release not measured on compute capability {capability} "
    "(speed.toml)",
    "measured": "a step's bytes and operations, moved by measurements of this layout",
}
"""By basis."""


@dataclass(frozen=True, slots=True)
class Load:
    """The requests that one engine serves in its steady state."""

    prompt_tokens: float
    """Tokens of a prompt that are computed: those of a shared prefix are found in the cache."""
    context_tokens: float
    """Tokens of a request that attention reads, on average over its answer."""
    output_tokens: float
    running: float
    """Requests that run at once."""
    saturated: bool = False
    """Whether no more can run."""


@dataclass(frozen=True, slots=True)
class Between:
    """A figure with its interval."""

    low: float
    middle: float
    high: float

    def divided(self, by: float) -> "Between":
        """Return the figure divided by a number."""
        return Between(self.low / by, self.middle / by, self.high / by)

    def overlaps(self, other: "Between") -> bool:
        """Whether two figures may be equal."""
        return self.low <= other.high and other.low <= self.high


@dataclass(frozen=True, slots=True)
class Speed:
    """How fast one replica serves a workload, with an interval for each figure."""

    running_requests: int
    """Requests that run at once on all engines of all replicas."""
    tpot_ms: Between
    """Milliseconds between two tokens of one request, the prompts of others included."""
    output_tokens_per_second: Between
    """Of all replicas together."""
    per_request: Between
    """Output tokens per second of one request."""
    requests_per_second: Between
    """Requests that all replicas finish per second."""
    ttft_floor_ms: float
    """Least milliseconds to the first token: the prompt alone, at the peaks of the GPU."""
    ttft_ms: Between
    """Without waiting to be admitted."""
    floor_tpot_ms: float
    """No step is faster: bytes by the peak bandwidth."""
    bound: Bound
    saturated: bool
    """Whether as many requests run as can; more would wait to be admitted."""
    basis: str
    """``calibrated``: GPUs like it have measured rows. ``assumed``: they have none."""
    source: str


def serving_speed(
    clock: StepClock, load: Load, *, capability: str, engines: int, ratio: float | None = None
) -> Speed:
    """Return the speed of a start that runs so many requests on each of its engines.

    ``ratio``: measured divided by predicted time of a token on this layout, where it was measured.
    """
    constants = clock.constants
    prefill = load.running * load.prompt_tokens / load.output_tokens
    batches = clock.work.pipeline_parallel_size
    step = clock.step_time(load.running / batches, load.context_tokens, prefill / batches, load.prompt_tokens)
    first = clock.prompt_time(load.prompt_tokens)
    basis, factor = constants.band(capability, measured=ratio is not None)
    if clock.gpu.is_assumed and ratio is None:
        basis, factor = "assumed", constants.bands["assumed"]
    middle = max(step.floor, step.seconds * (1 if ratio is None else ratio))
    slowest, fastest = middle * factor, max(step.floor, middle / factor)
    # The part of a request's life in which it gets tokens; in the rest its own prompt is computed.
    share = load.output_tokens * middle / (first.seconds + load.output_tokens * middle)
    rate = Between(*(engines * load.running * share / seconds for seconds in (slowest, middle, fastest)))
    return Speed(
        running_requests=int(load.running * engines),
        tpot_ms=Between(fastest * MILLI, middle * MILLI, slowest * MILLI),
        output_tokens_per_second=rate,
        requests_per_second=rate.divided(load.output_tokens),
        per_request=Between(1 / slowest, 1 / middle, 1 / fastest),
        ttft_floor_ms=first.floor * MILLI,
        ttft_ms=Between(
            first.floor * MILLI, first.seconds * MILLI, first.seconds * constants.first_token_high * MILLI
        ),
        floor_tpot_ms=step.floor * MILLI,
        bound=step.bound,
        saturated=load.saturated,
        basis=basis,
        source=SOURCES[basis].format(capability=capability),
    )
