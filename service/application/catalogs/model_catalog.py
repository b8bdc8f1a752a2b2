"""The bundled models with what a person chooses by: size, class, quantization, other checkpoints."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from packaging.version import Version

from service.advisor.request.checkpoint_layouts import QuantizedSibling, least_lossy_first, sibling_named
from service.advisor.request.plan_request import Model
from service.advisor.request.siblings import base_name, siblings_of
from service.application.catalogs.model_reading import read_model
from service.architecture.config import InvalidConfig
from service.architecture.model import ModelArchitecture
from service.architecture.reading import UnknownArchitecture
from service.engines.releases import RELEASES
from service.hub.bundled.published_checkpoints import published_checkpoints_of
from service.hub.bundled.snapshot import BundledSnapshot
from service.hub.errors import NotATextModel
from service.hub.model_files.fetched_config import FetchedConfig
from service.memory.parallelism import Parallelism
from service.memory.weights.counts.parameters import parameter_bytes

NEWEST: Final[Version] = RELEASES[-1]
NEARLY_ALL: Final = 0.9
BYTES_PER_PARAMETER: Final = 2
"""Of bfloat16, in which the parameters are counted."""


@dataclass(frozen=True, slots=True)
class ModelVariant:
    """A published checkpoint of a bundled model with quantized weights."""

    id: str
    format: str
    """What the end of its name says of its weights, such as ``awq`` or ``fp8-dynamic``."""
    quantization: str | None
    """Method of its weights by the engine's name; None where its name tells none."""
    weight_bytes: int | None
    """Of all its weights; None where nothing tells it."""
    is_computed: bool
    """Whether the bytes are computed from a config, not those of its files."""
    is_bundled: bool
    """Whether its own config is bundled; otherwise the layout that its name stands for is taken."""
    source: str | None
    """Where it is named; None where its config is bundled."""


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
    weight_bytes: int | None = None
    """Of all its weights: of its files where these are known, else computed; None where neither is."""
    variants: tuple[ModelVariant, ...] = ()
    """Published quantized checkpoints of the same model, bundled or not, the least lossy first."""
    unmodelled: str | None = None
    """Why it cannot be planned; None where it can."""


def bundled_models(snapshot: BundledSnapshot, search: str = "") -> tuple[BundledModel, ...]:
    """Return the bundled models whose ids contain every word of a text, in alphabetical order.

    Where there are none, those of whose quantized checkpoints one does. The first call reads every config: a
    second of one core.
    """
    found = set(snapshot.search(search))
    if found:
        return tuple(model for model in _all(snapshot) if model.id in found)
    words = search.lower().split()
    return tuple(
        model
        for model in _all(snapshot)
        if any(all(word in each.id.lower() for word in words) for each in model.variants)
    )


@cache
def _all(snapshot: BundledSnapshot) -> tuple[BundledModel, ...]:
    ids = snapshot.ids()
    read = (snapshot.get(each) for each in ids)
    return tuple(_described(each, ids, snapshot) for each in read if each is not None)


def _described(fetched: FetchedConfig, known: tuple[str, ...], snapshot: BundledSnapshot) -> BundledModel:
    siblings = siblings_of(fetched.id, known)
    try:
        model = read_model(fetched)
    except (InvalidConfig, UnknownArchitecture, NotATextModel) as error:
        named = fetched.config.get("architectures")
        class_name = str(named[0]) if isinstance(named, list) and named else ""
        return BundledModel(
            fetched.id, class_name, fetched.total_parameters, None, None, siblings, unmodelled=str(error)
        )
    architecture = model.architecture
    quantization = architecture.quantization
    return BundledModel(
        id=fetched.id,
        architecture=architecture.class_name,
        parameters=_parameters(fetched, architecture),
        dtype=architecture.dtype,
        quantization=architecture.unnamed_quantization if quantization is None else quantization.method,
        siblings=siblings,
        weight_bytes=_weight_bytes(model),
        variants=tuple(_variants(model, siblings, snapshot)),
    )


def _weight_bytes(model: Model) -> int | None:
    """Return the bytes of a model's weights: of its files where these are known, else computed.

    ``None`` where its weights are quantized and the newest release reads nearly all as plain ones: its
    config names layers as the checkpoint does, not as the release.
    """
    if model.checkpoint_bytes is not None:
        return model.checkpoint_bytes
    architecture = model.architecture
    size = parameter_bytes(architecture, Parallelism(), NEWEST)
    plain = size if architecture.quantization is None else _plain_bytes(architecture) * NEARLY_ALL
    return size if size <= plain else None


def _variants(model: Model, bundled: tuple[str, ...], snapshot: BundledSnapshot) -> Iterator[ModelVariant]:
    """Yield the quantized checkpoints of a model, bundled or not, the least lossy first."""
    sources = published_checkpoints_of(model.id)
    for each in least_lossy_first(model.id, dict.fromkeys((*bundled, *sources))):
        own = quantized_model(each, snapshot) if each in bundled else None
        if own is not None:
            yield _bundled_variant(own)
        elif each in sources:
            yield _named_variant(each, sibling_named(model, each), sources[each])


def _bundled_variant(model: Model) -> ModelVariant:
    quantization = model.architecture.quantization
    return ModelVariant(
        id=model.id,
        format=base_name(model.id)[1],
        quantization=None if quantization is None else quantization.method,
        weight_bytes=_weight_bytes(model),
        is_computed=model.checkpoint_bytes is None,
        is_bundled=True,
        source=None,
    )


def _named_variant(model_id: str, sibling: QuantizedSibling | None, source: str) -> ModelVariant:
    return ModelVariant(
        id=model_id,
        format=base_name(model_id)[1],
        quantization=None if sibling is None else sibling.method,
        weight_bytes=None if sibling is None else sibling.weight_bytes(NEWEST),
        is_computed=True,
        is_bundled=False,
        source=source,
    )


def quantized_model(model_id: str, snapshot: BundledSnapshot) -> Model | None:
    """Return a bundled model; ``None`` where its weights are not quantized, or it cannot be read."""
    fetched = snapshot.get(model_id)
    try:
        model = None if fetched is None else read_model(fetched)
    except (InvalidConfig, UnknownArchitecture, NotATextModel):
        return None
    return None if model is None or model.architecture.quantization is None else model


def _parameters(fetched: FetchedConfig, architecture: ModelArchitecture) -> int:
    """Return the number of parameters.

    The Hub's count of a quantized checkpoint counts packed weights by their containers, so it is not used.
    """
    if fetched.total_parameters is not None and architecture.quantization is None:
        return fetched.total_parameters
    return _plain_bytes(architecture) // BYTES_PER_PARAMETER


def _plain_bytes(architecture: ModelArchitecture) -> int:
    """Return the bytes of the weights in bfloat16."""
    plain = replace(architecture, quantization=None, dtype="bfloat16")
    return parameter_bytes(plain, Parallelism(), NEWEST)
