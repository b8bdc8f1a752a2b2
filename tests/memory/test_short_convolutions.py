"""LFM2's convolutions in quantized checkpoints: asked of 0.24.0 and 0.32.0 on the meta device."""

from typing import Final

import pytest
from packaging.version import Version

from service.architecture.config import read_document
from service.architecture.reading import read_architecture
from service.memory.parallelism import Parallelism
from service.memory.weights.counts.parameters import parameter_bytes

CONVOLUTION: Final = 4 * 2048 * 2048
"""Elements of the projections of one convolution, worked by hand: three of the hidden size in, one out."""
CONFIG: Final = {
    "architectures": ["Lfm2ForCausalLM"],
    "model_type": "lfm2",
    "torch_dtype": "bfloat16",
    "hidden_size": 2048,
    "num_hidden_layers": 2,
    "layer_types": ["conv", "full_attention"],
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 65536,
    "conv_L_cache": 3,
    "conv_bias": False,
    "intermediate_size": 8192,
    "block_ff_dim": 8192,
    "block_multiple_of": 256,
    "block_ffn_dim_multiplier": 1.0,
    "block_auto_adjust_ff_dim": False,
    "norm_eps": 1e-5,
    "max_position_embeddings": 128000,
}
FP8: Final = {"quant_method": "fp8", "activation_scheme": "dynamic"}


@pytest.mark.parametrize(("release", "quantized"), [("0.25.0", False), ("0.27.0", True)])
def test_projections_of_convolutions_are_quantized_since_0_27(release: str, quantized: bool) -> None:
    """vLLM 0.25.1 and 0.27.1, layers/mamba/short_conv.py: only the later gives them a quant_config."""
    kept = FP8 | {"modules_to_not_convert": [f"model.layers.0.short_conv.{p}_proj" for p in ("in", "out")]}
    sizes = [
        parameter_bytes(
            read_architecture(read_document(CONFIG | {"quantization_config": section})),
            Parallelism(dtype="bfloat16"),
            Version(release),
        )
        for section in (FP8, kept)
    ]
    # A byte less an element, and a 32-bit scale for each of four outputs.
    assert sizes[1] - sizes[0] == (CONVOLUTION - 4 * 4 if quantized else 0)
