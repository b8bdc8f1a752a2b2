"""Measurements know what they depend on."""

from dataclasses import replace

import pytest

from service.calibration.measurement import (
    MeasuredDevice,
    MeasuredModel,
    Measurement,
    RankReadings,
    Stack,
    TermReading,
    digest,
)

MEASURED = Measurement(
    node="node-1",
    measured_at=86_400 * 20_000 + 5,
    device=MeasuredDevice("NVIDIA H100 80GB HBM3", "9.0", 85_028_896_768),
    release="0.19.0",
    flags={"tensor_parallel_size": 2, "gpu_memory_utilization": 0.9},
    utilization=0.9,
    model=MeasuredModel("org/name", {"architectures": ["LlamaForCausalLM"]}),
    ranks=(
        RankReadings(available_kv=TermReading(60)),
        RankReadings(available_kv=TermReading(50), weights=TermReading(7)),
        RankReadings(),
    ),
    stack=Stack("580.65.06", "13.0", "2.11.0"),
)


def test_the_fullest_rank_is_the_one_that_the_engine_goes_by() -> None:
    assert MEASURED.fullest.weights == TermReading(7)
    assert replace(MEASURED, ranks=(RankReadings(),)).fullest == RankReadings()


def test_a_measurement_of_nothing_is_none() -> None:
    with pytest.raises(ValueError, match="at least one rank"):
        replace(MEASURED, ranks=())


def test_the_day_is_utc() -> None:
    assert MEASURED.day == 20_000


@pytest.mark.parametrize(
    "other",
    [
        replace(MEASURED, release="0.20.0"),
        replace(MEASURED, stack=Stack("590.1", "13.0", "2.11.0")),
        replace(MEASURED, flags={"tensor_parallel_size": 1}),
        replace(MEASURED, device=replace(MEASURED.device, total_bytes=1)),
        replace(MEASURED, model=MeasuredModel("org/name", {"architectures": ["X"]})),
    ],
)
def test_what_numbers_depend_on_changes_the_key(other: Measurement) -> None:
    assert other.key != MEASURED.key


@pytest.mark.parametrize(
    "same",
    [
        replace(MEASURED, node="node-2", measured_at=0),
        replace(MEASURED, stack=Stack("580.95.05", "13.0", "2.11.0")),
        replace(MEASURED, flags={"gpu_memory_utilization": 0.5, "tensor_parallel_size": 2}),
        replace(MEASURED, model=MeasuredModel("renamed", {"architectures": ["LlamaForCausalLM"]})),
    ],
)
def test_what_they_do_not_depend_on_does_not(same: Measurement) -> None:
    assert same.key == MEASURED.key


def test_a_digest_is_that_of_the_canonical_document() -> None:
    # printf '{"a":1,"b":[]}' | sha256sum
    expected = "f87e4099e9be5e75094e0a4f46d3dc18a9c37429314a5a2490fb78d31e7e170c"
    assert digest({"b": (), "a": 1}) == expected
