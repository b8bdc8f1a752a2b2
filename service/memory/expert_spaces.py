"""Work spaces of the kernels of routed experts, and the copies of activations that they read."""

from collections.abc import Set as AbstractSet
from typing import Final

from service.architecture.layers.decoder_layer import DecoderLayer
from service.architecture.layers.experts import MixtureOfExperts
from service.architecture.model import ModelArchitecture
from service.architecture.weight_schemes import WeightFormat
from service.engine_config.expert_kernels import FP8_BLOCK, expert_formats
from service.memory.budget_types import Basis, Estimate
from service.memory.compressed_spaces import compressed_mixers
from service.memory.interval import around
from service.memory.mega_moe import exchanges_in_kernel
from service.memory.profile_run import ProfileRun
from service.memory.shards import Shards

GATHERED: Final = (
    "assumed: experts receive the tokens of all data parallel ranks; their work space depends on the kernel "
    "and on --all2all-backend, and no start with several data parallel ranks was measured"
)
TWO_WORK_SPACES: Final = frozenset({"triton", "marlin"})
"""Kernels of experts whose work spaces are known in closed form."""
EXPERT_BLOCK: Final = 128
"""Rows to which DeepGEMM rounds those of an expert up."""
FREED: Final = frozenset({WeightFormat.AWQ.value, WeightFormat.GPTQ.value, WeightFormat.PACKED.value})
"""Formats whose experts ran without a pool at first: what they took was freed when they were done."""
EIGHT_BITS: Final = frozenset({WeightFormat.FP8.value, FP8_BLOCK})
FOUR_BITS: Final = frozenset({WeightFormat.NVFP4.value})
CUTLASS: Final = "cutlass"
"""vLLM's own kernel of CUTLASS, which only a flag chooses for 4-bit floats: FlashInfer's come before it."""
COPIES: Final = 3
SCALED_ROWS: Final = 163_840
"""Rows for each expert of a token whose scales have room (``VLLM_MAX_TOKENS_PER_EXPERT_FP4_MOE``)."""
SCALED: Final = 64
"""Elements whose scales share a word of 32 bits."""
WORD: Final = 4


def gathered(architecture: ModelArchitecture, run: ProfileRun, *, two: bool = False) -> Estimate | None:
    """Return the bytes that experts take because they receive the tokens of all data parallel ranks.

    Returns ``None`` on one data parallel rank, and for models without experts.

    The default communication gathers every rank's tokens before the experts and scatters the sums after
    them, and each rank is profiled at full length. Kernels differ in the work space for these tokens. The
    upper bound is that of Triton and DeepGEMM without chunks: two rows of a token for each of its experts.
    The lower bound is that of communication that gathers nothing (DeepEP).

    Source: vLLM 0.13.0 AgRsAll2AllManager.dispatch and TritonExperts.workspace_shapes; 0.28.0,
    prepare_finalize/naive_dp_ep.py and FusedMoEModularKernel._allocate_buffers.
    """
    layers = architecture.distinct_layers
    rows = max((_expert_rows(layer, architecture, run.shards) for layer in layers), default=0)
    if run.data_parallel_size == 1 or rows == 0 or exchanges_in_kernel(run):
        return None
    tokens = run.tokens * run.data_parallel_size
    own = run.tokens * max(expert_width(layer, architecture, run.shards, two=two) for layer in layers)
    copies = 2 * tokens * architecture.hidden_size
    high = copies + max(0, tokens * rows - own)
    size = run.element_bytes
    return around(copies * size, 0, high * size, Basis.ASSUMED, GATHERED)


def kernel_work_spaces(
    architecture: ModelArchitecture, run: ProfileRun, *, two: bool = False
) -> Estimate | None:
    """Return how far the work space of the experts' kernel that a flag names may be from the computed peak.

    Triton and Marlin have two work spaces of a row for each expert of a token, DeepGEMM rounds the rows of
    each expert up to a block, and kernels of FlashInfer keep theirs to themselves.

    Source: vLLM 0.22.0, fused_moe/experts/triton_moe.py, marlin_moe.py and deep_gemm_moe.py workspace_shapes.
    """
    if run.expert_kernel is None or exchanges_in_kernel(run) or _sorts_rows(architecture, run):
        return None
    layers = architecture.distinct_layers
    rows = max((_expert_rows(layer, architecture, run.shards) for layer in layers), default=0)
    own = max((expert_width(layer, architecture, run.shards, two=two) for layer in layers), default=0)
    tokens = run.tokens
    most = tokens * rows
    if run.expert_kernel not in TWO_WORK_SPACES:
        most += max((_padding(layer, architecture, run.shards) for layer in layers), default=0)
    least = tokens * (min(rows, own) if run.expert_kernel in TWO_WORK_SPACES else 0)
    size, now = run.element_bytes, tokens * own
    source = f"work spaces of --moe-backend {run.expert_kernel}, which share the memory of others"
    return around(0, min(0, least - now) * size, max(0, most - now) * size, Basis.COMPUTED, source)


def sorted_copies(architecture: ModelArchitecture, run: ProfileRun) -> int:
    """Return the bytes of the copies that vLLM's kernel of CUTLASS takes of 4-bit experts' rows.

    Beside its work spaces it holds a row for each expert of a token in the order of the experts, the results
    in the order of the tokens, and these times their shares. Before that it holds the rows, their copies in
    4 bits and scales, which have room for more rows than there are.

    Source: vLLM 0.19.0 to 0.33.0, run_cutlass_moe_fp4 and scaled_fp4_experts_quant.
    """
    if not _sorts_rows(architecture, run):
        return 0
    return max(_copies(layer, architecture, run) for layer in architecture.distinct_layers)


def _sorts_rows(architecture: ModelArchitecture, run: ProfileRun) -> bool:
    return run.expert_kernel == CUTLASS and expert_formats(architecture) <= FOUR_BITS


def scales_room(architecture: ModelArchitecture, run: ProfileRun) -> int:
    """Return the bytes that the same kernel takes for the scales of its 4-bit rows, however few they are."""
    if not _sorts_rows(architecture, run):
        return 0
    return max(_scales(layer, architecture) for layer in architecture.distinct_layers)


def _copies(layer: DecoderLayer, architecture: ModelArchitecture, run: ProfileRun) -> int:
    network = layer.feed_forward
    if not isinstance(network, MixtureOfExperts):
        return 0
    rows = run.tokens * network.experts_per_token
    seen = _seen(network, architecture)
    last = COPIES * rows * seen * run.element_bytes
    return max(last, rows * (seen * run.element_bytes + seen // 2) + _scales(layer, architecture))


def _scales(layer: DecoderLayer, architecture: ModelArchitecture) -> int:
    network = layer.feed_forward
    if not isinstance(network, MixtureOfExperts):
        return 0
    words = -(-_seen(network, architecture) // SCALED)
    return SCALED_ROWS * network.experts_per_token * words * WORD


def _seen(network: MixtureOfExperts, architecture: ModelArchitecture) -> int:
    return network.weights.latent_size or architecture.hidden_size


def _padding(layer: DecoderLayer, architecture: ModelArchitecture, shards: Shards) -> int:
    """Return the elements by which DeepGEMM rounds the rows of each expert up (``compute_aligned_M``)."""
    network = layer.feed_forward
    if not isinstance(network, MixtureOfExperts):
        return 0
    own = -(-network.num_experts // shards.expert_parallel_size)
    return own * (EXPERT_BLOCK - 1) * _expert_rows(layer, architecture, shards) // network.experts_per_token


def _expert_rows(layer: DecoderLayer, architecture: ModelArchitecture, shards: Shards) -> int:
    """Return the elements per token of both work spaces of Triton's experts (``workspace_shapes``)."""
    network = layer.feed_forward
    if not isinstance(network, MixtureOfExperts):
        return 0
    width = shards.expert_width(network.intermediate_size)
    seen = _seen(network, architecture)
    first = 2 * width if network.weights.gated else width
    return network.experts_per_token * (max(width, seen) + max(first, seen))


def has_two_work_spaces(architecture: ModelArchitecture, formats: AbstractSet[str], run: ProfileRun) -> bool:
    """Whether the kernel that the release chooses has two work spaces of a row for each expert of a token.

    ``formats``: those of experts for which it does. On data center Blackwell, FlashInfer's TensorRT-LLM
    kernels come first, which keep their work space to themselves.

    MXFP4 runs on Marlin elsewhere, but gpt-oss on Triton's kernels, which have no pool.

    Source: vLLM 0.20.0, fused_moe/oracle/fp8.py, unquantized.py and mxfp4.py _get_priority_backends.
    """
    stored = expert_formats(architecture)
    marlin = WeightFormat.MXFP4.value in stored and bool(compressed_mixers(architecture))
    return not run.blackwell and (marlin or stored <= formats)


def keeps_work_space(architecture: ModelArchitecture, formats: AbstractSet[str]) -> bool:
    """Whether the experts' work space comes from the pool, and so is still there when the sampler runs.

    Logs of gpt-oss on 0.19.0 show no work space at that time, those of other mixtures of experts do.
    """
    stored = expert_formats(architecture)
    return WeightFormat.MXFP4.value not in stored and not (stored & FREED) - formats


def quantized_width(layer: DecoderLayer, architecture: ModelArchitecture, shards: Shards) -> int:
    """Return the elements per token that 8-bit copies of the experts' inputs take, beside the work spaces.

    The hidden state and the input of the second projection of every expert are copied, a byte an element,
    which is half of one of 16 bits.

    Source: vLLM 0.14.0 and 0.20.0, prepare_finalize (a1q) and TritonExperts.apply (qintermediate_cache2).
    """
    network = layer.feed_forward
    if not isinstance(network, MixtureOfExperts) or not expert_formats(architecture) <= EIGHT_BITS:
        return 0
    seen = _seen(network, architecture)
    inner = network.experts_per_token * shards.expert_width(network.intermediate_size)
    return (seen + inner) // 2


def expert_width(
    layer: DecoderLayer, architecture: ModelArchitecture, shards: Shards, *, two: bool = False
) -> int:
    """Return the elements per token of the experts' work space.

    ``two``: it is both work spaces of the kernel; or else the results of the second projection lie over
    those of the first (vLLM 0.13.0, fused_experts; 0.19.0, fused_marlin_moe).
    """
    network = layer.feed_forward
    if not isinstance(network, MixtureOfExperts):
        return 0
    if two:
        return _expert_rows(layer, architecture, shards)
    width = shards.expert_width(network.intermediate_size)
    return network.experts_per_token * (max(2 * width, architecture.hidden_size) + width)
