"""The small language in which the bundled data says when something holds."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from service.backends.attention_request import AttentionRequest
from service.gpus.capability import ComputeCapability

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Subject:
    """One request on one GPU: what conditions are evaluated on."""

    request: AttentionRequest
    capability: ComputeCapability
    chosen: str | None = None
    """The backend that the user named."""
    quantized: bool = False
    """The release counts the layer's cache dtype as quantized."""
    flash_attn_available: frozenset[int] = frozenset()
    """FlashAttention versions whose kernels run on this GPU."""
    flash_attn: int | None = None
    """The FlashAttention version of the model as a whole; None: none runs."""
    flash_attn_of_layer: int | None = None
    """The one this layer ends up with, its head size considered."""
    of_spec: bool = False
    """For the layer's cache spec, not for the model as a whole."""

    @property
    def model_head_size(self) -> int:
        """The model's head size; the layer's own where the model has but one."""
        return self.request.model_head_size or self.request.head_size

    @property
    def values_differ(self) -> bool:
        """Values are of another size than keys."""
        return self.request.head_size_v not in {None, self.request.head_size}

    @property
    def grouped_queries(self) -> bool:
        """Several query heads read each key head."""
        heads, kv_heads = self.request.num_heads, self.request.num_kv_heads
        return kv_heads > 0 and heads > kv_heads and heads % kv_heads == 0


@dataclass(frozen=True, slots=True)
class Predicate(Generic[T]):
    """One word of the language: how its operand is written and when it holds."""

    parse: Callable[[Any], T]
    holds: Callable[[Subject, T], bool]
    decided: Callable[[ComputeCapability, T], bool] | None = None
    """The same for a word that asks of the GPU alone; ``None`` for any other."""


def _of_gpu(parse: Callable[[Any], T], decided: Callable[[ComputeCapability, T], bool]) -> Predicate[T]:
    return Predicate(parse, lambda subject, operand: decided(subject.capability, operand), decided)


def _within(fact: Callable[[Subject], object]) -> Predicate[frozenset[object]]:
    return Predicate(frozenset, lambda subject, allowed: fact(subject) in allowed)


def _is(fact: Callable[[Subject], bool]) -> Predicate[bool]:
    return Predicate(bool, lambda subject, expected: fact(subject) is expected)


def _misaligned(subject: Subject, unit: int) -> bool:
    size = subject.request.block_size
    return size is not None and size % unit != 0


PREDICATES: Final[Mapping[str, Predicate[Any]]] = {
    "capability": _of_gpu(frozenset, lambda capability, allowed: str(capability) in allowed),
    "capability_major": _of_gpu(frozenset, lambda capability, allowed: capability.major in allowed),
    "capability_at_least": _of_gpu(ComputeCapability.parse, lambda capability, least: capability >= least),
    "capability_at_most": _of_gpu(ComputeCapability.parse, lambda capability, most: capability <= most),
    "capability_below": _of_gpu(ComputeCapability.parse, lambda capability, limit: capability < limit),
    "dtype": _within(lambda s: s.request.dtype),
    "kv_cache_dtype": _within(lambda s: s.request.kv_cache_dtype),
    "kv_cache_dtype_prefix": Predicate(str, lambda s, prefix: s.request.kv_cache_dtype.startswith(prefix)),
    "quantized": _is(lambda s: s.quantized),
    "head_size": _within(lambda s: s.request.head_size),
    "head_size_above": Predicate(int, lambda s, limit: s.request.head_size > limit),
    "head_size_at_least": Predicate(int, lambda s, least: s.request.head_size >= least),
    "head_size_at_most": Predicate(int, lambda s, most: s.request.head_size <= most),
    "head_size_multiple_of": Predicate(int, lambda s, unit: s.request.head_size % unit == 0),
    "head_size_v": _within(lambda s: s.request.head_size_v),
    "values_differ": _is(lambda s: s.values_differ),
    "model_head_size": _within(lambda s: s.model_head_size),
    "block_size_not_multiple_of": Predicate(int, _misaligned),
    "gathered_heads": _within(lambda s: s.request.num_heads * s.request.decode_context_parallel_size),
    "num_heads_at_most": Predicate(int, lambda s, most: s.request.num_heads <= most),
    "num_kv_heads_at_most": Predicate(int, lambda s, most: s.request.num_kv_heads <= most),
    "grouped_queries": _is(lambda s: s.grouped_queries),
    "group_heads": _within(lambda s: s.request.group_heads),
    "mla": _is(lambda s: s.request.mla),
    "sparse": _is(lambda s: s.request.sparse),
    "qk_nope_head_dim": _within(lambda s: s.request.qk_nope_head_dim),
    "qk_rope_head_dim": _within(lambda s: s.request.qk_rope_head_dim),
    "v_head_dim": _within(lambda s: s.request.v_head_dim),
    "kv_lora_rank": _within(lambda s: s.request.kv_lora_rank),
    "indexed": _is(lambda s: s.request.index_topk is not None),
    "index_topk": _within(lambda s: s.request.index_topk),
    "index_topk_multiple_of": Predicate(
        int, lambda s, unit: s.request.index_topk is not None and s.request.index_topk % unit == 0
    ),
    "attn_type": _within(lambda s: s.request.attn_type),
    "sinks": _is(lambda s: s.request.sinks),
    "shares_cache": _is(lambda s: s.request.shares_cache),
    "mm_prefix": _is(lambda s: s.request.mm_prefix),
    "non_causal": _is(lambda s: s.request.non_causal),
    "logits_soft_cap": _is(lambda s: s.request.logits_soft_cap),
    "flash_attn_available": Predicate(int, lambda s, version: version in s.flash_attn_available),
    "flash_attn": _within(lambda s: s.flash_attn),
    "flash_attn_of_layer": _within(lambda s: s.flash_attn_of_layer),
    "context_parallel": _is(lambda s: s.request.context_parallel),
    "of_spec": _is(lambda s: s.of_spec),
    "chosen": _within(lambda s: s.chosen or ""),
}


@dataclass(frozen=True, slots=True)
class Condition:
    """Clauses that must all hold; none at all always holds."""

    clauses: tuple[tuple[str, Any], ...]
    tests: tuple[tuple[Callable[[Subject, Any], bool], Any], ...] = field(
        init=False, repr=False, compare=False
    )
    """The clauses with their words looked up."""

    def __post_init__(self) -> None:
        tests = tuple((PREDICATES[word].holds, operand) for word, operand in self.clauses)
        object.__setattr__(self, "tests", tests)

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> "Condition":
        """Read ``{capability_major = [9], flash_attn = [3]}``.

        Raises:
            KeyError: a word is not in the language.
        """
        return cls(tuple((word, PREDICATES[word].parse(operand)) for word, operand in raw.items()))

    def holds(self, subject: Subject) -> bool:
        """Say whether every clause holds."""
        for holds, operand in self.tests:  # noqa: SIM110 - a third faster than all(), and run thousands of times
            if not holds(subject, operand):
                return False
        return True

    def on(self, capability: ComputeCapability) -> "Condition | None":
        """Return what is left to ask on GPUs of a compute capability; ``None``: it never holds there."""
        left = []
        for word, operand in self.clauses:
            decided = PREDICATES[word].decided
            if decided is None:
                left.append((word, operand))
            elif not decided(capability, operand):
                return None
        return self if len(left) == len(self.clauses) else Condition(tuple(left))


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Alternatives, one of which must hold; none at all never holds."""

    alternatives: tuple[Condition, ...]

    @classmethod
    def parse(cls, raw: Any) -> "AnyOf":  # noqa: ANN401 - a table or an array of tables, as TOML gives it
        """Read one condition or an array of them."""
        alternatives = (raw,) if isinstance(raw, Mapping) else raw
        return cls(tuple(Condition.parse(alternative) for alternative in alternatives))

    @property
    def always(self) -> bool:
        """Whether it holds for every request."""
        return any(not alternative.clauses for alternative in self.alternatives)

    def holds(self, subject: Subject) -> bool:
        """Say whether some alternative holds."""
        for alternative in self.alternatives:  # noqa: SIM110 - as in Condition.holds
            if alternative.holds(subject):
                return True
        return False

    def on(self, capability: ComputeCapability) -> "AnyOf":
        """Return what is left to ask on GPUs of a compute capability."""
        requested = (alternative.on(capability) for alternative in self.alternatives)
        left = AnyOf(tuple(alternative for alternative in requested if alternative is not None))
        return ALWAYS if left.always else left


ALWAYS: Final = AnyOf((Condition(()),))


@dataclass(frozen=True, slots=True)
class OutcomeRule(Generic[T]):
    """An outcome and the conditions under which it is the outcome."""

    outcome: T
    when: AnyOf
    unless: AnyOf

    @classmethod
    def parse(
        cls, raw: Mapping[str, Any], parse_outcome: Callable[[Mapping[str, Any]], T]
    ) -> "OutcomeRule[T]":
        """Read a table of ``when``, ``unless`` and, in its other keys, the outcome."""
        outcome = {key: value for key, value in raw.items() if key not in {"when", "unless"}}
        return cls(
            parse_outcome(outcome), AnyOf.parse(raw.get("when", {})), AnyOf.parse(raw.get("unless", ()))
        )

    def applies(self, subject: Subject) -> bool:
        """Say whether this is the outcome for the subject."""
        return self.when.holds(subject) and not self.unless.holds(subject)


def first_outcome(rules: tuple[OutcomeRule[T], ...], subject: Subject) -> T | None:
    """Return the outcome of the first rule that applies."""
    for rule in rules:
        if rule.applies(subject):
            return rule.outcome
    return None


def rules_on(rules: tuple[OutcomeRule[T], ...], capability: ComputeCapability) -> tuple[OutcomeRule[T], ...]:
    """Return the rules that may apply on GPUs of a compute capability, with what is left to ask of them."""
    requested = (
        OutcomeRule(rule.outcome, rule.when.on(capability), rule.unless.on(capability)) for rule in rules
    )
    return tuple(rule for rule in requested if rule.when.alternatives and not rule.unless.always)
