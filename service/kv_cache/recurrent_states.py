"""Recurrent states: their shapes and bytes on one rank, and their checkpoints."""

from dataclasses import dataclass
from math import prod
from typing import assert_never

from service.architecture.layers.recurrence import (
    GatedDeltaNet,
    GroupedLinearAttention,
    KimiDeltaAttention,
    KimiK3DeltaAttention,
    LinearAttention,
    Mamba,
    Mamba2,
    NgramConvolution,
    Recurrence,
    ShortConvolution,
    state_kind,
)
from service.architecture.model import ModelArchitecture
from service.engine_config.engine_config import EngineConfig
from service.engines.cases import StateCheckpoint
from service.kv_cache.formats import MODEL_DTYPE_BYTES


@dataclass(frozen=True, slots=True)
class StateShape:
    """Elements of one layer's state on one rank; a part that a mixer lacks is empty."""

    convolution: tuple[int, ...]
    """Tokens and channels of the convolution's tail."""
    recurrent: tuple[int, ...]


def state_shape(mixer: Recurrence, ranks: int, drafted: int = 0) -> StateShape:
    """Return the state of a layer that is split over some tensor-parallel ranks.

    ``drafted``: rows of the convolution for draft tokens.

    Source: vLLM 0.10.2 to 0.33.0, MambaStateShapeCalculator.
    """
    match mixer:
        case GatedDeltaNet():
            width = (
                2 * mixer.key_head_dim * mixer.num_key_heads + mixer.value_head_dim * mixer.num_value_heads
            )
            heads = mixer.num_value_heads // ranks
            return StateShape(
                (mixer.conv_kernel - 1 + drafted, width // ranks),
                (heads, mixer.value_head_dim, mixer.key_head_dim),
            )
        case KimiDeltaAttention() | KimiK3DeltaAttention():
            width = 3 * mixer.num_heads * mixer.head_dim
            return StateShape(
                (mixer.conv_kernel - 1 + drafted, width // ranks),
                (mixer.num_heads // ranks, mixer.head_dim, mixer.head_dim),
            )
        case Mamba():
            channels = mixer.intermediate_size // ranks
            return StateShape((mixer.conv_kernel - 1 + drafted, channels), (channels, mixer.state_size))
        case Mamba2():
            # Groups that the ranks do not divide are repeated until they do.
            groups = mixer.num_groups if mixer.num_groups % ranks == 0 else ranks
            width = mixer.intermediate_size + 2 * groups * mixer.state_size
            return StateShape(
                (mixer.conv_kernel - 1 + drafted, width // ranks),
                (mixer.num_heads // ranks, mixer.head_dim, mixer.state_size),
            )
        case ShortConvolution() | NgramConvolution():
            return StateShape(_convolved(mixer, ranks, drafted), ())
        case LinearAttention() | GroupedLinearAttention():
            return StateShape((), (mixer.num_heads // ranks, mixer.head_dim, mixer.head_dim))
    assert_never(mixer)


def _convolved(mixer: ShortConvolution | NgramConvolution, ranks: int, drafted: int) -> tuple[int, int]:
    """Return the state of a layer that is a convolution alone; dilation makes it longer."""
    if isinstance(mixer, NgramConvolution):
        return (mixer.conv_kernel - 1) * mixer.dilation + drafted, mixer.channels
    return mixer.conv_kernel - 1 + drafted, mixer.channels // ranks


def state_bytes(mixer: Recurrence, engine_config: EngineConfig, *, drafted: bool = True) -> int:
    """Return the bytes of one layer's state on one rank, with or without the rows for draft tokens."""
    rows = engine_config.speculative_tokens if drafted and _keeps_draft_tokens(mixer, engine_config) else 0
    shape = state_shape(mixer, engine_config.tensor_parallel_size, rows)
    parts = (
        (shape.convolution, engine_config.conv_state_dtype),
        (shape.recurrent, engine_config.recurrent_state_dtype),
    )
    return sum(prod(part) * MODEL_DTYPE_BYTES[dtype] for part, dtype in parts if part)


def _keeps_draft_tokens(mixer: Recurrence, engine_config: EngineConfig) -> bool:
    """Whether a convolution has rows for draft tokens.

    Source: vLLM 0.20.2, model_executor/models/plamo2.py Plamo2MambaMixer.get_state_shape, which has none.
    """
    if isinstance(mixer, Mamba2) and mixer.time_step_rank is not None:
        return False
    return state_kind(mixer) in engine_config.rules.states.drafted_rows


def largest_state(architecture: ModelArchitecture, engine_config: EngineConfig) -> int:
    """Return the bytes of the model's largest recurrent state on one rank, as alignment counts them.

    Source: vLLM 0.32.0, get_mamba_specs_from_config.
    """
    drafted = architecture.class_name not in engine_config.rules.states.undrafted_alignment
    states = list(architecture.recurrences)
    if architecture.states.counted is not None:
        states.append(architecture.states.counted)
    return max(state_bytes(mixer, engine_config, drafted=drafted) for mixer in states)


def state_checkpoint(mixer: Recurrence, engine_config: EngineConfig) -> StateCheckpoint | None:
    """Return how a layer exports states in the middle of a prompt, if it does.

    Source: vLLM 0.32.0, layers/mamba/mamba_mixer2.py; 0.33.0, layers/mamba/gdn/qwen_gdn_linear_attn.py.
    """
    if engine_config.mamba_cache_mode != "align":
        return None
    if isinstance(mixer, GatedDeltaNet) and mixer.separate_projections:
        # 0.33.0, layers/mamba/gdn/olmo_gdn_linear_attn.py exports none.
        return None
    if isinstance(mixer, KimiDeltaAttention) and not (
        mixer.exports_states and engine_config.dtype == "bfloat16"
    ):
        # 0.32.0, models/glm5next/common/kda.py _resolve_kda_prefill_backend; Kimi Linear's exports none.
        return None
    kind, capability, width = state_kind(mixer), str(engine_config.compute_capability), None
    if isinstance(mixer, GatedDeltaNet):
        width = mixer.key_head_dim
    if isinstance(mixer, KimiDeltaAttention):
        width = mixer.head_dim
    if isinstance(mixer, KimiK3DeltaAttention):
        width = mixer.head_dim
        if not mixer.bounded_gate or "float16" in {engine_config.dtype, engine_config.recurrent_state_dtype}:
            # 0.33.0, models/kimi_k3/nvidia/kda.py is_flashkda_supported.
            return None
    return next(
        (case for case in engine_config.rules.states.checkpoints if case.applies(kind, capability, width)),
        None,
    )


def checkpoint_alignment(architecture: ModelArchitecture, engine_config: EngineConfig) -> int:
    """Return the tokens to which blocks are aligned because every state is exported; 1 when one is not.

    Source: vLLM 0.33.0, layers/mamba/abstract.py get_mamba_prefill_checkpoint_alignment.
    """
    cases = {state_checkpoint(mixer, engine_config) for mixer in architecture.recurrences}
    return 1 if None in cases else max(case.alignment for case in cases if case is not None)
