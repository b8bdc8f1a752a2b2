"""Which recurrent states one start caches, and in which types it stores them."""

from dataclasses import dataclass
from typing import Self

from service.architecture.layers.recurrence import state_kind
from service.architecture.model import ModelArchitecture
from service.engine_config import model_dtype, state_caching
from service.engine_config.speculation import Speculation
from service.engines.engine_rules import EngineRules
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal, Stage
from service.engines.rules.speculation import SpeculationRules
from service.engines.rules.states import StateRules


@dataclass(frozen=True, slots=True)
class CachedStates:
    """Whether one start caches prefixes, and which recurrent states it caches for them."""

    with_prefixes: bool
    mode: str
    """One of ``state_caching.NONE``, ``ALIGN`` and ``ALL``."""

    @classmethod
    def of(
        cls,
        architecture: ModelArchitecture,
        flags: ServeFlags,
        rules: EngineRules,
        drafted: Speculation | None,
        max_model_len: int,
    ) -> Self:
        """Return what a start caches.

        Raises:
            EngineRefusal: stage ``config``.
        """
        caching, mode = state_caching.resolve_state_caching(
            architecture,
            flags,
            rules.states,
            drafts_align=drafted is not None and rules.speculation.drafts_align_states,
        )
        _check_aligned_states(drafted, mode, rules.speculation)
        state_caching.check_state_flags(
            flags, rules.states, caching=caching, mode=mode, max_model_len=max_model_len
        )
        state_caching.check_state_dtype(architecture, flags, rules.states)
        return cls(caching, mode)


@dataclass(frozen=True, slots=True)
class StateDtypes:
    """The types in which recurrent states are stored."""

    convolution: str
    recurrent: str

    @classmethod
    def of(cls, architecture: ModelArchitecture, flags: ServeFlags, rules: StateRules, dtype: str) -> Self:
        """Return the types for a model that runs in ``dtype``."""
        convolution = _state_dtype(flags.mamba_cache_dtype, dtype)
        return cls(convolution, _recurrent_dtype(architecture, flags, rules, convolution))


def _state_dtype(requested: str | None, dtype: str) -> str:
    """Return the type of a state: the requested one, or else the model's own."""
    return dtype if requested in (None, "auto") else model_dtype.ALIASES.get(requested, requested)


def _recurrent_dtype(
    architecture: ModelArchitecture, flags: ServeFlags, rules: StateRules, convolution: str
) -> str:
    """Return the type of the recurrent part of a state: the flag's, the config's, or its kind's own."""
    kinds = {state_kind(mixer) for mixer in architecture.recurrences}
    unset = next((rules.own_dtype[kind] for kind in kinds & rules.own_dtype.keys()), convolution)
    if kinds & rules.single_dtype_kinds:
        return unset
    if flags.mamba_ssm_cache_dtype not in (None, "auto"):
        return _state_dtype(flags.mamba_ssm_cache_dtype, convolution)
    default = rules.configured_dtype.get(architecture.class_name)
    if default is not None:
        return _state_dtype(architecture.states.dtype or default or None, convolution)
    return unset


def _check_aligned_states(drafted: Speculation | None, mode: str, rules: SpeculationRules) -> None:
    if drafted is not None and mode == state_caching.ALIGN and rules.aligned_states_refusal:
        words = f"VllmConfig: {rules.aligned_states_refusal}"
        raise EngineRefusal(Stage.CONFIG, words, type="ValidationError")
