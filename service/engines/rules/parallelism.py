"""Over which ranks and stages a model can be split."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ParallelismRules:
    """Over which ranks and stages a model can be split."""

    pipeline_unsupported: frozenset[str]
    """Classes that cannot be split into pipeline stages yet, though later releases can."""
    pipeline_unsplittable: frozenset[str]
    """Multimodal classes that lose their architecture name when split into pipeline stages."""
    pipeline_unnamed: frozenset[str]
    """Multimodal classes that are split into pipeline stages only where their text part names a class."""
    data_parallel_encoders: frozenset[str]
    """Classes that give each rank whole encoders where ``--mm-encoder-tp-mode data`` asks for them; others
    split them all the same.
    """
    pipeline_unready: Mapping[str, str]
    """Classes whose own code fails on the layers that another pipeline stage holds, and what it raises."""
    unrepeated_kv_heads: Mapping[str, str]
    """Classes that cannot repeat a key/value head on several tensor-parallel ranks: each must have one of
    its own; with what they raise, and say.
    """
    whole_kv_heads: frozenset[str]
    """Classes whose key/value heads ranks need not divide: every rank has their projections in full."""
    encoders_by_text_heads: frozenset[str]
    """Classes whose encoders are split as if their heads had the size of the text part's."""
    uneven_ranks_refusal: tuple[str, ...]
    """What the engine raises, and says, when decode context parallelism does not divide tensor
    parallelism.
    """
    context_parallel_refusals: tuple[str, ...]
    """The engine's refusal of decode context parallelism that repeated key/value heads do not allow: too
    few ranks, too large, uneven.
    """
    hybrid_context_parallel_failure: str | None
    """What the scheduler asserts against decode context parallelism once it caches prefixes of several
    groups of layers; empty: nothing.
    """
    balancing_refusal: str
    """What the engine says where experts would be balanced on a single rank."""
    rank_starters: tuple[str, ...]
    """Programs that ``--data-parallel-backend`` may name; none listed: the parser takes any word."""
    node_executors: tuple[str, ...]
    """Executors that start an engine on the several nodes of ``--nnodes``; none listed: there is no such
    flag.
    """
    drafts_need_experts: bool
    """Whether the experts of a draft are split too where the model's are, so that it must have some."""
