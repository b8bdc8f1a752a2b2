"""Starts of the engine from public pages, each with what is true of its text (tests/data/launch_commands)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from service.launch_command.command_reading import CommandReading
from service.launch_command.read_commands import read_command

DATA: Final = Path(__file__).parents[1] / "data" / "launch_commands"
FORMS: Final[list[dict[str, Any]]] = [
    form for path in sorted(DATA.glob("*.yaml")) for form in yaml.safe_load(path.read_text("utf-8"))
]


def names_of(form: dict[str, Any]) -> str:
    return f"{form['source'].rpartition('/')[2][:30]}-{form['is'].get('model')}"


SAID: Final[dict[str, Callable[[CommandReading], Any]]] = {
    "model": lambda reading: reading.launch.model,
    "form": lambda reading: str(reading.launch.form),
    "line": lambda reading: reading.launch.line,
    "release": lambda reading: reading.launch.release.version,
    "gpus": lambda reading: reading.launch.placement.gpus_per_node,
    "nodes": lambda reading: reading.launch.placement.nodes,
    "replicas": lambda reading: reading.launch.placement.replicas,
    "devices": lambda reading: list(reading.launch.placement.devices),
    "gpu_name": lambda reading: reading.launch.placement.gpu_name,
    "unresolved": lambda reading: list(reading.launch.unresolved),
    "others": lambda reading: [line for line, _ in reading.others],
    "foreign": lambda reading: list(reading.foreign),
    "unknown": lambda reading: [error.spelling for error in reading.unknown],
    "flag_count": lambda reading: len(reading.launch.flags),
    "other_release": lambda reading: any("newest release that has" in note for note in reading.notes),
}
"""What the reader says about each fact."""


@pytest.mark.parametrize("form", FORMS, ids=names_of)
def test_what_is_true_of_the_text_is_read(form: dict[str, Any]) -> None:
    facts = dict(form["is"])
    reading = read_command(form["text"])
    launch = reading.launch
    faults = facts.pop("faults", [])
    flags, environment = facts.pop("flags", {}), facts.pop("environment", {})
    missing, noted = facts.pop("missing", {}), facts.pop("noted", None)

    assert {name: SAID[name](reading) for name in facts} == facts
    assert {name: getattr(launch.flag(name), "value", "not read") for name in flags} == flags
    assert {name: launch.environment.get(name) for name in environment} == environment
    assert {name: getattr(launch.flag(name), "missing", None) for name in missing} == {
        name: (variable,) for name, variable in missing.items()
    }
    assert noted is None or any(noted in note for note in reading.notes)
    assert list(reading.faults) == faults
    assert "unknown" in facts or reading.unknown == ()
