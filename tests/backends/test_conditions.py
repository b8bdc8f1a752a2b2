"""The language of the bundled conditions."""

from typing import Any

import pytest

from service.backends.attention_request import AttentionRequest
from service.backends.conditions import (
    PREDICATES,
    AnyOf,
    Condition,
    OutcomeRule,
    Subject,
    first_outcome,
)
from service.gpus.capability import ComputeCapability

REQUEST = AttentionRequest(
    head_size=128,
    dtype="bfloat16",
    kv_cache_dtype="fp8",
    num_heads=32,
    num_kv_heads=8,
    block_size=48,
    qk_nope_head_dim=64,
    qk_rope_head_dim=0,
    v_head_dim=128,
    kv_lora_rank=512,
    index_topk=2048,
    group_heads=8,
    sparse=True,
    head_size_v=96,
    sinks=True,
    shares_cache=True,
    decode_context_parallel_size=2,
)
SUBJECT = Subject(
    REQUEST,
    ComputeCapability.parse("8.9"),
    chosen="TRITON_ATTN",
    quantized=True,
    flash_attn_available=frozenset({2}),
    flash_attn=2,
    flash_attn_of_layer=4,
)


@pytest.mark.parametrize(
    ("word", "true", "false"),
    [
        ("capability", ["8.9"], ["8.0"]),
        ("capability_major", [8, 9], [9]),
        ("capability_at_least", "8.9", "9.0"),
        ("capability_at_most", "8.9", "8.6"),
        ("capability_below", "9.0", "8.9"),
        ("dtype", ["bfloat16"], ["float16"]),
        ("kv_cache_dtype", ["auto", "fp8"], ["auto"]),
        ("kv_cache_dtype_prefix", "fp", "nvfp4"),
        ("quantized", True, False),
        ("head_size", [128], [64]),
        ("head_size_above", 127, 128),
        ("head_size_at_least", 128, 129),
        ("head_size_at_most", 128, 127),
        ("head_size_multiple_of", 64, 96),
        ("head_size_v", [96], [128]),
        ("values_differ", True, False),
        ("model_head_size", [128], [256]),
        ("block_size_not_multiple_of", 32, 16),
        ("gathered_heads", [64], [32]),
        ("num_heads_at_most", 32, 16),
        ("num_kv_heads_at_most", 8, 4),
        ("grouped_queries", True, False),
        ("group_heads", [8], [16]),
        ("mla", False, True),
        ("sparse", True, False),
        ("qk_nope_head_dim", [64], [128]),
        ("qk_rope_head_dim", [0], [64]),
        ("v_head_dim", [128], [64]),
        ("kv_lora_rank", [512], [256]),
        ("indexed", True, False),
        ("index_topk", [2048], [1024]),
        ("index_topk_multiple_of", 128, 1000),
        ("attn_type", ["decoder"], ["encoder_only"]),
        ("sinks", True, False),
        ("shares_cache", True, False),
        ("mm_prefix", False, True),
        ("non_causal", False, True),
        ("logits_soft_cap", False, True),
        ("flash_attn_available", 2, 4),
        ("flash_attn", [2], [3, 4]),
        ("flash_attn_of_layer", [4], [2]),
        ("context_parallel", True, False),
        ("of_spec", False, True),
        ("chosen", ["TRITON_ATTN"], [""]),
    ],
)
def test_every_word(word: str, true: object, false: object) -> None:
    assert Condition.parse({word: true}).holds(SUBJECT)
    assert not Condition.parse({word: false}).holds(SUBJECT)


def test_no_word_is_left_untested() -> None:
    marks = test_every_word.pytestmark  # type: ignore[attr-defined]
    tested = {word for word, _, _ in marks[0].args[1]}
    assert tested == set(PREDICATES)


def test_a_condition_without_clauses_holds_and_no_alternatives_never_do() -> None:
    assert AnyOf.parse({}).holds(SUBJECT)
    assert not AnyOf.parse([]).holds(SUBJECT)


def test_clauses_are_joined_by_and_alternatives_by_or() -> None:
    here, elsewhere = {"head_size": [128], "dtype": ["bfloat16"]}, {"head_size": [128], "dtype": ["float16"]}
    assert AnyOf.parse(here).holds(SUBJECT)
    assert not AnyOf.parse(elsewhere).holds(SUBJECT)
    assert AnyOf.parse([elsewhere, here]).holds(SUBJECT)


def test_an_unknown_word_is_refused() -> None:
    with pytest.raises(KeyError, match="colour"):
        Condition.parse({"colour": "blue"})


def test_the_first_rule_that_applies_gives_the_outcome() -> None:
    raw: list[dict[str, Any]] = [
        {"size": 1, "when": {"head_size": [64]}},
        {"size": 2, "unless": {"sinks": True}},
        {"size": 3},
        {"size": 4},
    ]
    rules = tuple(OutcomeRule.parse(one, lambda outcome: int(outcome["size"])) for one in raw)
    assert first_outcome(rules, SUBJECT) == 3
    assert first_outcome(rules[:2], SUBJECT) is None
