"""How a published checkpoint stores its weights, by its name, and what is published of its quality."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from service.advisor.plan_request import Model, PlanRequest
from service.architecture.config import read_document
from service.architecture.model import ModelArchitecture
from service.architecture.quantization import Quantization, read_quantization
from service.bundled_toml import read_toml
from service.engines.engine_rules import EngineRules
from service.memory.parallelism import Parallelism
from service.memory.weights.parameters import parameter_bytes
from service.units import GIB

DATA: Final = "weight_quality.toml"
MOST_NAMED: Final = 4
"""Ids of quantized checkpoints that are named."""


@dataclass(frozen=True, slots=True)
class WeightQuality:
    """What is published of the quality of quantized weights."""

    loss: int
    """Place in the order of loss, that of cache dtypes too; 0 for none."""
    effect: str
    source: str


@dataclass(frozen=True, slots=True)
class CheckpointLayout:
    """One way to store the weights of a checkpoint."""

    name: str
    """What names of such checkpoints end with, as a regular expression."""
    quantization: Quantization
    quality: WeightQuality


def layout_named_by(model_id: str) -> CheckpointLayout | None:
    """Return the layout that the end of a name stands for; ``None`` where it tells none that is known."""
    for layout in _layouts():
        if re.search(rf"[-_.](?:{layout.name})$", model_id, re.IGNORECASE | re.ASCII):
            return layout
    return None


def stored_so(model: Model, model_id: str) -> tuple[Model, CheckpointLayout] | None:
    """Return a model with its weights in the layout that the name of a checkpoint stands for.

    ``None`` where the name tells none, or where the weights of the model itself are quantized: checkpoints
    made of those leave other parts as they are.
    """
    layout = layout_named_by(model_id)
    if layout is None or not model.architecture.stores_16_bits:
        return None
    architecture = replace(model.architecture, quantization=layout.quantization)
    return replace(model, architecture=architecture, checkpoint_bytes=None), layout


def named_with_sizes(request: PlanRequest, checkpoints: Iterable[str]) -> str:
    """Return the ids of checkpoints with the calculated sizes of their weights, and what is not bundled."""
    ids = tuple(checkpoints)[:MOST_NAMED]
    words = ", ".join(_sized(request, each) for each in ids)
    missing = [each for each in ids if each in request.unbundled]
    if not missing:
        return f"{words}."
    sizes = "Sizes are calculated from the layout that the name stands for. " if "GiB" in words else ""
    return (
        f"{words}. {sizes}Configs that are not bundled: {', '.join(missing)}; plans of those need the "
        "Hub, or their config.json (--config)."
    )


def _sized(request: PlanRequest, model_id: str) -> str:
    found = stored_so(request.model, model_id)
    if found is None:
        return model_id
    size = _bytes_of(found[0].architecture, request.engine.rules)
    return f"{model_id} (about {size / GIB:,.0f} GiB of weights)"


def _bytes_of(architecture: ModelArchitecture, rules: EngineRules) -> int:
    return parameter_bytes(architecture, Parallelism(), rules.release)


@cache
def online_quality() -> WeightQuality:
    """Return what is published of weights that the engine rounds to FP8 while it loads them."""
    return WeightQuality(**read_toml("service.engines", DATA)["online_fp8"])


@cache
def _layouts() -> tuple[CheckpointLayout, ...]:
    return tuple(_read())


def _read() -> Iterator[CheckpointLayout]:
    for entry in read_toml("service.engines", DATA)["layout"]:
        config = read_document({"quantization_config": entry["section"]})
        quantization = read_quantization(config, config)
        if quantization is None:
            raise ValueError(f"{entry['name']} names no quantization")
        quality = WeightQuality(entry["loss"], entry["effect"], entry["source"])
        yield CheckpointLayout(entry["name"], quantization, quality)
