"""One step from a release to the next in an answer."""

from typing import Annotated

from pydantic import Field

from service.advisor.candidates.verdict import Verdict
from service.advisor.upgrade_intervals import uncertain_changes
from service.application.schemas.base import Output
from service.application.schemas.members import From


class OutcomeAnswer(Output):
    """What a release makes of the flags."""

    version: str = Field(description="The release")
    verdict: Verdict = Field(description="Whether the engine starts, and whether that is certain")
    error: str | None = Field(
        description="Type and words of the refusal; null where the release does not refuse"
    )
    tokens: int | None = Field(
        description="Tokens of the cache as the release logs them; null without a cache"
    )
    max_concurrency: float | None = Field(
        description="Requests of the maximum length that fit at once; null without a cache"
    )
    max_model_len: int | None = Field(
        description="Tokens of the longest request that the engine accepts; null without a cache"
    )
    block_size: int | None = Field(
        description="Tokens of one block; null where the start fails before it is chosen"
    )
    blocks_per_request: int | None = Field(
        description="Blocks of all groups that one request of the maximum length takes; null without a cache"
    )
    attention_backends: list[str] = Field(description="Attention backends, the backend of most layers first")
    available_kv_bytes: int | None = Field(
        description="Bytes that are left for the cache of one rank; null where the start fails before they "
        "are known"
    )
    available_kv_low_bytes: Annotated[
        int | None, From(lambda each: None if each.memory is None else each.memory.available_kv.low)
    ] = Field(description="10th percentile of `available_kv_bytes`; null where that is null")
    available_kv_high_bytes: Annotated[
        int | None, From(lambda each: None if each.memory is None else each.memory.available_kv.high)
    ] = Field(description="90th percentile of `available_kv_bytes`; null where that is null")
    doubt: str | None = Field(
        description="Why this version is planned with doubt; null where there is no doubt"
    )


class CauseAnswer(Output):
    """A rule that, changed by itself, changes the outcome."""

    rule: str = Field(
        description="Name of the rule, as GET /engines lists it, or `attention_backends` or `memory_budget`"
    )
    summary: str = Field(description="What the rule decides")
    source: str = Field(
        description="Release and function, or pull request, where the new behaviour can be read"
    )


class ComparedStartAnswer(Output):
    """The start that the releases are compared by."""

    version: str = Field(description="The newest of the compared releases, which chose this start")
    is_recommended: bool = Field(
        description="Whether that release recommends it; false where it recommends none, and this is the "
        "start nearest to one"
    )
    gpus: Annotated[int, From("candidate.gpus")] = Field(description="GPUs of one replica")
    tensor_parallel_size: Annotated[int, From("candidate.tensor_parallel_size")] = Field(
        description="Tensor parallel ranks"
    )
    kv_cache_dtype: Annotated[str, From("candidate.kv_cache_dtype")] = Field(
        description="Value of `--kv-cache-dtype`"
    )
    command: Annotated[str, From("candidate.command")] = Field(description="The `vllm serve` line of it")


class UpgradeAnswer(Output):
    """One step from a release to the next on one GPU type."""

    gpu: str = Field(description="Id of the GPU type")
    start: ComparedStartAnswer = Field(
        description="The start that is compared on both releases: what the newest of those named recommends"
    )
    before: OutcomeAnswer = Field(description="What the earlier named release makes of the flags")
    after: OutcomeAnswer = Field(description="What the later named release makes of the flags")
    changed: list[str] = Field(
        description="Names of the members of the outcome that differ; empty where nothing changes"
    )
    within_uncertainty: Annotated[list[str], From(uncertain_changes)] = Field(
        description="Those of `changed` that follow from an estimate of memory, and whose intervals on the "
        "two releases overlap: the difference may be none"
    )
    causes: list[CauseAnswer] = Field(
        description="Rules that change the outcome, each found by planning with that one rule changed"
    )
