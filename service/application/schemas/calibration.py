"""What was learned from measurements."""

from typing import Self

from pydantic import Field

from service.application.schemas.base import Output
from service.calibration.learning import Learned
from service.memory.budget import Level
from service.memory.calibration import Term


class CalibrationAnswer(Output):
    """One term, as the measurements of one kind of start tell it."""

    level: Level
    gpu: str | None = Field(description="As the driver prints it; null where it does not matter")
    release: str = Field(description="In full for the very start, else its minor release")
    model: str | None = Field(description="Class of the model, where it matters")
    tensor_parallel: bool | None = Field(description="On several ranks, where it matters")
    term: Term
    residual_bytes: int = Field(description="Measured above what is computed")
    spread_bytes: int = Field(description="Standard deviation between measurements, robustly")
    weight: float = Field(description="Measurements, the older ones counting less")
    count: int = Field(description="Measurements, at most one for each token and day")
    logs: int = Field(description="Of these, startup logs; beside probes all of them weigh half as much")
    set_aside: int = Field(description="Measurements that are kept but not used")
    newest: str = Field(description="Day of the latest measurement")
    age_days: int

    @classmethod
    def of(cls, learned: Learned) -> Self:
        """Read what was learned."""
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

    calibrations: list[CalibrationAnswer]


class ImportAnswer(Output):
    """What came of an import."""

    measurements: int
    new: int = Field(description="Those that were not there yet")
