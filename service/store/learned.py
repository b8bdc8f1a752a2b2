"""LearnedCalibration: the calibration learned from all measurements of the database.

It is held in memory, so that a plan needs no database query.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import structlog

from service.calibration.learning import Learned, learn
from service.calibration.measurement import SECONDS_PER_DAY, Measurement
from service.calibration.prediction import NotPredicted, predict
from service.calibration.samples import Sample, sample_of
from service.memory.calibration import NOTHING_LEARNED, Calibration
from service.store.batches import batches
from service.store.errors import StoreUnavailable
from service.store.stores import Stores

_log: Final = structlog.stdlib.get_logger("dryserve.learned")


class LearnedCalibration:
    """The calibration of one database, as of its last refresh."""

    def __init__(self, stores: Stores, clock: Callable[[], float] = time.time) -> None:
        self._stores = stores
        self._clock = clock
        self._seen: object = None
        self._samples: dict[str, Sample | None] = {}
        self._refreshing = asyncio.Lock()
        self.current: Calibration = NOTHING_LEARNED
        self.entries: tuple[Learned, ...] = ()

    async def refresh(self) -> None:
        """Learn again if measurements or tokens have changed; without a usable database nothing changes."""
        try:
            await self.read()
        except StoreUnavailable as error:
            _log.warning("measurements not read: the database cannot be used now", reason=error.reason)

    async def read(self) -> None:
        """Learn again if measurements or tokens have changed.

        Raises:
            StoreUnavailable: the database cannot be used; what was learned before is kept.
        """
        async with self._refreshing:
            today = int(self._clock() // SECONDS_PER_DAY)
            revoked = await self._stores.tokens.revoked()
            state = (today, revoked, await self._stores.measurements.state())
            if state == self._seen:
                return
            names = await self._stores.measurements.digests()
            for part in batches([name for name in names if name not in self._samples]):
                new = await self._stores.measurements.read(part)
                self._samples.update(await asyncio.to_thread(_samples, new))
            self.current, self.entries = await asyncio.to_thread(self._learn, names, revoked, today)
            self._seen = state

    def _learn(
        self, names: Sequence[str], revoked: frozenset[str], today: int
    ) -> tuple[Calibration, tuple[Learned, ...]]:
        known = (self._samples.get(name) for name in names)
        samples = [sample for sample in known if sample is not None]
        return learn([replace(each, revoked=each.reporter in revoked) for each in samples], today)


def _samples(measurements: Mapping[str, Measurement]) -> Mapping[str, Sample | None]:
    return {name: _sample(measurement) for name, measurement in measurements.items()}


def _sample(measurement: Measurement) -> Sample | None:
    try:
        return sample_of(measurement, predict(measurement))
    except NotPredicted as reason:
        _log.warning("a measurement is not learned from", key=measurement.key, reason=str(reason))
    except Exception:  # noqa: BLE001 - a measurement of an older service must not prevent learning from others
        _log.exception("a measurement is not learned from", key=measurement.key)
    return None
