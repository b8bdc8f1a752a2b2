"""The requests that an engine is to serve, and what was measured of such."""

from typing import Annotated, Final

from pydantic import Field

from service.application.schemas.base import Input
from service.application.schemas.flags.flag_types import MAX_TOKENS, as_written
from service.engines.flag_values import read_count

Milliseconds = Annotated[float, Field(gt=0, le=1e9)]
MAX_MEASURED: Final = 64
PromptTokens = Annotated[int, Field(ge=1, le=MAX_TOKENS), as_written(read_count)]
"""A prompt's tokens, with a unit where they are text."""
TokenCount = Annotated[int, Field(ge=0, le=MAX_TOKENS), as_written(read_count)]


class MeasuredInput(Input):
    """The time of a token, measured on the start that is planned."""

    concurrent_requests: Annotated[int, Field(ge=1, le=1 << 20)] = Field(
        description="Requests at the same time"
    )
    tpot_ms: Milliseconds = Field(description="Median value of the time between two tokens, in milliseconds")


class WorkloadInput(Input):
    """The requests that the engine is to serve."""

    prompt_tokens: PromptTokens = Field(description="Tokens of a prompt; `32k` is 32,000 and `32K` is 32,768")
    output_tokens: TokenCount = Field(default=0, description="Tokens of an answer")
    concurrent_requests: Annotated[int, Field(ge=1, le=1 << 20)] = Field(
        default=1, description="Requests at the same time"
    )
    request_rate: Annotated[float, Field(gt=0, le=1e6)] | None = Field(
        default=None,
        description="Requests that arrive per second: as many run as then overlap. Left out: a new one "
        "arrives when another ends",
    )
    max_tpot_ms: Milliseconds | None = Field(
        default=None, description="Most milliseconds between two tokens of an answer; left out: no limit"
    )
    max_ttft_ms: Milliseconds | None = Field(
        default=None, description="Most milliseconds to the first token; left out: no limit"
    )
    shared_prefix_tokens: TokenCount = Field(
        default=0,
        description="Tokens at the start of all prompts that are alike: they are found in the cache and not "
        "computed again",
    )
    measured: Annotated[list[MeasuredInput], Field(max_length=MAX_MEASURED)] = Field(
        default_factory=list,
        description="What `vllm bench serve` measured of this very start with such prompts and answers: two "
        "concurrencies move the speed at others between them. With `search` false alone",
    )
