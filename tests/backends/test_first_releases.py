"""Single layers in the releases that validate nothing yet, against their own ``get_attn_backend_cls``."""

from typing import Any

import pytest

from service.backends.backend_rules import release_rules
from service.backends.flash_attention import subject_of
from service.backends.forced import forced_attention
from service.backends.selection import choose
from tests.backends.recorded import (
    capability_of,
    records,
    release_of,
    request_of,
)


def name_of(question: dict[str, Any]) -> str:
    return f"{question['release']}-sm{question['capability']}-{question['answer']['backend']}"


@pytest.mark.parametrize("question", records("first_releases.json"), ids=name_of)
def test_a_layer_gets_the_same_backend(question: dict[str, Any]) -> None:
    release, capability = release_of(question), capability_of(question)
    request = request_of(question["request"])
    forced = forced_attention(
        release,
        capability,
        head_sizes=[request.head_size],
        kv_cache_dtype=request.kv_cache_dtype,
        mla=request.mla,
        sparse=request.sparse,
    )
    rules = release_rules(release)
    backend = choose(rules, subject_of(request, rules, capability, forced.backend))
    assert backend.name == question["answer"]["backend"]
