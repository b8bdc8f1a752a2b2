"""LoRA adapters: which are accepted, and for which modules the engine makes room."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AdapterRules:
    """LoRA adapters: which are accepted, and for which modules the engine makes room."""

    unsupported: frozenset[str]
    """Classes that do not support adapters."""
    ranks: tuple[int, ...]
    """Values of --max-lora-rank."""
    rank_refusal: tuple[str, str]
    """What the engine raises for another rank, and what it says."""
    slot_refusal: tuple[str, str]
    """What the engine raises where fewer adapters fit into the host's memory than into a batch, and what it
    says.
    """
    extra_vocabulary: tuple[int, ...]
    """Values of --lora-extra-vocab-size; none where adapters cannot add tokens."""
    expert_parallel_refusal: str | None
    """What experts assert against adapters with expert parallelism; empty: nothing."""
    whole_vocabulary: frozenset[str]
    """Classes whose adapters change the embedding and the output."""
    input_embeddings: frozenset[str]
    """Classes whose adapters change the embedding, but not the output."""
    fused_adapters: frozenset[str]
    """Classes whose adapters have one pair of matrices for a module that fuses several projections."""
    experts: bool
    """Whether adapters change routed experts."""
    joined_experts: frozenset[str]
    """Classes whose adapters have one pair of matrices for the first projection of an expert."""
    graphs_without: bool
    """Whether every CUDA graph is captured twice, with adapters and without."""
