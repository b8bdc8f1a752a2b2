"""Why the engine does not start, and what gets past it."""

from typing import Annotated

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from service.advisor.candidates.verdict import Verdict
from service.application.schemas.base import Output, optional
from service.application.schemas.members import WholeOnce
from service.engines.refusal import Stage


class FixAnswer(Output):
    """A single change with which the same start was planned and does not fail."""

    change: str = Field(
        description="The change in words: a flag with its value, a release, a patch or a checkpoint"
    )
    words: str = Field(description="The same as `change`")
    verdict: Verdict = Field(description="Whether the changed start starts, and whether that is certain")
    tokens: int | None = Field(
        description="Tokens of its cache, as the release logs them; null without a cache"
    )
    max_concurrency: float | None = Field(
        description="Requests of the maximum length that fit at once; null without a cache"
    )
    gpus: int = Field(description="GPUs of the changed start")
    command: str = Field(description="The command that starts it")
    checkpoint: str | SkipJsonSchema[None] = optional(
        "Id of the checkpoint with quantized weights that the change is to. Left out where it is to none"
    )
    weight_bytes: int | SkipJsonSchema[None] = optional(
        "Bytes of that checkpoint's weights: of its files where these are known, else computed from the "
        "layout that its name stands for. Left out where `checkpoint` is"
    )
    warning: str | SkipJsonSchema[None] = optional(
        "Why the memory of the changed start may run out under load. Left out where it leaves enough"
    )
    logged_cache_bytes: int | SkipJsonSchema[None] = optional(
        "Bytes for the cache that follow from the log, of which `tokens` and `max_concurrency` are. Left out "
        "where both are of the memory that a plan of `command` estimates"
    )


class ErrorAnswer(Output):
    """Why the engine does not start, or may not."""

    type: str = Field(description="Name of the exception that the engine raises")
    message: Annotated[str, WholeOnce()] = Field(
        description="The engine's own words. Where more than four GPU types are planned at once, long words "
        "are whole with the first of them, and end in ` ...` where they are repeated, unless `include` has "
        "`candidates`"
    )
    stage: Stage = Field(description="The step of the start at which the engine gives up")
    detail: str = Field(
        description="The numbers behind the engine's words, where it does not print them; empty otherwise"
    )
    fix: list[str] = Field(
        description="The changes of `fixes`, each in words; empty where none was found or looked for"
    )
    fixes: list[FixAnswer] = Field(
        description="Single changes with which the same start was planned and does not fail; empty where "
        "none was found or looked for. They change what was asked, not what a search added to it"
    )
    notes: list[str] = Field(
        description="What else to know about ways past it, in sentences, such as ids of quantized "
        "checkpoints; empty where there is nothing to say"
    )
