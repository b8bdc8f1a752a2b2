"""The bundled models with what a person chooses by: size, class, quantization, other checkpoints."""

from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from packaging.version import Version

from service.advisor.siblings import siblings_of
from service.application.model_reading import read_model
from service.architecture.config import InvalidConfig
from service.architecture.model import ModelArchitecture
from service.architecture.reading import UnknownArchitecture
from service.engines.releases import RELEASES
from service.hub.errors import NotATextModel
from service.hub.fetched_config import FetchedConfig
from service.hub.snapshot import BundledSnapshot
from service.memory.parallelism import Parallelism
from service.memory.weights.parameters import parameter_bytes

NEWEST: Final[Version] = RELEASES[-1]
BYTES_PER_PARAMETER: Final = 2
"""Of bfloat16, in which the parameters are counted."""


@dataclass(frozen=True, slots=True)
class BundledModel:
    """One bundled model."""

    id: str
    architecture: str
    """Its architecture class."""
    parameters: int | None
    """Number of its parameters; computed from the config where the Hub's count is not bundled."""
    dtype: str | None
    """Dtype of activations, and of weights that are not quantized; None where the config cannot be read."""
    quantization: str | None
    """Method of its quantized weights by the engine's name; None where they are not quantized."""
    siblings: tuple[str, ...]
    """Bundled quantized checkpoints of the same model, by their names."""
    unmodelled: str | None = None
    """Why it cannot be planned; None where it can."""


def bundled_models(snapshot: BundledSnapshot, search: str = "") -> tuple[BundledModel, ...]:
    """Return the bundled models whose ids contain every word of a text, in alphabetical order.

    The first call reads every config: a second of one core.
    """
    found = set(snapshot.search(search))
    return tuple(model for model in _all(snapshot) if model.id in found)


@cache
def _all(snapshot: BundledSnapshot) -> tuple[BundledModel, ...]:
    ids = snapshot.ids()
    return tuple(_described(fetched, ids) for each in ids if (fetched := snapshot.get(each)) is not None)


def _described(fetched: FetchedConfig, known: tuple[str, ...]) -> BundledModel:
    siblings = siblings_of(fetched.id, known)
    try:
        architecture = read_model(fetched).architecture
    except (InvalidConfig, UnknownArchitecture, NotATextModel) as error:
        named = fetched.config.get("architectures")
        class_name = str(named[0]) if isinstance(named, list) and named else ""
        return BundledModel(
            fetched.id, class_name, fetched.total_parameters, None, None, siblings, unmodelled=str(error)
        )
    quantization = architecture.quantization
    return BundledModel(
        id=fetched.id,
        architecture=architecture.class_name,
        parameters=_parameters(fetched, architecture),
        dtype=architecture.dtype,
        quantization=architecture.unnamed_quantization if quantization is None else quantization.method,
        siblings=siblings,
    )


def _parameters(fetched: FetchedConfig, architecture: ModelArchitecture) -> int:
    """Return the number of parameters.

    The Hub's count of a quantized checkpoint counts packed weights by their containers, so it is not used.
    """
    if fetched.total_parameters is not None and architecture.quantization is None:
        return fetched.total_parameters
    plain = replace(architecture, quantization=None, dtype="bfloat16")
    return parameter_bytes(plain, Parallelism(), NEWEST) // BYTES_PER_PARAMETER
