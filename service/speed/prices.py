"""What an hour of a GPU costs, as published on a date, and what a million tokens then cost."""

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any, Final

from service.bundled_toml import read_toml
from service.speed.serving_speed import Between, Speed

SECONDS_PER_HOUR: Final = 3600
MILLION: Final = 1e6
HIGHEST: Final = 1e5
"""Most US dollars for an hour of one GPU: a larger figure is in another unit."""


class PriceKind(StrEnum):
    """On what terms a price is paid. Prices of two kinds are not compared."""

    ON_DEMAND = "on_demand"
    SPOT = "spot"
    RESERVED = "reserved"
    OWNERSHIP = "total_cost_of_ownership"
    """Purchase, housing and power of one's own hardware over its life."""


class InvalidPrices(ValueError):
    """A list of prices cannot be read; the message names the line."""


@dataclass(frozen=True, slots=True)
class Price:
    """The price of one GPU type."""

    gpu: str
    """Id of the GPU type."""
    usd_per_gpu_hour: float
    kind: PriceKind
    provider: str
    as_of: str | None
    """The day on which it was published, as YYYY-MM-DD; ``None`` where that is not known."""
    source: str


@dataclass(frozen=True, slots=True)
class Cost:
    """What a start costs while it serves the workload."""

    usd_per_hour: float
    """Of all GPUs of all replicas."""
    usd_per_million_output_tokens: Between
    price: Price


@dataclass(frozen=True, slots=True)
class PriceList:
    """Prices of one kind."""

    lists: tuple[tuple[Price, ...], ...] = ()
    """Lists that come before the snapshot of the package, the first before the others."""
    kind: PriceKind = PriceKind.ON_DEMAND

    def price_of(self, gpu: str) -> Price | None:
        """Return the lowest price of a GPU type; ``None`` where none of the kind is known."""
        for prices in (*self.lists, bundled_prices()):
            found = [each for each in prices if each.gpu == gpu and each.kind is self.kind]
            if found:
                return min(found, key=lambda each: each.usd_per_gpu_hour)
        return None


BUNDLED: Final = PriceList()
"""The snapshot of the package alone."""


def cost_of(speed: Speed, price: Price, gpus: int) -> Cost:
    """Return what so many GPUs cost that serve at this speed."""
    hourly = price.usd_per_gpu_hour * gpus
    tokens = speed.output_tokens_per_second
    low, middle, high = (
        hourly / (rate * SECONDS_PER_HOUR) * MILLION for rate in (tokens.high, tokens.middle, tokens.low)
    )
    return Cost(hourly, Between(low, middle, high), price)


@cache
def _table() -> Mapping[str, Any]:
    return read_toml("service.speed", "prices.toml")


@cache
def bundled_prices() -> tuple[Price, ...]:
    """Return the prices of the package: a dated snapshot."""
    return tuple(
        Price(entry["gpu"], price, PriceKind(entry["kind"]), provider, entry["as_of"], entry["source"])
        for entry in _table()["prices"]
        for provider, price in entry["usd_per_gpu_hour"].items()
    )


def read_price_file(text: str, name: str) -> tuple[Price, ...]:
    """Return the prices of a file in the form of SkyPilot's catalog (``vms.csv``).

    Rows of accelerators that the package has no GPU type for are left out. ``name`` is the provider.

    Raises:
        InvalidPrices: a column is missing, or a price is no number.
    """
    rows = csv.DictReader(io.StringIO(text))
    missing = {"AcceleratorName", "AcceleratorCount", "Price"} - set(rows.fieldnames or ())
    if missing:
        raise InvalidPrices(f"{name}: the first line has no column {', '.join(sorted(missing))}")
    found = [price for row in rows for price in _of_row(row, name, rows.line_num)]
    return tuple(_cheapest(found))


def _of_row(row: Mapping[str, str | None], name: str, line: int) -> Iterator[Price]:
    gpu = _table()["skypilot"]["names"].get((row.get("AcceleratorName") or "").strip())
    if gpu is None:
        return
    count = _number(row.get("AcceleratorCount"), name, line)
    for column, kind in (("Price", PriceKind.ON_DEMAND), ("SpotPrice", PriceKind.SPOT)):
        if row.get(column) and count:
            price = _number(row.get(column), name, line) / count
            if price:
                source = f"{name}, line {line}: {row.get('InstanceType') or gpu}"
                yield Price(gpu, price, kind, name, None, source)


def _number(text: str | None, name: str, line: int) -> float:
    try:
        number = float(text or "")
    except ValueError as error:
        raise InvalidPrices(f"{name}, line {line}: {text!r} is not a number") from error
    if not 0 <= number <= HIGHEST or math.isnan(number):
        raise InvalidPrices(f"{name}, line {line}: {text!r} is not a price in US dollars per hour")
    return number


def _cheapest(prices: Iterable[Price]) -> Iterator[Price]:
    """Yield the lowest price of each GPU type and kind: regions and instance types differ."""
    lowest: dict[tuple[str, PriceKind], Price] = {}
    for each in prices:
        known = lowest.setdefault((each.gpu, each.kind), each)
        if each.usd_per_gpu_hour < known.usd_per_gpu_hour:
            lowest[each.gpu, each.kind] = each
    yield from lowest.values()
