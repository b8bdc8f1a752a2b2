"""The engine's config classes: other names of a field, and defaults of absent fields.

A config.json may name a field in another way (``n_embd``) or omit it where the class has a default. A
`ConfigClass` returns the config under the usual names, so that readers need one name for each field.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final, Self

from service.architecture.config import Config
from service.bundled_toml import read_toml

DATA: Final = "config_classes.toml"


@dataclass(frozen=True, slots=True)
class ConfigClass:
    """Names and defaults in the configs of one ``model_type``."""

    names: Mapping[str, str]
    """Name of a field in these configs, by its usual name."""
    defaults: Mapping[str, Any]
    """Values of absent fields, by their usual names."""
    text: str | None = None
    """``model_type`` of the text part of a multimodal config, where that part does not name its own."""
    flat: bool = False
    """Whether fields of the text part may stand in the whole config, not in a section alone."""
    vision: Mapping[str, Any] = field(default_factory=dict)
    """The ``vision_config`` that the class makes for a config without one; empty if unknown or none."""
    absent: Mapping[str, Any] = field(default_factory=dict)
    """The text part of a config without one, where the class makes it otherwise than that of ``text``."""
    architecture: str | None = None
    """Architecture class of the model where it is the text part of another model."""
    within: tuple[str, ...] = ()
    """Nested sections that hold the text part, where present."""
    switched: Mapping[str, str] = field(default_factory=dict)
    """Fields of which the class keeps no value where another field, given here, is false."""
    beside: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Where the whole config has fields that the text part lacks, by their usual names."""

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> Self:
        """Read one entry of the data."""
        return cls(
            raw.get("names", {}),
            raw.get("defaults", {}),
            raw.get("text"),
            raw.get("flat", False),
            raw.get("vision", {}),
            raw.get("absent", {}),
            raw.get("architecture"),
            tuple(raw.get("within", ())),
            raw.get("switched", {}),
            {usual: tuple(path) for usual, path in raw.get("beside", {}).items()},
        )

    def text_of(self, config: Config) -> Config:
        """Return the nested section of the text part, with the fields that stand beside it."""
        text, fields = _innermost(config, self.within), {}
        for usual, (*sections, name) in self.beside.items():
            holder = _innermost(config, tuple(sections))
            if name in holder:
                fields[usual] = holder.fields[name]
        return replace(text, fields={**text.fields, **fields})

    def view(self, config: Config) -> Config:
        """Return the config under the usual names, with the class's defaults.

        A field that is ``null`` stays unset: defaults apply to absent fields only.
        """
        fields = dict(self.defaults)
        fields.update(config.fields)
        for usual, written in self.names.items():
            if written in config.fields:
                fields[usual] = config.fields[written]
        for name, switch in self.switched.items():
            if not fields.get(switch):
                fields.pop(name, None)
        return replace(config, fields=fields, written={**config.written, **self.names})

    def with_vision(self, config: Config) -> Config:
        """Return the whole config, with the parts that the class makes for one without them."""
        made = {"vision_config": self.vision, "text_config": self.absent}
        parts = {name: part for name, part in made.items() if part and name not in config}
        return replace(config, fields={**config.fields, **parts}) if parts else config


def _innermost(config: Config, names: tuple[str, ...]) -> Config:
    for name in names:
        config = config.section(name) or Config({}, config.at(name))
    return config


UNKNOWN: Final = ConfigClass({}, {})


@cache
def config_classes() -> Mapping[str, ConfigClass]:
    """Return the bundled classes by ``model_type``."""
    classes = read_toml("service.architecture.readers.fields", DATA)["classes"]
    return {name: ConfigClass.parse(raw) for name, raw in classes.items()}


def class_of(config: Config) -> ConfigClass:
    """Return the class that the engine reads a config with."""
    return UNKNOWN if config.plain else config_class(config.text("model_type"))


def config_class(model_type: str) -> ConfigClass:
    """Return the class of a ``model_type``; of an unknown one, a class without defaults."""
    return config_classes().get(model_type, UNKNOWN)
