"""The cache in an answer: its groups, what a request wastes of it, and which prefixes it gives back."""

from typing import Annotated

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from service.application.schemas.base import SURVEYED_LAYOUT, Output, optional
from service.application.schemas.members import In


class GroupAnswer(Output):
    """Layers that share one block table."""

    kind: str = Field(
        description="What the layers of the group keep, such as `full_attention` or `sliding_window`"
    )
    layers: int = Field(description="Number of layers of the group on the first pipeline stage")
    block_size: int = Field(description="Tokens of one block")
    page_size_bytes: int = Field(
        description="Bytes of one block of one layer, padding included; of all layers together for "
        "`uniform_type`"
    )
    unpadded_page_size_bytes: int = Field(description="The same without padding, in bytes")
    blocks_per_request: int = Field(
        description="Blocks that one request of the maximum length takes from the pool"
    )


class KvCacheAnswer(Output):
    """What the engine makes of the cache memory."""

    available_bytes: Annotated[int | SkipJsonSchema[None], In("layout")] = optional(
        f"Bytes of cache of the rank that has the least. {SURVEYED_LAYOUT}"
    )
    num_blocks: Annotated[int | SkipJsonSchema[None], In("layout")] = optional(
        f"Blocks of the pool, after any override. {SURVEYED_LAYOUT}"
    )
    bytes_per_block: Annotated[int | SkipJsonSchema[None], In("layout")] = optional(
        f"Bytes that one block takes over all layers of a rank of the first pipeline stage. {SURVEYED_LAYOUT}"
    )
    tokens: int = Field(
        description="Tokens that the release logs as the size of its cache; releases count them in "
        "different ways, and some log more than one request can use"
    )
    max_concurrency: float = Field(description="Requests of the maximum length that fit at once, unrounded")
    max_model_len: int = Field(
        description="Tokens of the longest request that the engine accepts: what `max_model_len` says or, "
        "where it is -1 or `auto`, what the engine fits to the memory"
    )
    max_model_len_low: int | SkipJsonSchema[None] = optional(
        "The same with the least memory that may be left, in tokens, where `max_model_len` is -1 or `auto`: "
        "a real start fits a length from this to `max_model_len_high`; left out elsewhere"
    )
    max_model_len_high: int | SkipJsonSchema[None] = optional(
        "The same with the most memory that may be left, in tokens; left out where `max_model_len_low` is"
    )
    estimated_max_model_len: Annotated[int | SkipJsonSchema[None], In("layout")] = optional(
        f"Tokens of the longest request that fits into the cache, at most `max_model_len`. {SURVEYED_LAYOUT}"
    )
    log_lines: Annotated[list[str] | SkipJsonSchema[None], In("cache")] = optional(
        "The lines that the release logs about its cache, word for word. Left out unless `include` has "
        "`cache`"
    )
    groups: Annotated[list[GroupAnswer] | SkipJsonSchema[None], In("cache")] = optional(
        "KV cache groups of the first pipeline stage: layers that share one block table. Left out unless "
        "`include` has `cache`"
    )


class GroupWasteAnswer(Output):
    """Bytes that one request of the maximum length takes in one group."""

    kind: str = Field(
        description="What the layers of the group keep, such as `full_attention` or `sliding_window`"
    )
    taken_bytes: int = Field(description="Bytes of the blocks that the request takes in this group")
    ideal_bytes: int = Field(description="Bytes of its tokens and its last state alone")
    reserve_bytes: int = Field(
        description="Bytes of tokens held for steps in flight, and of all states but the last"
    )
    rounding_bytes: int = Field(description="Bytes of the part of the last blocks that is not filled")
    padding_bytes: int = Field(
        description="Bytes by which pages are padded, to the size of other pages or to what kernels need"
    )
    idle_bytes: int = Field(description="Bytes of blocks that have room for more layers than the group has")


class WasteAnswer(Output):
    """Bytes that one request of the maximum length takes of a rank, and what it would need at best."""

    taken_bytes: int = Field(description="Bytes of the blocks that the request takes in all groups")
    ideal_bytes: int = Field(description="Bytes of its tokens and last states alone")
    percent: float = Field(description="Percent of `taken_bytes` that is not in `ideal_bytes`")
    groups: list[GroupWasteAnswer] = Field(description="The same for each KV cache group")


class PrefixReuseAnswer(Output):
    """Which shared prefixes the cache gives back to later requests, so that they are not computed again."""

    step_tokens: int | None = Field(
        description="Tokens between two places at which a cached prefix can end; null where prefixes are not "
        "cached"
    )
    smallest_prefix_tokens: int | None = Field(
        description="Tokens that two prompts must have in common before anything is found in the cache; null "
        "where prefixes are not cached"
    )
    blocks: int | None = Field(
        description="Blocks of all groups that such a prefix takes; null where prefixes are not cached"
    )
    kept_when_idle: int | None = Field(
        description="Prefixes of so many tokens that stay in an idle engine; null where none are cached"
    )
    kept_beside_workload: int | None = Field(
        description="Of these, those that stay while the requests of the workload run, each at its peak; "
        "null without a workload, or where prefixes are not cached"
    )
    explanation: str = Field(description="The same in words, and why nothing is found again if so")
