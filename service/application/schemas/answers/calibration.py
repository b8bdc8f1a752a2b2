"""Answers about what was learned from measurements."""

from typing import Self

from pydantic import Field

from service.application.schemas.base import Output
from service.calibration.learning import Learned
from service.memory.budget_types import Level
from service.memory.calibration import Term


class CalibrationAnswer(Output):
    """By how much the measurements of one kind of start change one memory term."""

    level: Level = Field(description="How near the measured starts are to those that the entry is used for")
    gpu: str | None = Field(
        description="Name of the GPU as the driver prints it; null where the entry is for every GPU"
    )
    release: str = Field(description="The release in full at level `exact`, its minor release otherwise")
    model: str | None = Field(description="Class of the model; null where the entry is for every model")
    tensor_parallel: bool | None = Field(
        description="Whether the starts had several ranks; null where the entry is for both"
    )
    term: Term = Field(description="The term of the memory budget")
    residual_bytes: int = Field(
        description="Bytes measured beyond what is computed; negative where less was measured"
    )
    spread_bytes: int = Field(
        description="Standard deviation of the measurements in bytes, estimated robustly"
    )
    weight: float = Field(description="Weighted number of measurements; older measurements count less")
    count: int = Field(description="Number of measurements, at most one for each token and day")
    logs: int = Field(
        description="How many of these measurements are startup logs; with probes, all logs together weigh "
        "half as much as the probes"
    )
    set_aside: int = Field(description="Number of measurements that are stored but not used")
    newest: str = Field(description="Day (UTC) of the latest measurement, as in `2026-05-01`")
    age_days: int = Field(description="Age of the latest measurement in days")

    @classmethod
    def of(cls, learned: Learned) -> Self:
        """Return the answer about one learned entry."""
        residual, evidence = learned.residual, learned.residual.evidence
        return cls(
            level=learned.level,
            gpu=learned.gpu,
            release=learned.release,
            model=learned.model,
            tensor_parallel=learned.tensor_parallel,
            term=learned.term,
            residual_bytes=round(residual.middle),
            spread_bytes=round(residual.spread),
            weight=round(residual.weight, 3),
            count=evidence.count,
            logs=evidence.logs,
            set_aside=learned.set_aside,
            newest=evidence.newest,
            age_days=evidence.age_days,
        )


class CalibrationList(Output):
    """Everything that was learned, the nearest level first."""

    calibrations: list[CalibrationAnswer] = Field(description="The entries, the nearest level first")
    next: str | None = Field(description="Value of `after` for the next page; null on the last page")


class ImportAnswer(Output):
    """The result of an import."""

    measurements: int = Field(description="Number of measurements in the body")
    new: int = Field(description="Number of measurements that were not stored before")
