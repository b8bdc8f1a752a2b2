"""Single layers, against answers of the releases' own selectors."""

from typing import Any

import pytest

from service.backends.backend_rules import release_rules
from service.backends.conditions import first_outcome
from service.backends.flash_attention import subject_of
from service.backends.selection import choose
from service.backends.validation import kernel_block_sizes_of
from service.engines.refusal import EngineRefusal
from tests.backends.recorded import (
    capability_of,
    records,
    release_of,
    request_of,
)

ASKED = records("selector.json")


NOT_INSTALLED = "tokenspeed_mla package is not installed. Install it with: `uv pip install tokenspeed-mla`"
"""The releases were asked in their builds for CPUs, which lack what requirements/cuda.txt installs."""


def installed(refusal: str, request: dict[str, Any]) -> str:
    """Return a recorded refusal as an installation for CUDA gives it, by tokenspeed_mla.py's next check."""
    sizes = tuple(request.get(name) for name in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"))
    shape = (
        "tokenspeed_mla requires DeepSeek R1 MLA dimensions "
        f"(qk_nope_head_dim=128, qk_rope_head_dim=64, v_head_dim=128), got {sizes}"
    )
    return refusal.replace(NOT_INSTALLED, shape)


def name_of(question: dict[str, Any]) -> str:
    outcome = question["answer"].get("backend", "refused")
    return f"{question['release']}-sm{question['capability']}-{outcome}"


@pytest.mark.parametrize("question", [one for one in ASKED if "refusal" in one["answer"]], ids=name_of)
def test_a_layer_is_refused_for_the_same_reasons(question: dict[str, Any]) -> None:
    rules = release_rules(release_of(question))
    request = request_of(question["request"])
    with pytest.raises(EngineRefusal) as refusal:
        choose(rules, subject_of(request, rules, capability_of(question), question["chosen"]))
    assert refusal.value.message == installed(question["answer"]["refusal"], question["request"])


@pytest.mark.parametrize("question", [one for one in ASKED if "backend" in one["answer"]], ids=name_of)
def test_a_layer_gets_the_same_backend(question: dict[str, Any]) -> None:
    rules = release_rules(release_of(question))
    subject = subject_of(request_of(question["request"]), rules, capability_of(question), question["chosen"])
    backend = choose(rules, subject)
    sizes = kernel_block_sizes_of(backend, subject)
    asked_dtype = subject.request.kv_cache_dtype
    answer = {
        "backend": backend.name,
        "cache_dtype": first_outcome(backend.cache_dtypes, subject) or asked_dtype,
        "fixed": list(sizes.fixed),
        "multiples_of": list(sizes.multiples_of),
        "preferred": sizes.preferred(),
        "indexes_kv_by_block_stride": backend.indexes_kv_by_block_stride,
        "flash_attn_version": subject.flash_attn_of_layer,
    }
    assert {fact: answer[fact] for fact in question["answer"]} == question["answer"]
