"""Flags of the engine that hold an object."""

from typing import Annotated

from pydantic import Field

from service.application.schemas.base import Input
from service.application.schemas.flags.flag_types import (
    MAX_DRAFT_TOKENS,
    MAX_RANKS,
    Count,
    Name,
    Pixels,
    Ranks,
    Tokens,
)
from service.engines.speculative_config import SpeculativeConfig


class MediaLimitInput(Input):
    """Items of one modality in a prompt, and the sizes that the profile run takes for them."""

    count: Count | None = Field(default=None, description="Number of items of one prompt, at most; null: 999")
    width: Pixels | None = Field(
        default=None,
        description="Number of pixels of a profiled item's width; null: the largest that the model takes",
    )
    height: Pixels | None = Field(
        default=None,
        description="Number of pixels of a profiled item's height; null: the largest that the model takes",
    )
    num_frames: Pixels | None = Field(
        default=None, description="Number of frames of a profiled video; null: the most that the model takes"
    )
    length: Tokens | None = Field(
        default=None,
        description="Number of samples of profiled sound; null: the longest that the model takes",
    )


class EplbInput(Input):
    """How experts are moved between ranks, by the engine's own keys. One left out takes the default."""

    num_redundant_experts: Annotated[int, Field(ge=0, le=MAX_RANKS)] | None = Field(
        default=None,
        description="Number of experts that are stored beside the model's own, on all ranks; null: none",
    )
    window_size: Tokens | None = Field(
        default=None,
        description="Number of steps over which the load of experts is counted; null: the default",
    )
    step_interval: Tokens | None = Field(
        default=None, description="Number of steps between two arrangements of experts; null: the default"
    )
    log_balancedness: bool | None = Field(
        default=None, description="Log how even the load is; null: the default"
    )
    log_balancedness_interval: Tokens | None = Field(
        default=None, description="Number of steps between two such lines; null: the default"
    )
    use_async: bool | None = Field(
        default=None, description="Move experts while requests run; null: the default"
    )
    policy: Name | None = Field(default=None, description="How experts are arranged; null: the default")
    communicator: Name | None = Field(
        default=None, description="What moves experts between ranks; null: the engine's choice"
    )


class SpeculativeInput(Input):
    """Speculative decoding, by the engine's own keys.

    One left out (or null) takes the release's own default.
    """

    method: Name | None = Field(
        default=None,
        description="`mtp` (or an older spelling of it), `dspark`, `eagle`, `eagle3`, `draft_model`, "
        "`ngram`, `suffix`",
    )
    model: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        default=None,
        description="Id of the draft model on the Hub; layers in the model's own checkpoint "
        "(`mtp`, `dspark`) need none",
    )
    num_speculative_tokens: Annotated[int, Field(ge=1, le=MAX_DRAFT_TOKENS)] | None = Field(
        default=None, description="Draft tokens of one request in one step"
    )
    draft_tensor_parallel_size: Ranks | None = Field(
        default=None, description="Ranks that share the draft model"
    )
    prompt_lookup_max: Tokens | None = Field(
        default=None, description="Most tokens that are looked up in the prompt"
    )
    prompt_lookup_min: Tokens | None = Field(
        default=None, description="Fewest tokens that are looked up in the prompt"
    )
    quantization: Name | None = Field(
        default=None, description="Method of the draft model's quantized weights"
    )
    max_model_len: Tokens | None = Field(
        default=None, description="Tokens of the draft model's longest request"
    )
    revision: Annotated[str, Field(min_length=1, max_length=128)] | None = Field(
        default=None, description="Branch, tag or commit of the draft model"
    )
    parallel_drafting: bool | None = Field(default=None, description="Compute all draft tokens in one pass")
    disable_padded_drafter_batch: bool | None = Field(
        default=None, description="Put requests of different lengths in one batch of the draft model"
    )
    use_heterogeneous_vocab: bool | None = Field(
        default=None, description="Allow a draft model with another vocabulary"
    )
    suffix_decoding_max_tree_depth: Annotated[int, Field(ge=1, le=MAX_DRAFT_TOKENS)] | None = Field(
        default=None, description="Most draft tokens of `suffix` where `num_speculative_tokens` is left out"
    )

    def parsed(self) -> SpeculativeConfig:
        """Return the engine's speculative configuration."""
        return SpeculativeConfig(**self.model_dump())
