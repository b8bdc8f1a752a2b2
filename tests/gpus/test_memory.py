"""The catalog's memory against printouts of real machines."""

import csv
import dataclasses
import json
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from service.gpus.catalog import find_gpu, gpu_catalog
from service.gpus.derivation import memory_of
from service.gpus.evidence import MemoryEvidence, Reader
from service.gpus.gpu_type import GpuType, MemoryBasis, TotalKind
from service.gpus.totals import MemoryTotal
from service.units import MIB, gib_text

DATA = Path(__file__).parents[1] / "data" / "gpus"
PRINTED: dict[str, list[dict[str, Any]]] = json.loads((DATA / "printed_totals.json").read_text("utf-8"))
SURVEY = list(csv.DictReader((DATA / "survey.csv").read_text("utf-8").splitlines()))


def overlaps(gpu: GpuType, total: MemoryTotal) -> bool:
    return total.low <= gpu.memory_high_bytes and gpu.memory_low_bytes <= total.high


@pytest.mark.parametrize("row", PRINTED["named"], ids=lambda row: f"{row['gpu']} {row['total']}")
def test_a_total_from_a_real_log_is_the_cards_or_a_known_variant_of_it(row: dict[str, Any]) -> None:
    gpu = find_gpu(row["gpu"])
    known = {variant.total for variant in gpu.variants if variant.of is TotalKind.CUDA}
    assert overlaps(gpu, MemoryTotal.printed(row["total"])) or row["total"] in known


@pytest.mark.parametrize(
    ("gpu_id", "logged"),
    [
        ("rtx-3090-24gb", "23.56"),
        ("l4-24gb", "22.04"),
        ("a40-48gb", "44.42"),
        ("a100-sxm-40gb", "39.49"),
        ("h100-sxm-80gb", "79.19"),
        ("h200-sxm-141gb", "139.80"),
        ("b200-180gb", "178.36"),
        ("b300-288gb", "267.69"),
        ("gb10-128gb", "121.63"),
        ("rtx-pro-6000-blackwell-server-96gb", "94.97"),
        ("rtx-pro-6000-blackwell-max-q-96gb", "94.97"),
        ("rtx-pro-6000-blackwell-workstation-96gb", "94.97"),
    ],
)
def test_the_value_prints_what_the_engine_logs_today(gpu_id: str, logged: str) -> None:
    assert gib_text(find_gpu(gpu_id).memory_bytes) == logged


@pytest.mark.parametrize("row", PRINTED["by_driver_total"], ids=lambda row: row["total"])
def test_a_total_printed_without_a_name_fits_a_card_with_that_driver_total(row: dict[str, Any]) -> None:
    cards = [find_gpu(gpu_id) for gpu_id in row["gpus"]]
    assert {card.driver_total_mib for card in cards} == {row["driver_total_mib"]}
    assert {card.memory_basis for card in cards} == {MemoryBasis.DRIVER}
    assert any(overlaps(card, MemoryTotal.printed(row["total"])) for card in cards)


@pytest.mark.parametrize("row", SURVEY, ids=lambda row: row["id"])
def test_the_catalog_keeps_what_the_survey_of_printouts_found(row: dict[str, str]) -> None:
    gpu = find_gpu(row["id"])
    assert gpu.name == row["name"]
    assert str(gpu.compute_capability or gpu.architecture or "") == row["compute_capability"]
    drivers = {f"{gpu.driver_total_mib} MiB"} | {v.total for v in gpu.variants if v.of is TotalKind.DRIVER}
    assert not row["driver_total_mib"] or f"{row['driver_total_mib']} MiB" in drivers
    if row["cuda_total_gib"]:
        assert overlaps(gpu, MemoryTotal.printed(f"{float(row['cuda_total_gib']):.2f} GiB"))


@pytest.mark.parametrize(
    ("gpu_id", "driver_mib", "cuda_mib"),
    [("h200-sxm-141gb", 143771, 143156), ("b200-180gb", 183359, 182642), ("h100-sxm-80gb", 81559, 81091)],
)
def test_documented_pairs_of_driver_and_cuda_total(gpu_id: str, driver_mib: int, cuda_mib: int) -> None:
    gpu = find_gpu(gpu_id)
    assert gpu.driver_total_mib == driver_mib
    assert abs(gpu.memory_bytes - cuda_mib * MIB) <= MIB


def evidence() -> list[MemoryEvidence]:
    raw = tomllib.loads(files("service.gpus").joinpath("gpus.toml").read_text("utf-8"))
    readers = {name: Reader(**table) for name, table in raw["reader"].items()}
    return [MemoryEvidence.parse(table, readers) for table in raw["gpu"]]


def with_a_line_through_others() -> list[MemoryEvidence]:
    known = [card for card in evidence() if card.readings and card.driver_total]
    return [
        card
        for card in known
        if len({o.driver_total for o in known if o.silicon == card.silicon and o.id != card.id}) >= 2
    ]


@pytest.mark.parametrize("card", with_a_line_through_others(), ids=lambda card: card.id)
def test_a_card_held_out_is_found_again_from_its_driver_total(card: MemoryEvidence) -> None:
    silent = dataclasses.replace(card, readings=(), unnamed=())
    found = memory_of(silent, evidence())
    assert found.basis is MemoryBasis.DRIVER
    assert card.printed is not None
    assert abs(found.total.value - card.printed.value) <= 16 * MIB
    assert found.total.low <= card.printed.high
    assert card.printed.low <= found.total.high


def test_most_derived_cards_rest_on_a_line_that_was_held_out() -> None:
    tested = {card.silicon for card in with_a_line_through_others()}
    derived = [gpu for gpu in gpu_catalog() if gpu.memory_basis is MemoryBasis.DRIVER and gpu.modelled]
    assert sum(str(gpu.compute_capability) in tested for gpu in derived) / len(derived) > 0.75


def test_windows_totals_never_stand_for_native_linux() -> None:
    for gpu in gpu_catalog():
        windows = [v for v in gpu.variants if v.when.startswith("Windows")]
        for variant in windows:
            assert MemoryTotal.printed(variant.total).value == (gpu.driver_total_mib or 0) * MIB - MIB
            assert gpu.memory_high_bytes < MemoryTotal.printed(variant.total).low


def test_the_source_says_how_the_figure_is_known() -> None:
    opening = {MemoryBasis.PRINTED: "printed on native Linux: ", MemoryBasis.MARKETING: "only the nominal "}
    for gpu in gpu_catalog():
        if gpu.memory_basis is MemoryBasis.DRIVER:
            assert f"{gpu.driver_total_mib} MiB" in gpu.source
            assert "no CUDA total is known" in gpu.source
        else:
            assert gpu.source.startswith(opening[gpu.memory_basis])
