"""Recurrent models that the bundled snapshot lacks.

The configs are sizes of published checkpoints, the config classes' defaults, or variations of them (a name
says which one it is like).
"""

from collections.abc import Mapping
from typing import Any

from service.architecture.model import ModelArchitecture
from tests.accuracy.recorded import Recorded

RECURRENT = Recorded("recurrent")


def recorded() -> Mapping[str, Any]:
    """Return the configs by name, and the rows."""
    return {"configs": RECURRENT.configs, "rows": RECURRENT.rows}


def architecture(name: str) -> ModelArchitecture:
    """Read one of the configs."""
    return RECURRENT.architecture(name)


def rows_by_config() -> Mapping[str, list[Mapping[str, Any]]]:
    """Return the rows of each config."""
    return RECURRENT.rows_by_config
