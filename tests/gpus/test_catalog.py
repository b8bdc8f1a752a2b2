import copy
import tomllib
from importlib.resources import files
from typing import Any

import pytest

from service.gpus.catalog import (
    GpuCatalog,
    InvalidCatalog,
    UnknownGpu,
    find_gpu,
    gpu_catalog,
)
from service.gpus.gpu_type import (
    EccState,
    GpuType,
    MemoryBasis,
    TotalKind,
    Vendor,
)
from service.gpus.totals import MemoryTotal

WANTED = [
    "t4-16gb",
    "rtx-2080-ti-11gb",
    "rtx-3060-12gb",
    "rtx-3080-10gb",
    "rtx-3080-12gb",
    "rtx-3090-24gb",
    "rtx-4060-ti-16gb",
    "rtx-4090-24gb",
    "rtx-5060-ti-16gb",
    "rtx-5070-ti-16gb",
    "rtx-5080-16gb",
    "rtx-5090-32gb",
    "a2-16gb",
    "a10-24gb",
    "a16-16gb",
    "a30-24gb",
    "a40-48gb",
    "rtx-a6000-48gb",
    "rtx-6000-ada-48gb",
    "rtx-pro-4500-blackwell-32gb",
    "rtx-pro-5000-blackwell-48gb",
    "rtx-pro-6000-blackwell-workstation-96gb",
    "rtx-pro-6000-blackwell-server-96gb",
    "l4-24gb",
    "l40-48gb",
    "l40s-48gb",
    "v100-sxm2-16gb",
    "v100-sxm2-32gb",
    "a100-sxm-40gb",
    "a100-pcie-40gb",
    "a100-sxm-80gb",
    "a100-pcie-80gb",
    "a800-sxm-80gb",
    "h20-96gb",
    "h100-sxm-80gb",
    "h100-pcie-80gb",
    "h100-nvl-94gb",
    "h200-sxm-141gb",
    "gh200-96gb",
    "b200-180gb",
    "gb200-186gb",
    "b300-288gb",
    "gb300-288gb",
    "gb10-128gb",
    "jetson-thor-128gb",
    "mi300x-192gb",
    "mi325x-256gb",
    "mi355x-288gb",
]

every_gpu = pytest.mark.parametrize("gpu", gpu_catalog().types, ids=lambda gpu: gpu.id)


@pytest.fixture
def raw() -> dict[str, Any]:
    return tomllib.loads(files("service.gpus").joinpath("gpus.toml").read_text("utf-8"))


@pytest.mark.parametrize("gpu_id", WANTED)
def test_the_types_people_ask_for_are_there(gpu_id: str) -> None:
    assert find_gpu(gpu_id).id == gpu_id


def test_the_catalog_is_large_stable_and_read_once() -> None:
    assert len(gpu_catalog()) >= 75
    assert gpu_catalog() is gpu_catalog()
    assert [gpu.id for gpu in gpu_catalog()] == [gpu.id for gpu in gpu_catalog().types]


def test_iteration_follows_the_data(raw: dict[str, Any]) -> None:
    assert [gpu.id for gpu in gpu_catalog()] == [table["id"] for table in raw["gpu"]]


@every_gpu
def test_cuda_has_no_more_than_the_driver_and_the_driver_no_more_than_was_sold(gpu: GpuType) -> None:
    assert 0 < gpu.memory_low_bytes <= gpu.memory_bytes <= gpu.memory_high_bytes
    nominal = (gpu.marketing_gb or 0) << 30
    assert gpu.memory_high_bytes <= (gpu.driver_total_bytes or nominal) <= nominal
    assert gpu.source


@every_gpu
def test_the_interval_is_tight_enough_to_plan_with(gpu: GpuType) -> None:
    # The widest honest interval is the B100's, sold as 180 and as 192 GB. Next is an 8 GB card, whose gap to
    # the driver is bounded by those of 48 GB cards: 300 MiB.
    limit = 0.07 if gpu.memory_basis is MemoryBasis.MARKETING else 0.04
    assert (gpu.memory_high_bytes - gpu.memory_low_bytes) / gpu.memory_bytes < limit


@every_gpu
def test_only_nvidia_with_a_known_capability_is_modelled(gpu: GpuType) -> None:
    assert gpu.modelled == (gpu.vendor is Vendor.NVIDIA and gpu.compute_capability is not None)
    assert (gpu.architecture is not None) == (gpu.vendor is Vendor.AMD)


def test_figures_are_for_the_state_that_ecc_names() -> None:
    # Inline ECC costs a sixteenth of GDDR6, so the other state's driver total tells which is which.
    for gpu_id, state in [
        ("a10-24gb", EccState.ON),
        ("a40-48gb", EccState.ON),
        ("rtx-4000-ada-20gb", EccState.OFF),
    ]:
        gpu = find_gpu(gpu_id)
        assert gpu.ecc is state
        other = "ECC off" if state is EccState.ON else "ECC on"
        (text,) = (v.total for v in gpu.variants if v.of is TotalKind.DRIVER and v.when == other)
        assert gpu.driver_total_bytes is not None
        on, off = sorted((MemoryTotal.printed(text).value, gpu.driver_total_bytes))
        assert (gpu.driver_total_bytes == on) == (state is EccState.ON)
        assert on / off == pytest.approx(15 / 16, abs=0.001)


@pytest.mark.parametrize(
    ("requested", "first"),
    [
        ("RTX 3090", "rtx-3090-24gb"),
        ("rtx3090", "rtx-3090-24gb"),
        ("rtx-3090", "rtx-3090-24gb"),
        ("RTX-3090-24GB", "rtx-3090-24gb"),
        ("h100", "h100-sxm-80gb"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm-80gb"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm-80gb"),
        ("DGX Spark", "gb10-128gb"),
        ("4090", "rtx-4090-24gb"),
    ],
)
def test_a_name_is_answered_with_the_ids_it_can_mean(requested: str, first: str) -> None:
    with pytest.raises(UnknownGpu) as caught:
        find_gpu(requested)
    assert caught.value.id == requested
    assert caught.value.nearest[0] == first
    assert repr(requested) in str(caught.value)
    assert first in str(caught.value)


def test_h100_can_mean_each_of_its_forms() -> None:
    assert {"h100-sxm-80gb", "h100-pcie-80gb", "h100-nvl-94gb"} <= {*gpu_catalog().nearest("H100")}


def test_nonsense_has_no_neighbours() -> None:
    with pytest.raises(UnknownGpu, match=r"^unknown GPU 'toaster'; `dryserve gpus list` and"):
        find_gpu("toaster")


def test_two_types_cannot_share_an_id(raw: dict[str, Any]) -> None:
    raw["gpu"].append(copy.deepcopy(raw["gpu"][0]))
    with pytest.raises(InvalidCatalog, match="two GPU types have the id 't4-16gb'"):
        GpuCatalog.parse(raw)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"speed": 1}, "unknown keys"),
        ({"readings": [{"total": "23.56 GB", "by": "vllm"}]}, "not a printed total"),
        ({"readings": [{"total": "23.56 GiB", "by": "rumour"}]}, "rumour"),
        ({"readings": [{"total": "15361 MiB", "by": "llama.cpp"}]}, "above the driver's"),
        ({"unnamed": ["16 GB"]}, "not a printed total"),
        ({"compute_capability": "seven"}, "not a compute capability"),
        ({"vendor": "acme"}, "acme"),
        ({"ecc": "maybe"}, "maybe"),
        ({"marketing_low_gb": 17}, "marketing sizes"),
        ({"driver_total_mib": -1, "readings": []}, "driver's total is -1 MiB"),
        ({"variants": [{"total": "15 GB", "of": "cuda", "when": "ever"}]}, "not a printed total"),
    ],
)
def test_data_that_contradicts_itself_is_refused(
    raw: dict[str, Any], change: dict[str, Any], complaint: str
) -> None:
    raw["gpu"][0] |= change
    with pytest.raises(InvalidCatalog, match=complaint):
        GpuCatalog.parse(raw)


def test_a_type_without_capability_must_say_why(raw: dict[str, Any]) -> None:
    del raw["gpu"][0]["compute_capability"]
    with pytest.raises(InvalidCatalog, match="without a compute capability"):
        GpuCatalog.parse(raw)


def test_a_card_alone_with_its_nominal_size_has_no_figure(raw: dict[str, Any]) -> None:
    raw["gpu"] = [table for table in raw["gpu"] if table["id"] == "b100-192gb"]
    with pytest.raises(InvalidCatalog, match="no nvidia card has a printed CUDA total"):
        GpuCatalog.parse(raw)
