"""Limits of a batch, how batches are scheduled, and which model runner runs them."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from service.engines.cases import BatchDefaults


class AsyncScheduling(StrEnum):
    """Whether asynchronous scheduling is on by default."""

    OFF = "off"
    UNLESS_PIPELINED = "unless_pipelined"
    UNLESS_STATES_ARE_CACHED = "unless_states_are_cached"
    ON = "on"


@dataclass(frozen=True, slots=True)
class BatchRules:
    """Limits of a batch, how batches are scheduled, and which model runner runs them."""

    whole_prompts: bool
    """Whether batches must hold a prompt of the maximum length where prompts are not chunked."""
    defaults: tuple[BatchDefaults, ...]
    """Default max_num_batched_tokens and max_num_seqs of the API server, by device memory; the first that
    applies.
    """
    bounded_by_requests: bool
    """Whether the default batch is at most what all requests together can hold."""
    offload_keeps_batch: bool
    """Whether --cpu-offload-gb goes with one group of layers alone, as the batch may not be set up anew."""
    media_item_sets_batch: bool
    """Whether the largest media item raises the default batch of models that see media both ways."""
    bidirectional_media_types: frozenset[str]
    """Model types whose image tokens see each other both ways, so that few backends serve them."""
    encoder_budget_is_batch: bool
    """Whether cross attention keeps room for a whole batch of encoder tokens, not for the model's longest
    input.
    """
    encoder_request_is_batch: bool
    """Whether a running request holds a whole batch of encoder tokens, not those of its own input."""
    encoders_batch_whole_prompts: bool
    """Whether a decoder with cross attention has batches of its maximum length at least, as it cannot
    chunk prompts.
    """
    async_scheduling: AsyncScheduling
    """Whether asynchronous scheduling is on by default."""
    v2_model_runner: frozenset[str]
    """Models that run on the V2 model runner: `all`, `dense` ones without recurrent layers, or by
    class.
    """
    partial_prefills_refusal: str | None
    """What the engine says where several prompts are to be computed piece by piece at once; empty: it starts
    its older engine.
    """
    expert_batches: Mapping[str, int]
    """Default max_num_batched_tokens by the way in which tokens are sent to experts of other replicas."""
    default_requests: Mapping[str, int]
    """Requests at once by class, in place of 128 and more: the memory of its sampler bounds them."""
    v2_model_runner_offloads: bool
    """Whether the V2 model runner moves weights to the host's memory."""
    v2_model_runner_lacks: Mapping[str, str]
    """What the V2 model runner cannot run, in the engine's words, by what a start has of it: `states`,
    `aligned_states`, `all_states`, `half_batches`.
    """
    v2_model_runner_refusal: str
    """What the engine says where the V2 model runner is asked for something that it cannot run; empty:
    nothing.
    """
