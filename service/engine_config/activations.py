"""Which activation function the feed-forward networks of a class have: other ones are refused."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Self

from packaging.version import Version

from service.architecture.model import ModelArchitecture
from service.bundled_toml import read_toml
from service.engines.refusal import EngineRefusal, Stage

DATA: Final = "activations.toml"


@dataclass(frozen=True, slots=True)
class _Activations:
    """The functions that some classes have, in some releases."""

    allowed: frozenset[str]
    words: str
    """What a class says of another one, with a place for its name."""
    as_hidden_activation: bool
    """Whether the class reads ``hidden_activation``, not ``hidden_act``."""
    since: Version
    last: Version | None

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> Self:
        last = raw.get("last")
        return cls(
            frozenset(raw["allowed"]),
            raw["words"],
            raw.get("field") == "hidden_activation",
            Version(raw["since"]),
            None if last is None else Version(last),
        )

    def holds(self, release: Version) -> bool:
        return self.since <= release and (self.last is None or release <= self.last)


@cache
def _by_class() -> Mapping[str, tuple[_Activations, ...]]:
    found: dict[str, tuple[_Activations, ...]] = {}
    for raw in read_toml("service.engine_config", DATA)["activations"]:
        parsed = _Activations.parse(raw)
        for name in raw["classes"]:
            found[name] = (*found.get(name, ()), parsed)
    return found


def check_activation(architecture: ModelArchitecture, release: Version) -> None:
    """Refuse an activation function that the class of the text model does not have.

    A config that names none has the one of its class.

    Raises:
        EngineRefusal: stage ``model``.
    """
    declared = architecture.declared
    for each in _by_class().get(declared.text_model, ()):
        named = declared.hidden_activation if each.as_hidden_activation else declared.hidden_act
        if named is not None and named not in each.allowed and each.holds(release):
            raise EngineRefusal(Stage.MODEL, each.words.format(named))
