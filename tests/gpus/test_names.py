"""GPU types by the names that people, clouds and the driver use."""

import pytest

from service.gpus.catalog import AmbiguousGpu, UnknownGpu, gpu_catalog
from service.gpus.gpu_type import GpuType, InvalidGpu
from service.gpus.names import common_names
from service.gpus.own_gpu import own_gpu, read_own_gpu

CATALOG = gpu_catalog()
# nvidia-smi -L; the label nvidia.com/gpu.product of NVIDIA's feature discovery; accelerator types of Google
# Cloud; keys of vllm-project/recipes; what shops and forums write.
NAMES = {
    "NVIDIA H100 80GB HBM3": "h100-sxm-80gb",
    "NVIDIA-H100-80GB-HBM3": "h100-sxm-80gb",
    "nvidia-h100-80gb": "h100-sxm-80gb",
    "h100": "h100-sxm-80gb",
    "H100 SXM5": "h100-sxm-80gb",
    "NVIDIA H100 PCIe": "h100-pcie-80gb",
    "H100 NVL": "h100-nvl-94gb",
    "H200": "h200-sxm-141gb",
    "NVIDIA H200 NVL": "h200-nvl-141gb",
    "H20": "h20-96gb",
    "NVIDIA H20-3e": "h20-141gb",
    "NVIDIA A100-SXM4-80GB": "a100-sxm-80gb",
    "A100-SXM4-80GB": "a100-sxm-80gb",
    "NVIDIA A100 80GB PCIe": "a100-pcie-80gb",
    "nvidia-a100-80gb": "a100-sxm-80gb",
    "NVIDIA GeForce RTX 4090": "rtx-4090-24gb",
    "NVIDIA-GeForce-RTX-4090": "rtx-4090-24gb",
    "RTX 4090": "rtx-4090-24gb",
    "rtx4090": "rtx-4090-24gb",
    "4090": "rtx-4090-24gb",
    "RTX 4090 D": "rtx-4090-d-24gb",
    "3090Ti": "rtx-3090-ti-24gb",
    "rtx_5090": "rtx-5090-32gb",
    "RTX 6000 Ada": "rtx-6000-ada-48gb",
    "A6000": "rtx-a6000-48gb",
    "rtx_pro_6000": "rtx-pro-6000-blackwell-server-96gb",
    "rtx-pro-6000-blackwell-max-q": "rtx-pro-6000-blackwell-max-q-96gb",
    "Tesla-T4": "t4-16gb",
    "nvidia-tesla-t4": "t4-16gb",
    "L4": "l4-24gb",
    "NVIDIA L40S": "l40s-48gb",
    "L40": "l40-48gb",
    "A10G": "a10g-24gb",
    "A10": "a10-24gb",
    "b200": "b200-180gb",
    "GB200": "gb200-186gb",
    "dgx_spark_gb10": "gb10-128gb",
    "DGX Spark": "gb10-128gb",
    "Jetson Thor": "jetson-thor-128gb",
}


@pytest.mark.parametrize(("name", "meant"), NAMES.items(), ids=NAMES)
def test_a_name_means_one_type(name: str, meant: str) -> None:
    assert CATALOG.named(name).id == meant


@pytest.mark.parametrize("gpu", CATALOG.types, ids=lambda gpu: gpu.id)
def test_an_id_means_its_type_in_every_spelling(gpu: GpuType) -> None:
    for spelling in (gpu.id, gpu.id.upper(), gpu.id.replace("-", " "), gpu.id.replace("-", "_")):
        assert CATALOG.named(spelling) == gpu


@pytest.mark.parametrize("gpu", CATALOG.types, ids=lambda gpu: gpu.id)
def test_what_the_driver_prints_means_a_type_of_that_name(gpu: GpuType) -> None:
    alike = [other for other in CATALOG if other.name == gpu.name and not other.id.endswith("modded")]
    if len(alike) == 1:
        assert CATALOG.named(gpu.name) == alike[0]
    else:
        with pytest.raises(AmbiguousGpu) as caught:
            CATALOG.named(gpu.name)
        assert caught.value.nearest == tuple(other.id for other in alike)


@pytest.mark.parametrize(
    ("name", "choices"),
    [
        ("A100", {"a100-pcie-40gb", "a100-pcie-80gb", "a100-sxm-40gb", "a100-sxm-80gb"}),
        ("RTX 3080", {"rtx-3080-10gb", "rtx-3080-12gb"}),
        ("GH200", {"gh200-96gb", "gh200-144gb"}),
        ("RTX PRO 5000", {"rtx-pro-5000-blackwell-48gb", "rtx-pro-5000-blackwell-72gb"}),
    ],
)
def test_a_name_of_cards_with_different_memory_lists_them(name: str, choices: set[str]) -> None:
    with pytest.raises(AmbiguousGpu) as caught:
        CATALOG.named(name)
    assert set(caught.value.nearest) == choices
    assert all(choice in str(caught.value) for choice in choices)


# NVIDIA sells or sold each of these; none is in the catalog.
@pytest.mark.parametrize(
    "name",
    [
        *("RTX 4500 Ada", "RTX 4500", "Quadro RTX 6000", "RTX 2080", "RTX 3080 Ti", "RTX 4070 Super"),
        *("RTX 4090 Laptop GPU", "GTX 1080 Ti", "A3", "L2", "A1", "H1", "P100", "A100X", "MI300", "", "--"),
    ],
)
def test_another_product_is_not_taken_for_one_that_is_known(name: str) -> None:
    with pytest.raises(UnknownGpu):
        CATALOG.named(name)


def test_a_short_wrong_name_has_suggestions() -> None:
    with pytest.raises(UnknownGpu) as caught:
        CATALOG.named("l5")
    assert "l4-24gb" in caught.value.nearest


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("rtx4900", "rtx-4090-24gb"),
        ("RTX 3900", "rtx-3090-24gb"),
        ("5009", "rtx-5090-32gb"),
        ("b020", "b200-180gb"),
    ],
)
def test_swapped_digits_mean_the_card_that_has_them(name: str, first: str) -> None:
    with pytest.raises(UnknownGpu) as caught:
        CATALOG.named(name)
    assert caught.value.nearest[0] == first


def test_short_names_are_of_types_in_the_catalog() -> None:
    assert set(common_names().values()) <= {gpu.id for gpu in CATALOG}


@pytest.mark.parametrize(
    ("text", "memory_bytes"),
    [
        ("40GiB", 42_949_672_960),
        ("40gib", 42_949_672_960),
        ("23.5GiB", 25_232_932_864),
        ("24126 MiB", 25_297_944_576),
        ("24GB", 24_000_000_000),
        ("80g", 80_000_000_000),
        ("25425608704", 25_425_608_704),
    ],
)
def test_memory_is_written_with_its_unit(text: str, memory_bytes: int) -> None:
    gpu = own_gpu(**read_own_gpu(f"name=my card, memory={text}, cc=8.6"))
    assert (gpu.name, gpu.memory_bytes, str(gpu.compute_capability)) == ("my card", memory_bytes, "8.6")


def test_all_keys_of_an_own_gpu() -> None:
    gpu = own_gpu(**read_own_gpu("name=x,memory=16GiB,cc=12.0,bandwidth=960.5,sms=84"))
    assert (gpu.bandwidth_gb_s, gpu.sm_count) == (960.5, 84)


@pytest.mark.parametrize(
    ("text", "field", "said"),
    [
        ("name=x,memory=40GiB", "gpu", "lacks cc"),
        ("cc=8.0", "gpu", "lacks memory"),
        ("name=x,mem=4GiB,cc=8.0", "gpu", "nearest: memory"),
        ("name=x,memory=much,cc=8.0", "memory_bytes", "40GiB"),
        ("memory=40,cc=8.0", "memory_bytes", "in bytes"),
        ("memory=40GiB,cc=99.0", "compute_capability", "no GPU has compute capability 99.0"),
        ("memory=40GiB,cc=8.1", "compute_capability", "8.6"),
        ("memory=40GiB,cc=8", "compute_capability", "8.6"),
        ("memory=40GiB,cc=8.0,sms=many", "sm_count", "many"),
    ],
)
def test_what_no_gpu_has_is_refused(text: str, field: str, said: str) -> None:
    with pytest.raises(InvalidGpu, match=field) as caught:
        own_gpu(**read_own_gpu(text))
    assert caught.value.field == field
    assert said in str(caught.value)
