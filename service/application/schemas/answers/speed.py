"""How fast a candidate serves the workload and what that costs, in an answer."""

from typing import Annotated, Final

from pydantic import BeforeValidator, Field
from pydantic.json_schema import SkipJsonSchema

from service.application.schemas.base import SURVEYED, Output, optional
from service.application.schemas.members import In, Numbered
from service.speed.prices import PriceKind
from service.speed.step_time import Bound

DIGITS: Final = 4
"""Significant digits of a figure whose interval is wider than a tenth."""


def rounded(value: float) -> float:
    """Return a figure with the digits that mean something."""
    return float(f"{value:.{DIGITS}g}")


Figure = Annotated[float, BeforeValidator(rounded)]


class BetweenAnswer(Output):
    """A figure with its interval, which holds about 80 of 100 measurements."""

    low: Figure = Field(description="Least value of the interval, in the unit of the figure")
    middle: Figure = Field(description="Expected value, in the unit of the figure")
    high: Figure = Field(description="Greatest value of the interval, in the unit of the figure")


class SpeedAnswer(Output):
    """How fast the candidate serves the workload in its steady state, with all replicas."""

    running_requests: int = Field(
        description="Requests that run at once: those of the workload, as far as `max_num_seqs` and the "
        "release's scheduler admit them"
    )
    tpot_ms: BetweenAnswer = Field(
        description="Milliseconds between two tokens of one request; prompts of others are computed between"
    )
    output_tokens_per_second: BetweenAnswer = Field(
        description="Output tokens per second of all running requests"
    )
    per_request: Annotated[BetweenAnswer | SkipJsonSchema[None], In("derived")] = optional(
        f"Output tokens per second of one request: 1000 / `tpot_ms`. {SURVEYED}"
    )
    requests_per_second: Annotated[BetweenAnswer | SkipJsonSchema[None], In("derived")] = optional(
        "Requests that end per second: `output_tokens_per_second` by the output tokens of a request. "
        f"{SURVEYED}"
    )
    ttft_floor_ms: Annotated[Figure | SkipJsonSchema[None], In("derived")] = optional(
        "Least milliseconds to the first token: the prompt alone at the peaks of the GPU, as `ttft_ms.low`. "
        f"No promise: requests that arrive together wait for each other's prompts. {SURVEYED}"
    )
    ttft_ms: BetweenAnswer = Field(
        description="Milliseconds to the first token from the floor on; `high` is what nine of ten "
        "measurements stay below, bursts included. Waiting to be admitted is not in it"
    )
    floor_tpot_ms: Annotated[Figure | SkipJsonSchema[None], In("derived")] = optional(
        "No step is faster: bytes by the peak of the memory, or operations by that of the tensor cores. "
        f"{SURVEYED}"
    )
    bound: Bound = Field(description="What takes most of the time of a step")
    basis: str = Field(
        description="`measured`: measurements of this layout moved it. `calibrated`: GPUs of this compute "
        "capability have measured rows. `assumed`: they have none, and the interval is wider"
    )
    source: Annotated[str, Numbered()] = Field(description="Where the figures come from: an id of `sources`")


class PriceAnswer(Output):
    """The price of one GPU type."""

    usd_per_gpu_hour: float = Field(description="US dollars for an hour of each of the GPUs")
    kind: PriceKind = Field(description="On what terms it is paid")
    provider: str = Field(description="Who asks it")
    as_of: str | None = Field(description="Day on which it was published; null where that is not known")
    source: Annotated[str, Numbered()] = Field(description="Where it was published: an id of `sources`")


class CostAnswer(Output):
    """What the candidate costs while it serves the workload."""

    usd_per_hour: Figure = Field(description="US dollars for an hour of all GPUs of all replicas")
    usd_per_million_output_tokens: BetweenAnswer = Field(
        description="US dollars for a million output tokens; the interval is that of the speed alone"
    )
    price: PriceAnswer = Field(description="The price that it is computed with")
