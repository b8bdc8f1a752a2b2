"""Which modules of a decoder layer a release builds on a GPU."""

from dataclasses import dataclass
from typing import Final, Self

from service.architecture.quantization import Quantization
from service.engines.rules.specs import SpecRules
from service.memory.weights.weight_layout import DecoderLayout

LEAST_SINKS: Final = 64
"""Heads that FlashMLA's kernels take at least: vLLM 0.30.0 to 0.33.0, get_padded_num_q_heads."""
FLASHINFER_SINKS: Final = 8
"""Those of FlashInfer, on which the model runs on SM12x: vLLM 0.30.0 to 0.33.0, _pad_to_supported_q_heads."""
CONSUMER_BLACKWELL: Final = 12
INTERLEAVED_GATES: Final = "Qwen3NextForCausalLM"
"""The class whose gates are always split: vLLM 0.22.0 to 0.33.0, qwen3_next.py gqa_interleaved_layout."""


@dataclass(frozen=True, slots=True)
class Built:
    """Which modules of a layer a release builds on a GPU."""

    shared_projections: bool
    """Layers that read another layer's cache have key and value projections of their own."""
    fused_indexer_keys: bool
    """An indexer's key and weight projections are one matrix, which is never quantized."""
    reused_selection_needs_none: bool
    """Layers that use the tokens which another layer selected have no indexer."""
    widened_experts: bool
    """Experts with a least width have it on every rank that tensor parallelism splits them over."""
    float32_routers: bool
    """The matrix of a router that computes in 32 bits is stored in 32 bits."""
    quantized_short_convolutions: bool
    """The projections of short convolutions are quantized."""
    quantized_routers: bool
    """Routers are quantized unless the checkpoint excludes them."""
    split_gates: bool = True
    """Ranks share the first matrix of every feed-forward network."""
    shared_expert_block: int = 1
    """Elements of a shared expert's width that are on one rank together."""
    whole_state_gates: bool = False
    """Each rank has the whole matrix of the gates of gated delta nets."""
    split_ngram_projections: bool = True
    """Ranks share the projection of n-gram embeddings."""
    least_sinks: int = LEAST_SINKS
    """Sinks of attention heads that a rank has at least (DeepSeek V4.1)."""
    whole_layers: bool = False
    """Each rank has the layers in full."""
    split_single_key_heads: bool = False
    """Ranks share the attention of such layers where it has one key head."""

    @classmethod
    def of(
        cls,
        layout: DecoderLayout,
        rules: SpecRules,
        capability: tuple[int, int],
        class_name: str = "",
        quantization: Quantization | None = None,
    ) -> Self:
        """Return what a release builds of a model class on GPUs of a compute capability."""
        blocks = () if quantization is None else quantization.block_shape
        method = "" if quantization is None else quantization.method
        return cls(
            shared_projections=layout.shared_cache_projections,
            fused_indexer_keys=layout.fused_indexer_keys,
            reused_selection_needs_none=rules.reused_selection_needs_no_indexer,
            widened_experts=layout.widened_experts,
            float32_routers=layout.float32_routers(capability),
            quantized_short_convolutions=layout.quantized_short_convolutions,
            quantized_routers=class_name in layout.quantized_routers,
            split_gates=layout.split_modern_gates,
            shared_expert_block=blocks[0] if blocks and class_name in layout.padded_shared_experts else 1,
            whole_state_gates=method in layout.whole_state_gates and class_name != INTERLEAVED_GATES,
            split_ngram_projections=layout.split_ngram_projections,
            least_sinks=FLASHINFER_SINKS if capability[0] == CONSUMER_BLACKWELL else LEAST_SINKS,
            whole_layers=class_name in layout.whole_layers,
            split_single_key_heads=layout.split_single_key_heads,
        )
