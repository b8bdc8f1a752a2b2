"""Backends of whole launches, against what the releases did."""

from collections import Counter
from typing import Any

import pytest

from service.backends.forced import forced_attention
from service.backends.selection import select_backend
from service.engines.refusal import EngineRefusal
from tests.backends.recorded import capability_of, records, release_of, request_of

LAUNCHES = records("launches.json")


def backends_of(launch: dict[str, Any]) -> Counter[str]:
    release, capability = release_of(launch), capability_of(launch)
    forced = forced_attention(
        release,
        capability,
        head_sizes=[raw["head_size"] for raw, _ in launch["layers"]],
        kv_cache_dtype=launch["kv_cache_dtype"],
        gemma4=launch["gemma4"],
    )
    chosen: Counter[str] = Counter()
    for raw, layers in launch["layers"]:
        backend = select_backend(
            request_of(raw, forced.flash_attn_version),
            release,
            capability,
            chosen=forced.backend,
            device_name=launch["device_name"],
        )
        chosen[backend.name] += layers
    return chosen


def name_of(launch: dict[str, Any]) -> str:
    return f"{launch['release']}-{launch['row']}"


@pytest.mark.parametrize("launch", [row for row in LAUNCHES if "backends" in row["expect"]], ids=name_of)
def test_layers_get_the_backends_of_the_release(launch: dict[str, Any]) -> None:
    assert backends_of(launch) == launch["expect"]["backends"]


@pytest.mark.parametrize("launch", [row for row in LAUNCHES if "error" in row["expect"]], ids=name_of)
def test_a_refusal_is_in_the_words_of_the_release(launch: dict[str, Any]) -> None:
    with pytest.raises(EngineRefusal) as refusal:
        backends_of(launch)
    assert {
        "type": refusal.value.type,
        "message": refusal.value.message,
        "stage": refusal.value.stage,
    } == launch["expect"]["error"]
