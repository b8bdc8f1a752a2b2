"""Recurrent states: their bytes on one rank, and what is kept of them besides."""

from service.architecture.layers import GatedDeltaNet
from service.architecture.model import ModelArchitecture
from service.engines.cases import StateCheckpoint
from service.kv_cache.formats import MODEL_DTYPE_BYTES
from service.launch.serving import Serving


def state_bytes(mixer: GatedDeltaNet, serving: Serving) -> int:
    """Return the bytes of one layer's convolution tail and recurrent matrix on one rank.

    Source: vLLM 0.10.2 to 0.33.0, MambaStateShapeCalculator.gated_delta_net_state_shape.
    """
    ranks = serving.tensor_parallel_size
    width = 2 * mixer.key_head_dim * mixer.num_key_heads + mixer.value_head_dim * mixer.num_value_heads
    conv = (mixer.conv_kernel - 1) * (width // ranks)
    recurrent = mixer.num_value_heads // ranks * mixer.value_head_dim * mixer.key_head_dim
    return (
        conv * MODEL_DTYPE_BYTES[serving.conv_state_dtype]
        + recurrent * MODEL_DTYPE_BYTES[serving.recurrent_state_dtype]
    )


def largest_state(architecture: ModelArchitecture, serving: Serving) -> int:
    """Return the bytes of the largest recurrent state of the model on one rank."""
    return max(state_bytes(mixer, serving) for _, mixer in architecture.recurrent_layers)


def state_checkpoint(mixer: GatedDeltaNet, serving: Serving) -> StateCheckpoint | None:
    """Return how a layer exports states in the middle of a prompt, if it does.

    Source: vLLM 0.33.0, layers/mamba/gdn/qwen_gdn_linear_attn.py.
    """
    if serving.mamba_cache_mode != "align":
        return None
    capability = str(serving.compute_capability)
    for case in serving.rules.state_checkpoints:
        if (
            case.state == "gated_delta_net"
            and capability in case.capabilities
            and case.key_head_dim in {None, mixer.key_head_dim}
        ):
            return case
    return None


def checkpoint_alignment(architecture: ModelArchitecture, serving: Serving) -> int:
    """Return the tokens to which blocks are aligned because every state is exported; 1 when one is not.

    Source: vLLM 0.33.0, layers/mamba/abstract.py get_mamba_prefill_checkpoint_alignment.
    """
    cases = {state_checkpoint(mixer, serving) for _, mixer in architecture.recurrent_layers}
    return 1 if None in cases else max(case.alignment for case in cases if case is not None)
