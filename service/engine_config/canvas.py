"""What a model that writes a whole canvas of tokens at once takes beside the memory that is planned."""

from typing import Final

from service.architecture.layers.attention import Attention
from service.architecture.model import ModelArchitecture
from service.units import MIB

LOGIT_BYTES: Final = 4
COPIES: Final = 3
"""Copies of the logits that are alive at once, by which the sampler sizes its tiles.

Source: vLLM 0.33.0, diffusion_gemma.py.
"""


def canvas_doubts(architecture: ModelArchitecture) -> tuple[str, ...]:
    """Say what the sampler of a model with a canvas takes; empty for others."""
    if not any(isinstance(layer.mixer, Attention) and layer.mixer.canvas for layer in architecture.layers):
        return ()
    size = architecture.vocab_size * LOGIT_BYTES * COPIES / MIB
    words = (
        f"Its sampler holds {COPIES} copies of 32-bit logits for each token of a canvas, {size:.1f} MiB a "
        "token. The profile run does not count them: they must fit beside the requested memory, or the "
        "first request fails. Fewer --max-num-seqs need less."
    )
    return (words,)
