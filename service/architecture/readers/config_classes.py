"""What the engine's config classes fill in: other spellings of a field, and values of absent ones.

A config.json says as little as its class allows: a field of another name (``n_embd``), or none where the
class has a default. Readers ask for one name, whichever the config uses.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any, Final, Self

from service.architecture.config import Config

DATA: Final = "config_classes.toml"


@dataclass(frozen=True, slots=True)
class ConfigClass:
    """One ``model_type``: how its configs are written."""

    names: Mapping[str, str]
    """By the usual name of a field: the one in these configs."""
    defaults: Mapping[str, Any]
    """Values of fields that a config does not mention, by their usual names."""
    text: str | None = None
    """``model_type`` of the text part of a multimodal config, where the part itself does not say."""
    architecture: str | None = None
    """Class that reads the model when it is the text part of another one."""
    within: tuple[str, ...] = ()
    """Objects within each other that hold the text part, where they are there at all."""

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> Self:
        """Read one entry of the data."""
        return cls(
            raw.get("names", {}),
            raw.get("defaults", {}),
            raw.get("text"),
            raw.get("architecture"),
            tuple(raw.get("within", ())),
        )

    def view(self, config: Config) -> Config:
        """Return the config under the usual names, with the class's defaults.

        A field that the config sets to ``null`` stays unset: the class's default is for absent ones.
        """
        fields = dict(self.defaults)
        fields.update(config.fields)
        for usual, written in self.names.items():
            if written in config.fields:
                fields[usual] = config.fields[written]
        return replace(config, fields=fields, written={**config.written, **self.names})


UNKNOWN: Final = ConfigClass({}, {})


@cache
def config_classes() -> Mapping[str, ConfigClass]:
    """Return the bundled classes by ``model_type``."""
    text = resources.files("service.architecture.readers").joinpath(DATA).read_text("utf-8")
    return {name: ConfigClass.parse(raw) for name, raw in tomllib.loads(text)["classes"].items()}


def class_of(config: Config) -> ConfigClass:
    """Return the class that the engine reads a config with."""
    return UNKNOWN if config.plain else config_class(config.text("model_type"))


def config_class(model_type: str) -> ConfigClass:
    """Return the class of a ``model_type``; of an unknown one, a class without defaults."""
    return config_classes().get(model_type, UNKNOWN)
