"""The buffer through which DeepGEMM's joined kernel exchanges tokens between the ranks of the experts."""

from typing import Final

from service.architecture.layers.experts import MixtureOfExperts
from service.architecture.model import ModelArchitecture
from service.engine_config.expert_kernels import MEGA_MOE
from service.memory.budget_types import Basis, Estimate
from service.memory.interval import around
from service.memory.profile_run import ProfileRun

TOKEN_STEP: Final = 384
"""Tokens of a rank are rounded up to a multiple of this."""
LARGEST_BLOCK: Final = 192
"""Rows of the largest block, to which the tokens of each expert are padded."""
SCALED: Final = 32
"""Elements of 8 bits that share a scale of one byte."""
_SOURCE_BYTES: Final = 12
"""Where a token came from: rank, token and place among its experts, 32 bits each."""
_INT32: Final = 4
_INT64: Final = 8
_BFLOAT16: Final = 2


def exchanges_in_kernel(run: ProfileRun) -> bool:
    """Whether one kernel both sends tokens to experts and computes them."""
    return run.expert_kernel == MEGA_MOE


def symmetric_buffer(architecture: ModelArchitecture, run: ProfileRun) -> Estimate | None:
    """Return the bytes of the buffer that all layers of a rank share; ``None`` without such a kernel.

    Its pool has room for every token of every rank in case all go to this rank's experts. A release of
    DeepGEMM since June 2026 can take a smaller pool that is used in turns: the lower bound leaves it out.

    Source: DeepGEMM 7f2a703 (April 2026) and 54e2261 (June 2026), csrc/apis/mega.hpp
    get_symm_buffer_size_for_mega_moe and layout/mega_moe.cuh; vLLM 0.22.0 to 0.32.0,
    models/deepseek_v4/nvidia/model.py get_symm_buffer: one buffer for batches of --max-num-batched-tokens.
    """
    layers = (layer.feed_forward for layer in architecture.distinct_layers)
    experts = max(
        (each for each in layers if isinstance(each, MixtureOfExperts)),
        key=lambda each: each.intermediate_size,
        default=None,
    )
    if experts is None or not exchanges_in_kernel(run):
        return None
    ranks = run.shards.expert_parallel_size
    own = -(-(experts.num_experts + run.shards.spare_experts) // ranks)
    tokens = _rounded(run.tokens)
    hidden, width = architecture.hidden_size, experts.intermediate_size
    top = experts.experts_per_token
    pool = _rounded(ranks * tokens * min(top, own) + own * (LARGEST_BLOCK - 1))
    fixed = own * ranks * ranks * tokens * _INT32
    fixed += tokens * (_stored(hidden) + top * (_INT64 + _INT32))
    fixed += tokens * top * hidden * _BFLOAT16
    pooled = pool * (_stored(hidden) + _stored(width) + _INT32 + _SOURCE_BYTES)
    source = "buffer of DeepGEMM's joined kernel of experts, from its layout"
    return around(fixed + pooled, fixed, fixed + pooled, Basis.COMPUTED, source)


def _stored(elements: int) -> int:
    """Return the bytes of elements of 8 bits with their scales."""
    return elements + elements // SCALED


def _rounded(tokens: int) -> int:
    return -(-tokens // TOKEN_STEP) * TOKEN_STEP
