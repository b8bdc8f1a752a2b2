"""Prices, and what tokens cost by them."""

from datetime import date

import pytest
from packaging.version import Version

from service.gpus.catalog import gpu_catalog
from service.speed.prices import (
    InvalidPrices,
    Price,
    PriceKind,
    PriceList,
    bundled_prices,
    cost_of,
    read_price_file,
)
from service.speed.serving_speed import Load, serving_speed
from service.speed.speed_constants import speed_constants
from service.speed.step_time import StepClock
from tests.speed.test_step_time import peaks
from tests.speed.test_step_work import work_of

VMS = """InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,Region,GpuInfo,SpotPrice
8x_H100,H100,8,208,1800,23.92,us-west-1,,
1x_H100,H100,1,26,200,3.29,us-east-1,,1.10
cpu,,,4,16,0.10,us-east-1,,
1x_X,Unheard-Of,1,4,16,9.99,us-east-1,,
"""


def test_a_million_tokens_by_hand() -> None:
    clock = StepClock(
        work_of("meta-llama/Llama-3.1-70B", 2),
        peaks("h200-sxm-141gb"),
        speed_constants(Version("0.19.0")),
        8192,
    )
    speed = serving_speed(clock, Load(1000, 1250, 500, 16), capability="9.0", engines=1)
    price = Price("h200-sxm-141gb", 3.0, PriceKind.ON_DEMAND, "given", None, "given")
    cost = cost_of(speed, price, 2)
    assert cost.usd_per_hour == 6.0
    tokens_of_an_hour = speed.output_tokens_per_second.middle * 3600
    assert cost.usd_per_million_output_tokens.middle == pytest.approx(6.0 / tokens_of_an_hour * 1e6)
    found = cost.usd_per_million_output_tokens
    assert found.low < found.middle < found.high


def test_the_form_of_skypilots_catalog() -> None:
    prices = {each.kind: each for each in read_price_file(VMS, "lambda")}
    # 23.92 / 8 = 2.99 is less than 3.29: the lowest price of a kind counts.
    assert prices[PriceKind.ON_DEMAND].usd_per_gpu_hour == pytest.approx(2.99)
    assert prices[PriceKind.SPOT].usd_per_gpu_hour == pytest.approx(1.10)
    assert {each.gpu for each in prices.values()} == {"h100-sxm-80gb"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b\n1,2\n", "AcceleratorCount, AcceleratorName, Price"),
        ("AcceleratorName,AcceleratorCount,Price\nH100,1,free\n", "line 2: 'free' is not a number"),
        ("AcceleratorName,AcceleratorCount,Price\nH100,1,nan\n", "line 2: 'nan' is not a price"),
        ("AcceleratorName,AcceleratorCount,Price\nH100,1,-4\n", "line 2: '-4' is not a price"),
    ],
)
def test_a_file_that_cannot_be_read(text: str, words: str) -> None:
    with pytest.raises(InvalidPrices, match=words):
        read_price_file(text, "own.csv")


def test_given_prices_come_first_and_kinds_are_not_mixed() -> None:
    own = Price("h100-sxm-80gb", 9.0, PriceKind.ON_DEMAND, "given", None, "given")
    prices = PriceList(((own,), read_price_file(VMS, "lambda")))
    assert prices.price_of("h100-sxm-80gb") == own
    spot = PriceList(((own,),), PriceKind.SPOT)
    assert spot.price_of("h100-sxm-80gb") is None


def test_every_price_of_the_snapshot_has_a_day_a_provider_and_a_known_type() -> None:
    known = {gpu.id for gpu in gpu_catalog()}
    assert len(bundled_prices()) > 40
    for price in bundled_prices():
        assert price.gpu in known
        assert price.as_of is not None
        assert date.fromisoformat(price.as_of) <= date(2026, 11, 22)
        assert price.provider
        assert price.source
        assert 0.1 < price.usd_per_gpu_hour < 20
