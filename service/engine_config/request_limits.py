"""The longest request, and the most tokens and requests of one batch."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from service.architecture.model import ModelArchitecture
from service.engine_config.environment import allows_long_context
from service.engine_config.graph_modes import THROUGHPUT
from service.engine_config.max_model_len import resolve_max_model_len
from service.engine_config.speculation import Speculation
from service.engines.cases import BatchDefaults
from service.engines.engine_rules import EngineRules
from service.engines.flags import ServeFlags
from service.engines.rules.batches import BatchRules
from service.gpus.gpu_type import GpuType
from service.units import GIB

DEFAULT_REQUESTS: Final = 128
"""Requests at once from which on a class takes its own number: vLLM 0.24.0, SchedulerConfig."""


@dataclass(frozen=True, slots=True)
class Length:
    """The length that the flags ask for, before a draft limits it."""

    tokens: int
    is_fitted: bool
    """Whether the engine shortens it to what fits the memory."""


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """What bounds the requests of a start."""

    max_model_len: int
    fit_max_model_len: bool
    max_num_batched_tokens: int
    max_num_seqs: int

    @classmethod
    def of(  # noqa: PLR0913, PLR0917 - what the limits depend on
        cls,
        architecture: ModelArchitecture,
        flags: ServeFlags,
        rules: EngineRules,
        defaults: BatchDefaults,
        length: Length,
        drafted: Speculation | None = None,
    ) -> "RequestLimits":
        """Return the limits of a start with defaults of its GPU type; ``drafted``: what drafts tokens."""
        tokens = _limited(length.tokens, flags, drafted, rules)
        batched, seqs = _batch(architecture, flags, rules.batches, defaults, tokens)
        if seqs >= DEFAULT_REQUESTS:
            seqs = rules.batches.default_requests.get(architecture.class_name, seqs)
        return cls(tokens, length.is_fitted, batched, seqs)

    @property
    def but_length(self) -> tuple[bool, int, int]:
        """All but the length, of which they may follow."""
        return self.fit_max_model_len, self.max_num_batched_tokens, self.max_num_seqs


def resolve_length(architecture: ModelArchitecture, flags: ServeFlags, rules: EngineRules) -> Length:
    """Return the length that the flags ask for, or that of the model.

    Raises:
        EngineRefusal: the request exceeds what the config allows (stage ``config``).
    """
    tokens, fits = resolve_max_model_len(
        flags.max_model_len,
        architecture,
        rules.lengths,
        rules.release,
        allows_longer=allows_long_context(flags, rules.release),
    )
    return Length(tokens, fits)


def limits_inputs(flags: ServeFlags) -> tuple[Hashable, ...]:
    """Return what the limits depend on of the flags, beside the length and the runner."""
    return (
        flags.max_num_batched_tokens,
        flags.max_num_seqs,
        flags.performance_mode,
        flags.enable_chunked_prefill,
        flags.enable_expert_parallel,
        flags.data_parallel_size,
        flags.all2all_backend,
        flags.language_model_only,
        flags.speculative_config,
        flags.environment,
    )


def only_limits_read_the_length(architecture: ModelArchitecture, flags: ServeFlags) -> bool:
    """Whether starts with other lengths, and limits that are otherwise equal, differ in the length alone.

    States may be stored once a request, so that a block of them has the length; encoders and prompts that
    are not chunked are refused by it; a draft has a length of its own; a pooling model's batch may have it.
    """
    return not (
        architecture.is_recurrent
        or architecture.pooling is not None
        or architecture.encoder_tokens is not None
        or flags.enable_chunked_prefill is False
        or flags.mamba_block_size is not None
        or flags.speculative_config is not None
    )


def _limited(max_model_len: int, flags: ServeFlags, drafted: Speculation | None, rules: EngineRules) -> int:
    """Return the context length, limited to that of a whole model that drafts.

    Source: vLLM 0.33.0, VllmConfig._limit_max_model_len_to_draft.
    """
    draft, config = (None, None) if drafted is None else (drafted.draft, flags.speculative_config)
    if not rules.lengths.draft_limits or draft is None or config is None or draft.whole is None:
        return max_model_len
    longest, _ = resolve_max_model_len(None, draft.whole, rules.lengths, rules.release)
    return min(max_model_len, config.max_model_len or longest, longest)


def _batch(
    architecture: ModelArchitecture,
    flags: ServeFlags,
    rules: BatchRules,
    defaults: BatchDefaults,
    max_model_len: int,
) -> tuple[int, int]:
    """Return max_num_batched_tokens and max_num_seqs.

    Source: vLLM 0.32.0, EngineArgs._set_default_max_num_seqs_and_batched_tokens_args.
    """
    factor = 2 if flags.performance_mode == THROUGHPUT else 1
    seqs = flags.max_num_seqs or factor * defaults.seqs
    if flags.max_num_batched_tokens is not None:
        return flags.max_num_batched_tokens, min(seqs, flags.max_num_batched_tokens)
    tokens = factor * (_expert_batch(flags, rules) or defaults.tokens)
    whole = architecture.encoder_tokens is not None and rules.encoders_batch_whole_prompts
    if whole or flags.enable_chunked_prefill is False:
        tokens = max(tokens, max_model_len)
    bidirectional = sees_media_both_ways(architecture, flags, rules)
    if bidirectional and rules.media_item_sets_batch and architecture.media.largest_item is not None:
        tokens = max(tokens, architecture.media.largest_item)
    if rules.bounded_by_requests:
        tokens = min(tokens, seqs * max_model_len)
    return tokens, min(seqs, tokens)


def _expert_batch(flags: ServeFlags, rules: BatchRules) -> int | None:
    """Return the default batch of a start whose replicas send each other's experts batches of one size."""
    if not flags.enable_expert_parallel or flags.data_parallel_size == 1:
        return None
    return rules.expert_batches.get(flags.all2all_backend or "")


def batch_defaults(rules: BatchRules, gpu: GpuType) -> BatchDefaults:
    """Return the default batch limits of a release on a GPU type."""
    return next(
        entry
        for entry in rules.defaults
        if entry.applies(gpu.memory_bytes / GIB, gpu.name, str(gpu.compute_capability))
    )


def sees_media_both_ways(architecture: ModelArchitecture, flags: ServeFlags, rules: BatchRules) -> bool:
    """Return whether tokens of one item of media attend to each other in both directions."""
    return (
        architecture.media.bidirectional
        and architecture.model_type in rules.bidirectional_media_types
        and not flags.language_model_only
    )
