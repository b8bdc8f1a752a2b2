"""Which properties of a rank's heads decide its backends, so that other sizes of ranks share a result."""

from collections.abc import Hashable, Iterator
from dataclasses import fields
from functools import lru_cache
from typing import Any, Final

from packaging.version import Version

from service.backends.attention_request import AttentionRequest
from service.backends.backend_rules import ReleaseRules, Traits, release_rules
from service.backends.conditions import (
    PREDICATES,
    AnyOf,
    OutcomeRule,
    Subject,
)
from service.gpus.capability import ComputeCapability

WORDS: Final = frozenset({"gathered_heads", "num_heads_at_most", "num_kv_heads_at_most", "grouped_queries"})
"""Conditions that depend on heads."""
PRINTED: Final = ("num_heads}", "num_kv_heads}")
"""How messages name them."""
ANY_GPU: Final = ComputeCapability(9, 0)
"""Stands for any GPU, where no condition depends on it."""


@lru_cache(maxsize=1024)
def heads_seen_by_backends(release: Version, num_heads: int, num_kv_heads: int) -> Hashable:
    """Return the outcomes of all conditions on heads in the release's backends for plain attention.

    Layers that differ in the number of heads alone, and agree in this, get the same backend or refusal.
    """
    requested = _requested(release)
    if requested is None:
        return num_heads, num_kv_heads
    request = AttentionRequest(
        head_size=1, dtype="auto", kv_cache_dtype="auto", num_heads=num_heads, num_kv_heads=num_kv_heads
    )
    subject = Subject(request, ANY_GPU)
    return tuple(PREDICATES[word].holds(subject, operand) for word, operand in requested)


@lru_cache(maxsize=64)
def _requested(release: Version) -> tuple[tuple[str, Any], ...] | None:
    """Return the tests on heads in the rules for plain attention; ``None``: messages print heads."""
    rules = release_rules(release)
    parts = tuple(_parts(rules))
    outcomes = (rule.outcome for rule in parts if isinstance(rule, OutcomeRule))
    messages = repr((rules.selector_config, rules.attn_type_printed, *outcomes))
    printed = any(text in messages for text in PRINTED)
    tests = (
        clause
        for part in parts
        for conditions in ((part.when, part.unless) if isinstance(part, OutcomeRule) else (part,))
        for condition in conditions.alternatives
        for clause in condition.clauses
        if clause[0] in WORDS
    )
    return None if printed else tuple(dict.fromkeys(tests))


def _parts(rules: ReleaseRules) -> Iterator[OutcomeRule[Any] | AnyOf]:
    forced = (rule.outcome.backend for rule in (*rules.forced, *rules.forced_gemma4))
    tried = (name for rule in rules.multi_head_priorities for name in rule.outcome)
    names = dict.fromkeys(name for name in (*tried, *forced) if name is not None)
    tables: tuple[ReleaseRules | Traits, ...] = (rules, *map(rules.traits, names))
    for table in tables:
        for field in fields(table):
            value = getattr(table, field.name)
            if isinstance(value, AnyOf):
                yield value
            elif field.name != "mla_priorities" and isinstance(value, tuple):
                yield from value
