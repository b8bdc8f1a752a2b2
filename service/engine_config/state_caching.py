"""Whether prefixes are cached, and which recurrent states are stored for it."""

from typing import Final, assert_never

from service.architecture.layers.recurrence import GroupedLinearAttention, LinearAttention
from service.architecture.model import ModelArchitecture
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal, Stage
from service.engines.rules.states import StateCaching, StateRules

NONE, ALIGN, ALL = "none", "align", "all"
"""Values of mamba_cache_mode: the last state, the last block's too, or every block's."""

ATTENTION_FREE: Final = frozenset({"FalconMambaForCausalLM", "Mamba2ForCausalLM", "MambaForCausalLM"})
"""Classes without attention whatever their config says: vLLM 0.32.0, IsAttentionFree."""


def check_state_choices(flags: ServeFlags, rules: StateRules) -> None:
    """Refuse a mode or a type of states that the release does not know.

    Raises:
        EngineRefusal: the engine's validation error, which lists those it accepts (stage ``config``).
    """
    _check_choice("mamba_cache_dtype", flags.mamba_cache_dtype, rules.dtypes)
    _check_choice("mamba_ssm_cache_dtype", flags.mamba_ssm_cache_dtype, rules.dtypes)
    _check_choice("mamba_cache_mode", flags.mamba_cache_mode, rules.cache_modes)


def _check_choice(flag: str, value: str | None, accepted: tuple[str, ...]) -> None:
    if value is None or value in accepted:
        return
    *others, last = (f"'{name}'" for name in accepted)
    raise EngineRefusal(
        Stage.CONFIG,
        f"1 validation error for CacheConfig\n{flag}\n  Input should be {', '.join(others)} or {last} "
        f"[type=literal_error, input_value='{value}', input_type=str]",
        type="ValidationError",
        detail=f"This release has no {flag} {value!r}; it accepts {', '.join(accepted)}.",
    )


def check_state_flags(
    flags: ServeFlags, rules: StateRules, *, caching: bool, mode: str, max_model_len: int
) -> None:
    """Refuse flags that do not fit the way in which states are stored.

    Source: vLLM 0.32.0, MambaModelConfig and VllmConfig.validate_mamba_block_size.

    Raises:
        EngineRefusal: stage ``config``.
    """
    words: str | None = None
    if mode == ALIGN and flags.enable_chunked_prefill is False:
        words = rules.unchunked_refusal
    if not words and rules.block_needs_caching and not caching:
        specified = flags.mamba_block_size not in {None, max_model_len}
        words = "--mamba-block-size can only be set with --enable-prefix-caching" if specified else None
    if words:
        raise EngineRefusal(Stage.CONFIG, f"VllmConfig: {words}", type="ValidationError")


def check_state_dtype(architecture: ModelArchitecture, flags: ServeFlags, rules: StateRules) -> None:
    """Refuse states of linear attention in 32 bits where the release cannot store them.

    Raises:
        EngineRefusal: stage ``config``.
    """
    if flags.mamba_cache_dtype != "float32" or rules.float32_linear:
        return
    linear = (LinearAttention, GroupedLinearAttention)
    if any(isinstance(mixer, linear) for mixer in architecture.recurrences):
        words = "VllmConfig: fp32 state for minimax is not yet supported"
        raise EngineRefusal(Stage.CONFIG, words, type="ValidationError")


def resolve_state_caching(
    architecture: ModelArchitecture, flags: ServeFlags, rules: StateRules, *, drafts_align: bool = False
) -> tuple[bool, str]:
    """Return whether prefix caching is on, and the mode in which recurrent states are stored.

    Args:
        architecture: the model.
        flags: the caller's.
        rules: the release's rules for states.
        drafts_align: there are draft tokens, and with them the release keeps the states at block ends only.

    Source: vLLM 0.10.2 to 0.33.0, model_executor/models/config.py MambaModelConfig.
    """
    caching = flags.enable_prefix_caching
    if architecture.encoder_tokens is not None:
        return caching is True and rules.encoders_may_cache_prefixes, NONE
    if not architecture.is_recurrent:
        return caching is not False, NONE
    if not architecture.states.declared:
        return caching is not False, flags.mamba_cache_mode or NONE
    if caching is None:
        attends = architecture.class_name not in ATTENTION_FREE
        caching = rules.hybrid_prefix_caching if attends else rules.attention_free_prefix_caching
    mode = _mode(flags.mamba_cache_mode, architecture.class_name, rules) if caching else NONE
    if drafts_align and mode == ALL and flags.mamba_cache_mode in {None, NONE}:
        mode = ALIGN
    switched_off = rules.caching in {StateCaching.NEVER, StateCaching.ALL_OR_NEVER} and mode == NONE
    return caching and not switched_off, mode


def _mode(requested: str | None, class_name: str, rules: StateRules) -> str:
    every = class_name in rules.every_state_classes
    match rules.caching:
        case StateCaching.NEVER:
            return NONE
        case StateCaching.ALL_OR_NEVER:
            return ALL if every else NONE
        case StateCaching.ALL_OR_ALIGN:
            return ALL if every and requested != ALIGN else ALIGN
        case StateCaching.ALIGN_BY_DEFAULT:
            return ALL if every and requested == ALL else ALIGN
        case StateCaching.ALIGN:
            return ALIGN
    assert_never(rules.caching)
