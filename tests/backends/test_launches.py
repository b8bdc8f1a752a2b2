"""Backends of whole launches, against what the releases did."""

from collections import Counter
from typing import Any

import pytest

from service.backends.backend import AttentionBackend
from service.backends.backend_rules import Forced
from service.backends.forced import forced_attention
from service.backends.selection import select_backend
from service.backends.unselected import UnselectedLayer, unselected_backend
from service.engines.refusal import EngineRefusal
from tests.backends.recorded import (
    capability_of,
    records,
    release_of,
    request_of,
)

LAUNCHES = records("launches.json")


def forced_of(launch: dict[str, Any]) -> Forced:
    requests = [raw for _, raw, _ in launch["layers"] if raw]
    mla: dict[str, Any] = next((raw for raw in requests if raw.get("mla")), {})
    return forced_attention(
        release_of(launch),
        capability_of(launch),
        head_sizes=[raw["head_size"] for raw in requests] or [1],
        kv_cache_dtype=launch["kv_cache_dtype"],
        chosen=launch.get("chosen"),
        gemma4=launch["gemma4"],
        mla=bool(mla),
        sparse=mla.get("sparse", False),
        qk_nope_head_dim=mla.get("qk_nope_head_dim"),
    )


def backend_of(launch: dict[str, Any], kind: str | None, raw: dict[str, Any]) -> AttentionBackend:
    forced, release, capability = forced_of(launch), release_of(launch), capability_of(launch)
    device, chosen = launch["device_name"], launch.get("chosen")
    if kind is None:
        request = request_of(raw, forced.flash_attn_version)
        backend = chosen or forced.backend
        return select_backend(request, release, capability, chosen=backend, device_name=device)
    layer = UnselectedLayer(kind)
    if not raw:
        return unselected_backend(layer, release, capability, chosen=chosen)
    return unselected_backend(layer, release, capability, request=request_of(raw), chosen=chosen)


def backends_of(launch: dict[str, Any]) -> Counter[str]:
    counted: Counter[str] = Counter()
    for kind, raw, layers in launch["layers"]:
        backend = backend_of(launch, kind, raw)
        counted["" if backend.nameless else backend.name] += layers
    return counted


def name_of(launch: dict[str, Any]) -> str:
    return f"{launch['release']}-{launch['row']}"


@pytest.mark.parametrize("launch", [row for row in LAUNCHES if "backends" in row["expect"]], ids=name_of)
def test_layers_get_the_backends_of_the_release(launch: dict[str, Any]) -> None:
    assert backends_of(launch) == launch["expect"]["backends"]


@pytest.mark.parametrize("launch", [row for row in LAUNCHES if "cache_dtype" in row["expect"]], ids=name_of)
def test_sparse_layers_store_the_format_of_the_release(launch: dict[str, Any]) -> None:
    stored = {backend_of(launch, kind, raw).cache_dtype for kind, raw, _ in launch["layers"] if raw}
    assert stored == {launch["expect"]["cache_dtype"]}


@pytest.mark.parametrize("launch", [row for row in LAUNCHES if "error" in row["expect"]], ids=name_of)
def test_a_refusal_is_in_the_words_of_the_release(launch: dict[str, Any]) -> None:
    with pytest.raises(EngineRefusal) as refusal:
        backends_of(launch)
    assert {
        "type": refusal.value.type,
        "message": refusal.value.message,
        "stage": refusal.value.stage,
    } == launch["expect"]["error"]
