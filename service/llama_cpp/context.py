"""LlamaContext: the sizes of a context, and what llama.cpp refuses before it allocates anything.

Source: llama.cpp 0c1e57098, `llama_context` and `llama_init_from_model` in src/llama-context.cpp.
"""

from dataclasses import dataclass
from typing import Final

from service.engine_plans.engine_plan import EngineRefused
from service.llama_cpp.builds import FLASH, Build
from service.llama_cpp.cache_types import CACHE_TYPES, CacheType
from service.llama_cpp.model_layers import LlamaModel
from service.llama_cpp.server_flags import FlashAttention, ServerFlags, SplitMode
from service.units import round_up

MOST_SEQUENCES: Final = 256
"""llama.cpp 0c1e57098, `LLAMA_MAX_SEQ`."""


@dataclass(frozen=True, slots=True)
class LlamaContext:
    """The sizes of a context, in cells or tokens."""

    n_ctx: int
    """Cells of all sequences together."""
    n_ctx_seq: int
    """Cells that a sequence can use."""
    n_seq_max: int
    streams: int
    """Separate caches: 1 if unified, or else one per sequence."""
    n_batch: int
    n_ubatch: int
    flash: bool
    keys: CacheType
    values: CacheType
    swa_full: bool
    states_per_sequence: int
    """Rows of a recurrent state."""

    @property
    def unified(self) -> bool:
        """Whether all sequences share one cache."""
        return self.streams == 1


def resolve_context(flags: ServerFlags, model: LlamaModel, build: Build) -> LlamaContext:
    """Return the sizes that a server with these flags has.

    Raises:
        EngineRefused: llama.cpp does not create such a context.
    """
    slots = flags.parallel if flags.parallel is not None else build.auto_slots
    unified = flags.kv_unified if flags.kv_unified is not None else False
    if flags.parallel is None and build.auto_slots > 1:
        unified = True
    requested = flags.ctx_size or model.context_length
    if requested == 0:
        raise EngineRefused("n_ctx and model->hparams.n_ctx_train cannot both be zero")
    if slots > MOST_SEQUENCES:
        raise EngineRefused(f"n_seq_max must be <= {MOST_SEQUENCES}")
    flash = _flash_attention(flags, model)
    n_batch = min(requested, flags.batch_size)
    padding = build.context_padding[FLASH if flash else 0]
    n_ctx = round_up(requested, padding)
    streams = 1 if unified else max(1, slots)
    n_ctx_seq = n_ctx if unified else round_up(n_ctx // streams, padding)
    if n_ctx_seq == 0:
        raise EngineRefused("n_ctx_seq == 0")
    return LlamaContext(
        n_ctx=n_ctx if unified else n_ctx_seq * streams,
        n_ctx_seq=n_ctx_seq,
        n_seq_max=max(1, slots),
        streams=streams,
        n_batch=n_batch,
        n_ubatch=min(n_batch, flags.ubatch_size or flags.batch_size),
        flash=flash,
        keys=CACHE_TYPES[flags.cache_type_k],
        values=CACHE_TYPES[flags.cache_type_v],
        swa_full=flags.swa_full,
        states_per_sequence=1 + (flags.draft_max if model.rolls_back_states else 0),
    )


def _flash_attention(flags: ServerFlags, model: LlamaModel) -> bool:
    """Return whether flash attention is used, after the checks that depend on it, in llama.cpp's order."""
    keys, values, asked = CACHE_TYPES[flags.cache_type_k], CACHE_TYPES[flags.cache_type_v], flags.flash_attn
    if asked is not FlashAttention.OFF and model.architecture == "grok":
        asked = FlashAttention.OFF  # "flash_attn is not compatible with Grok - forcing off"
    if flags.split_mode is SplitMode.TENSOR and asked is FlashAttention.OFF:
        raise EngineRefused("SPLIT_MODE_TENSOR requires flash_attn to be enabled")
    if (model.is_mla or model.architecture == "deepseek4") and keys is not values:
        raise EngineRefused(
            f"model does not support different K ({keys.name}) and V ({values.name}) cache types"
        )
    if values.is_quantized and asked is FlashAttention.OFF:
        raise EngineRefused("quantized V cache requires flash_attn to be enabled")
    if asked is not FlashAttention.OFF:
        for letter, cache_type in (("k", keys), ("v", values)):
            _check_blocks(letter, cache_type, model)
    return asked is not FlashAttention.OFF


def _check_blocks(letter: str, cache_type: CacheType, model: LlamaModel) -> None:
    if not cache_type.is_quantized:
        return
    for layer in model.layers:
        size = (layer.keys if letter == "k" else layer.values).size
        if size % cache_type.block:
            raise EngineRefused(
                f"{letter.upper()} cache type {cache_type.name} with block size {cache_type.block} "
                f"does not divide n_embd_head_{letter}={size}"
            )
