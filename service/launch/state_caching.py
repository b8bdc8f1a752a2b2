"""Whether prefixes are cached, and which recurrent states are kept for it."""

from service.architecture.model import ModelArchitecture
from service.engines.flags import ServeFlags
from service.engines.rules import EngineRules, StateCaching

NONE, ALIGN, ALL = "none", "align", "all"
"""Values of mamba_cache_mode: the last state, the last block's too, or every block's."""


def resolve(
    architecture: ModelArchitecture, flags: ServeFlags, rules: EngineRules, *, guesses: bool = False
) -> tuple[bool, str]:
    """Return whether prefix caching is on, and the mode in which recurrent states are kept.

    ``guesses``: tokens are guessed ahead.

    Source: vLLM 0.10.2 to 0.33.0, model_executor/models/config.py MambaModelConfig.
    """
    caching = flags.enable_prefix_caching
    if not architecture.is_recurrent:
        return caching is not False, NONE
    if caching is None:
        attends = architecture.lead_attention is not None
        caching = rules.hybrid_prefix_caching if attends else rules.attention_free_prefix_caching
    mode = _mode(flags.mamba_cache_mode, architecture.class_name, rules) if caching else NONE
    if guesses and rules.drafts_align_states and mode == ALL and flags.mamba_cache_mode in {None, NONE}:
        mode = ALIGN
    switched_off = rules.state_caching in {StateCaching.NEVER, StateCaching.ALL_OR_NEVER} and mode == NONE
    return caching and not switched_off, mode


def _mode(asked: str | None, class_name: str, rules: EngineRules) -> str:
    every = class_name in rules.every_state_classes
    match rules.state_caching:
        case StateCaching.NEVER:
            return NONE
        case StateCaching.ALL_OR_NEVER:
            return ALL if every else NONE
        case StateCaching.ALL_OR_ALIGN:
            return ALL if every and asked != ALIGN else ALIGN
        case StateCaching.ALIGN_BY_DEFAULT:
            return ALL if every and asked == ALL else ALIGN
        case StateCaching.ALIGN:
            return ALIGN
