"""The compute buffer of a device: what a graph of one micro-batch needs.

llama.cpp reserves it by building its graph, so there is no formula. The masks of the caches grow with their
cells: 8 bytes for each cell and token of a micro-batch were measured with the library on CPU and RPC devices.
The rest is assumed.
"""

from typing import Final

from service.llama_cpp.caches import LlamaCaches
from service.llama_cpp.context import LlamaContext
from service.memory.budget_types import Basis, Estimate
from service.memory.interval import around

MASK_BYTES: Final = 8
"""Bytes of a mask for each cell of a cache and each token of a micro-batch."""
ACTIVATIONS: Final = 16
"""Hidden vectors of a token in 32 bits that are alive at once; assumed."""
LOW: Final = 0.5
HIGH: Final = 1.8
SOURCE: Final = "masks by the library on CPU and RPC devices; logits and activations are assumed"


def compute_buffer(vocab_size: int, hidden_size: int, context: LlamaContext, caches: LlamaCaches) -> Estimate:
    """Return the bytes of the compute buffer of the device that has the output matrix."""
    cells = sum(cache.cells for cache in caches.cells if cache.rows)
    masks = MASK_BYTES * context.n_ubatch * cells
    logits = 4 * context.n_ubatch * vocab_size
    activations = 4 * context.n_ubatch * hidden_size * ACTIVATIONS
    size = masks + logits + activations
    return around(size, size * LOW, size * HIGH, Basis.ASSUMED, SOURCE)
