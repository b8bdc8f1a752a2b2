"""NVLink domains: the sizes that vendors publish, and what is counted on."""

import pytest

from service.gpus.catalog import find_gpu, gpu_catalog
from service.gpus.gpu_type import inline_gpu
from service.gpus.nvlink import NvlinkDomain
from service.speed.gpu_speed import gpu_speed

PUBLISHED = {
    # GPUs, whether a bridge is bought apart, 10**9 bytes a second in both directions: NVIDIA's datasheets.
    "rtx-2080-ti-11gb": (2, True, 100),
    "rtx-3090-24gb": (2, True, 112.5),
    "rtx-a5000-24gb": (2, True, 112.5),
    "rtx-a6000-48gb": (2, True, 112.5),
    "a40-48gb": (2, True, 112.5),
    "a30-24gb": (2, True, 200),
    "a100-pcie-80gb": (2, True, 600),
    "h100-nvl-94gb": (2, True, 600),
    "h200-nvl-141gb": (4, True, 900),
    "a100-sxm-80gb": (8, False, 600),
    "h100-sxm-80gb": (8, False, 900),
    "b200-180gb": (8, False, 1800),
    "gb200-186gb": (72, False, 1800),
}


@pytest.mark.parametrize("gpu_id", PUBLISHED)
def test_domains_are_those_of_the_datasheets(gpu_id: str) -> None:
    gpus, apart, both_ways = PUBLISHED[gpu_id]
    gpu = find_gpu(gpu_id)
    assert (gpu.nvlink_gpus, gpu.nvlink_bought_apart, gpu.nvlink) == (gpus, apart, True)
    speed = gpu_speed(gpu)
    assert speed is not None
    assert speed.nvlink == both_ways / 2 * 1e9


@pytest.mark.parametrize("gpu_id", ["l40s-48gb", "rtx-4090-24gb", "rtx-6000-ada-48gb", "rtx-a4000-16gb"])
def test_cards_without_a_connector_have_no_nvlink_promised_or_not(gpu_id: str) -> None:
    gpu = find_gpu(gpu_id)
    assert (gpu.nvlink, gpu.joined_gpus, gpu.with_nvlink_promised()) == (False, 1, gpu)


def test_a_bridge_is_counted_on_only_where_it_is_promised() -> None:
    plain = find_gpu("rtx-3090-24gb")
    bridged = plain.with_nvlink_promised()
    without, with_bridge = gpu_speed(plain), gpu_speed(bridged)
    assert (plain.joined_gpus, bridged.joined_gpus) == (1, 2)
    assert without is not None
    assert with_bridge is not None
    # PCIe 4.0 with 16 lanes, 31.5; four links of 14.0625 (GA102 whitepaper).
    assert (without.link(2), with_bridge.link(2), with_bridge.link(4)) == (31.5e9, 4 * 14.0625e9, 31.5e9)


def test_every_domain_has_a_speed_and_the_reverse() -> None:
    for gpu in gpu_catalog():
        speed = gpu_speed(gpu)
        if speed is not None:
            assert (speed.nvlink > speed.pcie) is bool(gpu.nvlink), gpu.id


def test_of_a_gpu_of_ones_own_nothing_is_known() -> None:
    own = inline_gpu("mine", 40 << 30, "8.0")
    assert (own.nvlink, own.nvlink_gpus, own.joined_gpus) == (None, None, 1)
    assert own.with_nvlink_promised() == own


def test_a_domain_of_no_gpu_is_refused() -> None:
    with pytest.raises(ValueError, match="0 GPUs"):
        NvlinkDomain(0, "nothing", "nobody")
