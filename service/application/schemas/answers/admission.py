"""How many requests of a workload run at once, in an answer."""

from typing import Annotated

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from service.advisor.candidates.admission import Waiting
from service.application.schemas.base import Output, optional
from service.application.schemas.members import From, In, itself


class GroupAdmissionAnswer(Output):
    """Blocks that one request of the workload takes of one KV cache group."""

    kind: str = Field(
        description="What the layers of the group keep, such as `full_attention` or `sliding_window`"
    )
    counted_tokens: int = Field(
        description="Tokens of the prompt that the release counts in this group before it admits the request"
    )
    blocks: int = Field(description="Blocks of this group that must be free before the request is admitted")
    whole_prompt_blocks: int = Field(
        description="Blocks that would have to be free if the whole prompt were counted, windows included"
    )
    blocks_after_prefill: int = Field(
        description="Blocks of this group that the request holds once its prompt has been processed"
    )
    peak_decode_blocks: int = Field(
        description="Most blocks of this group that the request holds while its answer is generated"
    )


class AdmissionBlocksAnswer(Output):
    """Blocks that one request of the workload takes, and needs free before it is admitted."""

    prompt_tokens: int = Field(description="Tokens of the workload's prompt")
    groups: list[GroupAdmissionAnswer] = Field(description="The same counts for each KV cache group")
    blocks: int = Field(description="Blocks of all groups that must be free before a request is admitted")
    whole_prompt_blocks: int = Field(
        description="Blocks of all groups that would have to be free if the whole prompt were counted, "
        "windows included"
    )
    sliding_window_blocks: int = Field(description="How many of `blocks` are of sliding-window groups")
    whole_sliding_window_blocks: int = Field(
        description="How many of `whole_prompt_blocks` are of sliding-window groups"
    )
    peak_prefill_blocks: int = Field(
        description="Most blocks that one request holds while its prompt is processed"
    )
    blocks_after_prefill: int = Field(
        description="Blocks that one request holds once its prompt has been processed"
    )
    peak_decode_blocks: int = Field(
        description="Most blocks that one request holds while its answer is generated"
    )
    free_blocks: int = Field(description="Free blocks of an idle engine: all but the null block")
    admitted_by_whole_prompts: int = Field(
        description="Requests that would be admitted if the whole prompt were counted, windows included"
    )


class AdmissionAnswer(Output):
    """How many requests of the workload run at once."""

    admitted_at_once: int = Field(
        description="Requests of the workload that one engine admits, each after the prompt of the one "
        "before was processed. Every data parallel rank of every replica is an engine with a cache of its own"
    )
    completed_without_preemption: int = Field(
        description="Requests that one engine runs together to their end without one of them being preempted"
    )
    waits_for: Waiting = Field(
        description="What the next request of an engine's part of the workload waits for"
    )
    explanation: Annotated[str | SkipJsonSchema[None], In("cache")] = optional(
        "The counts and what they mean, in sentences. Left out unless `include` has `cache`"
    )
    blocks: Annotated[AdmissionBlocksAnswer | SkipJsonSchema[None], In("cache"), From(itself)] = optional(
        "Blocks of one request, by which the engine admits it. Left out unless `include` has `cache`"
    )
