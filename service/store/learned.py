"""What all measurements of the database teach, kept at hand so that plans ask no database."""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from service.calibration.learning import (
    Learned,
    Sample,
    learn,
    sample_of,
)
from service.calibration.measurement import SECONDS_PER_DAY, Measurement
from service.calibration.prediction import NotPredicted, predict
from service.memory.calibration import NOTHING_LEARNED, Calibration
from service.store.database import StoreUnavailable
from service.store.measurements import MeasurementStore

_log: Final = structlog.stdlib.get_logger("dryserve.learned")


class LearnedCalibration:
    """The calibration of one database, as of its last refresh."""

    def __init__(self, measurements: MeasurementStore, clock: Callable[[], float] = time.time) -> None:
        self._measurements = measurements
        self._clock = clock
        self._seen: object = None
        self._samples: dict[str, Sample | None] = {}
        self._refreshing = asyncio.Lock()
        self.current: Calibration = NOTHING_LEARNED
        self.entries: tuple[Learned, ...] = ()

    async def refresh(self) -> None:
        """Learn what came since, if anything did; without a database nothing changes."""
        async with self._refreshing:
            try:
                today = int(self._clock() // SECONDS_PER_DAY)
                state = (today, await self._measurements.state())
                if state == self._seen:
                    return
                found = await self._measurements.by_digest()
            except StoreUnavailable:
                _log.warning("measurements not read: the database cannot be used now")
                return
            self.current, self.entries = await asyncio.to_thread(self._learn, found, today)
            self._seen = state

    def _learn(
        self, measurements: Mapping[str, Measurement], today: int
    ) -> tuple[Calibration, tuple[Learned, ...]]:
        for name in measurements.keys() - self._samples.keys():
            self._samples[name] = _sample(measurements[name])
        known = (self._samples[name] for name in measurements)
        return learn([sample for sample in known if sample is not None], today)


def _sample(measurement: Measurement) -> Sample | None:
    try:
        return sample_of(measurement, predict(measurement))
    except NotPredicted as reason:
        _log.warning("a measurement teaches nothing", key=measurement.key, reason=str(reason))
    except Exception:  # noqa: BLE001 - one that an older service kept must not keep all others from teaching
        _log.exception("a measurement teaches nothing", key=measurement.key)
    return None
