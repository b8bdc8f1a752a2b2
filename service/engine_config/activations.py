"""Which activation function the feed-forward networks of a class have: other ones are refused."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Self

from packaging.version import Version

from service.architecture.layers.decoder_layer import DecoderLayer
from service.architecture.layers.experts import MixtureOfExperts
from service.architecture.layers.feed_forward import NoFeedForward
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


@cache
def _checked_experts() -> frozenset[str]:
    """Return the classes whose routed experts refuse, too."""
    return frozenset(read_toml("service.engine_config", DATA)["checked_experts"]["classes"])


def _routed_alone(layer: DecoderLayer) -> bool:
    network = layer.feed_forward
    if isinstance(network, MixtureOfExperts):
        return not network.shared_intermediate_size and network.parallel_dense is None
    return isinstance(network, NoFeedForward)


def _checks(architecture: ModelArchitecture) -> bool:
    """Whether a network is built that looks at its activation: routed experts of most classes do not."""
    layers = architecture.distinct_layers
    if architecture.declared.text_model in _checked_experts():
        return True
    has_experts = any(isinstance(layer.feed_forward, MixtureOfExperts) for layer in layers)
    return not (has_experts and all(map(_routed_alone, layers)))


def check_activation(architecture: ModelArchitecture, release: Version) -> None:
    """Refuse an activation function that the class of the text model does not have.

    A config that names none has the one of its class.

    Raises:
        EngineRefusal: stage ``model``.
    """
    declared = architecture.declared
    if declared.text_model in _by_class() and not _checks(architecture):
        return
    for each in _by_class().get(declared.text_model, ()):
        named = declared.hidden_activation if each.as_hidden_activation else declared.hidden_act
        if named is not None and named not in each.allowed and each.holds(release):
            raise EngineRefusal(Stage.MODEL, each.words.format(named))
