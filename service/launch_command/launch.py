"""What a text says about one start of the engine, and the words from which that is read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, TypeAlias

MAX_TEXT: Final = 1 << 16
"""Characters of a text; longer texts are refused."""
MAX_WORDS: Final = 1 << 12
"""Words of one command, after variables were replaced by their values."""
MAX_STARTS: Final = 32
"""Starts of the engine that are read from one text."""

Value: TypeAlias = Any
"""Value of a flag: text, a number, a switch, a list or an object."""
MISSING: Final = object()
"""Stands for a value that a program calculates."""


class UnreadableCommand(ValueError):
    """A text cannot be read as a start of the engine."""


class LaunchForm(StrEnum):
    """The kind of text that holds the start."""

    SHELL = "shell"
    DOCKER = "docker"
    COMPOSE = "compose"
    KUBERNETES = "kubernetes"
    KSERVE = "kserve"
    HELM_VALUES = "helm_values"
    RAY_SERVE = "ray_serve"
    PYTHON = "python"
    CONFIG_FILE = "config_file"
    SYSTEMD = "systemd"


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a command, as the program receives it."""

    text: str
    line: int = 1
    """Line of the text in which it begins, counted from 1."""
    missing: tuple[str, ...] = ()
    """Variables in it whose values the text does not give; their names stay in ``text``."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the start runs, as far as the text says; ``None`` where it does not."""

    gpus_per_node: int | None = None
    nodes: int | None = None
    replicas: int | None = None
    gpu_name: str | None = None
    """Name of the GPU type that a scheduler is asked for."""
    devices: tuple[str, ...] = ()
    """GPUs that the start sees, by index or UUID, in their order; empty where the text does not name them."""


@dataclass(frozen=True, slots=True)
class Invocation:
    """The words of one start, before its flags are read."""

    form: LaunchForm
    line: int
    words: tuple[Word, ...] = ()
    """What follows the program's name."""
    settings: tuple[tuple[str, Value], ...] = ()
    """Flags that a file or a program gives by name; those among ``words`` win over them."""
    model: str | None = None
    """The model, where it is given neither as a word nor as a flag."""
    environment: Mapping[str, Word] = field(default_factory=dict, repr=False)
    image: str | None = None
    """The container image, or the requirement of a Python package, that holds the engine."""
    placement: Placement = field(default_factory=Placement)
    notes: tuple[str, ...] = ()
    said: "LaunchRelease | None" = None
    """The release that the lines around the start say, where the image names none."""


@dataclass(frozen=True, slots=True)
class WrittenFlag:
    """One flag as it was written."""

    name: str
    """The engine's own name, with underscores. Names that the engine does not know stay as written."""
    value: Value = field(repr=False)
    """Text, unless the flag is a switch or an object. Secrets are replaced by ``***``."""
    spelling: str
    """The option as it was written, such as ``-tp``."""
    line: int = 1
    missing: tuple[str, ...] = ()
    """Variables in the value that the text does not give."""


@dataclass(frozen=True, slots=True)
class LaunchRelease:
    """The release that a text names."""

    version: str | None
    """Such as ``0.19.0``; ``None`` where the text does not say it."""
    basis: str
    """From what it is known, or why it is not, in words."""


@dataclass(frozen=True, slots=True)
class LaunchCommand:
    """One start of the engine."""

    form: LaunchForm
    line: int
    """Line of the text in which the start begins, counted from 1."""
    model: str | None
    release: LaunchRelease
    flags: tuple[WrittenFlag, ...]
    """In the order in which the engine reads them. Each name occurs once: the last one written counts."""
    environment: Mapping[str, str] = field(repr=False)
    """Variables of the process; secrets are replaced by ``***``."""
    placement: Placement
    unresolved: tuple[str, ...]
    """Variables whose values the text does not give and that can hold further flags, or the model."""
    notes: tuple[str, ...]
    """What a reader should know about how the text was read."""

    def flag(self, name: str) -> WrittenFlag | None:
        """Return the flag of this name; ``None`` if the text does not have it."""
        return next((flag for flag in self.flags if flag.name == name), None)
