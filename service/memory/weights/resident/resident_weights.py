"""Weights of a rank after they are loaded and repacked, with the buffers that are allocated with them."""

from collections.abc import Mapping
from dataclasses import dataclass

from service.architecture.layers.attention import Attention
from service.architecture.layers.compressed_attention import CompressedAttention
from service.architecture.layers.mla import MultiHeadLatentAttention
from service.architecture.model import ModelArchitecture
from service.memory.budget_types import Basis, Estimate, WeightsEstimate
from service.memory.interval import around, exact, from_range, total
from service.memory.ranges import MibRange, Range, for_capability
from service.memory.shards import Shards
from service.memory.weights.blocks.mla_modules import mla_expansion
from service.memory.weights.resident.batch_buffers import BFLOAT16_BYTES, batch_buffers
from service.memory.weights.schemes.quantized import FLOAT32
from service.memory.weights.weight_layout import StageLayout
from service.memory.weights.weight_stage import WeightStage


@dataclass(frozen=True, slots=True)
class Mxfp4Kernel:
    """The kernel that runs MXFP4 experts on GPUs of some capability."""

    capability: tuple[int, int]
    """Least compute capability that runs it."""
    kernel: str
    """``marlin``, ``triton`` or ``trtllm``."""


@dataclass(frozen=True, slots=True)
class Fp8Kernel:
    """What a kernel makes of weights in 8-bit floats."""

    capability: tuple[int, int]
    """Least compute capability that runs this kernel."""
    spreads: bool
    """Each row of a matrix gets a copy of the scale of its block, in the model's own type."""
    width: int
    """Multiple to which the width of experts is rounded up that have one scale a matrix and no gates."""


@dataclass(frozen=True, slots=True)
class ResidentConstants:
    """Dated constants of what loading makes of the parameters."""

    interleaved_table_factor: int
    """Times the positions of the model for which interleaved M-RoPE has a rotary table."""
    turboquant_splits: int
    """Splits of a sequence for which every TurboQuant layer has a buffer; 0 where layers have none."""
    keeps_streams: bool
    """DeepSeek V4's last stage has a buffer for a batch of its residual streams without a draft, too."""
    streams_on_every_stage: bool
    """The stages before DeepSeek V4's last one have such a buffer, too."""
    offload_survives_repacking: bool
    """Quantized weights in the host's memory are moved there again after they were repacked."""
    mxfp4_kernels: tuple[Mxfp4Kernel, ...]
    fp8_kernels: tuple[Fp8Kernel, ...]
    repacking_percent: Mapping[str, Range]
    """What repacking adds to quantized modules, by format; MXFP4 by its kernel."""
    unsplit_mib: int
    """MiB from which on the allocator splits no segment while weights load; 0 where it splits all."""
    slack_mib: MibRange
    """What small buffers add."""
    sources: Mapping[str, str]

    def repacking(self, weight_format: str, capability: tuple[int, int]) -> Range:
        """Return the percent that repacking adds to weights of a format on a GPU."""
        if weight_format == "mxfp4":
            weight_format = f"mxfp4_{for_capability(self.mxfp4_kernels, capability).kernel}"
        return self.repacking_percent.get(weight_format, self.repacking_percent["any"])


def resident_weights(
    architecture: ModelArchitecture,
    constants: ResidentConstants,
    layout: StageLayout,
    parameters: Estimate,
    stage: WeightStage,
) -> WeightsEstimate:
    """Return the bytes of a stage's weights after repacking, and of the buffers allocated with them."""
    parts = (
        (_second_expansion(architecture, stage.shards, stage.layers), "MLA's absorbed projections"),
        (rotary_bytes(architecture, constants, layout, stage.layers), "rotary tables"),
        (turboquant_buffers(architecture, constants, stage), constants.sources["turboquant_splits"]),
        *batch_buffers(architecture, stage),
        (stream_bytes(architecture, constants, stage), constants.sources["keeps_streams"]),
    )
    resident = total(
        (
            parameters,
            _repacking(architecture, constants, parameters, stage.compute_capability),
            *(exact(size, Basis.COMPUTED, source) for size, source in parts),
            from_range(constants.slack_mib, Basis.CALIBRATED, constants.sources["slack_mib"]),
        ),
        parameters.source,
    )
    return WeightsEstimate(
        resident.bytes,
        resident.low,
        resident.high,
        parameters.basis,
        resident.source,
        parameter_bytes=parameters.bytes,
    )


def turboquant_buffers(
    architecture: ModelArchitecture, constants: ResidentConstants, stage: WeightStage
) -> int:
    """Return the bytes of the buffers in which TurboQuant layers decode.

    Source: vLLM 0.20.2, Attention._init_turboquant_buffers: partial results of every split, and their sums.
    """
    splits = constants.turboquant_splits
    if not splits:
        return 0
    mixers = (architecture.built_layers[index].mixer for index in stage.turboquant_layers)
    rows = (
        stage.shards.share(mixer.num_heads) * (splits + 1) * (mixer.head_size + 1)
        for mixer in mixers
        if isinstance(mixer, Attention)
    )
    return stage.sequences * sum(rows) * FLOAT32


def stream_bytes(architecture: ModelArchitecture, constants: ResidentConstants, stage: WeightStage) -> int:
    """Return the bytes of the buffer from which a draft of DeepSeek V4 reads the residual streams.

    Source: vLLM 0.21.0 and 0.33.0, DeepseekV4Model: _mtp_hidden_buffer, on the last stage.
    """
    mixing = architecture.hyper_connections
    if mixing is None or not any(
        isinstance(layer.mixer, CompressedAttention) for layer in architecture.distinct_layers
    ):
        return 0
    last = stage.layers.stop == len(architecture.layers)
    if not last and not constants.streams_on_every_stage:
        return 0
    if architecture.draft is None and not constants.keeps_streams:
        return 0
    return stage.batch_tokens * mixing.copies * architecture.hidden_size * BFLOAT16_BYTES


def rotary_bytes(
    architecture: ModelArchitecture, constants: ResidentConstants, layout: StageLayout, layers: range
) -> int:
    """Return the bytes of all cosine and sine tables; they are stored in the model's 16-bit dtype.

    A draft on the last stage has tables of its own where they differ from the model's. The transformers
    backend has no tables: it computes the angles in each step.
    """
    if architecture.class_name in layout.transformers_classes:
        return 0
    tables = architecture.rotary_tables
    if architecture.draft is not None and layers.stop == len(architecture.layers):
        tables = tuple(dict.fromkeys((*tables, *architecture.draft.rotary_tables)))
    return sum(
        table.positions
        * table.width
        * (FLOAT32 if table.float32 else BFLOAT16_BYTES)
        * (_factor(constants, interleaved=table.interleaved) if table.multimodal else 1)
        for table in tables
    )


def _factor(constants: ResidentConstants, *, interleaved: bool) -> int:
    return constants.interleaved_table_factor if interleaved else 4


def _second_expansion(architecture: ModelArchitecture, shards: Shards, layers: range) -> int:
    """Return the bytes of the key/value expansion of MLA that decoding uses: a second, unquantized copy.

    Source: vLLM 0.24.0, MLAAttention.process_weights_after_loading.
    """
    drafts = layers.stop == len(architecture.layers)
    stop = len(architecture.built_layers) if drafts else layers.stop
    size = 0
    for index in range(layers.start, stop):
        mixer = architecture.built_layers[index].mixer
        if isinstance(mixer, MultiHeadLatentAttention):
            linear = mla_expansion(mixer, "", shards)
            size += linear.inputs * sum(linear.outputs) * BFLOAT16_BYTES
    return size


def _repacking(
    architecture: ModelArchitecture,
    constants: ResidentConstants,
    parameters: Estimate,
    capability: tuple[int, int],
) -> Estimate:
    quantization = architecture.quantization
    if quantization is None:
        return exact(0, Basis.COMPUTED, "nothing is repacked")
    schemes = [group.scheme for group in quantization.schemes if group.scheme is not None]
    formats = [scheme.format.value for scheme in schemes]
    share = max(
        (constants.repacking(name, capability) for name in formats or ["any"]), key=lambda each: each.high
    )
    return around(
        parameters.bytes * share.middle / 100,
        parameters.bytes * share.low / 100,
        parameters.bytes * share.high / 100,
        Basis.CALIBRATED,
        constants.sources["repacking_percent"],
    )
