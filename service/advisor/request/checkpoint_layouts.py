"""How a published checkpoint stores its weights, by its name, and what is published of its quality."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

from packaging.version import Version

from service.advisor.request.plan_request import Model, PlanRequest
from service.architecture.config import read_document
from service.architecture.quantization import Quantization, read_quantization
from service.bundled_toml import read_toml
from service.engines.cache_quality import Published
from service.gpus.capability import ComputeCapability
from service.gpus.gpu_type import GpuType
from service.memory.parallelism import Parallelism
from service.memory.weights.counts.parameters import parameter_bytes
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
    published: Published = Published.FIGURES


UNPUBLISHED: Final = WeightQuality(9, "nothing is published about it", "none", Published.NOTHING)
"""Of layouts that no name is known for; after all others."""


@dataclass(frozen=True, slots=True)
class CheckpointLayout:
    """One way to store the weights of a checkpoint."""

    name: str
    """What names of such checkpoints end with, as a regular expression."""
    quantization: Quantization
    quality: WeightQuality
    below: ComputeCapability | None = None
    """GPUs from this compute capability on have no kernels for it; ``None`` where all have."""


def layout_named_by(model_id: str) -> CheckpointLayout | None:
    """Return the layout that the end of a name stands for; ``None`` where it tells none that is known."""
    for layout in _layouts():
        if re.search(rf"[-_.](?:{layout.name})$", model_id, re.IGNORECASE | re.ASCII):
            return layout
    return None


@dataclass(frozen=True, slots=True)
class QuantizedSibling:
    """A published checkpoint of a model with quantized weights, ready to be planned."""

    model: Model
    """By the checkpoint's id: its own config where that is bundled, else the base's in the named layout."""
    quality: WeightQuality
    is_bundled: bool
    """Whether its own config is at hand."""
    below: ComputeCapability | None = None
    """GPUs from this compute capability on do not run it."""

    def runs_on(self, gpu: GpuType) -> bool:
        """Whether the engine has kernels for it on a GPU type."""
        capability = gpu.compute_capability
        return self.below is None or capability is None or capability < self.below

    def is_lighter_than(self, model: Model, release: Version) -> bool:
        """Whether its weights take less than those of a model.

        Where they do not, the release reads its quantized layers as plain ones: its config names them as the
        checkpoint does, not as the release.
        """
        return self.weight_bytes(release) < parameter_bytes(model.architecture, Parallelism(), release)

    @property
    def method(self) -> str:
        """Its method of quantization, by the engine's name."""
        quantization = self.model.architecture.quantization
        return "" if quantization is None else quantization.method

    def weight_bytes(self, release: Version) -> int:
        """Return the bytes of its weights: of its files where these are known, else computed."""
        if self.model.checkpoint_bytes is not None:
            return self.model.checkpoint_bytes
        return parameter_bytes(self.model.architecture, Parallelism(), release)


def sibling_named(model: Model, model_id: str) -> QuantizedSibling | None:
    """Return a checkpoint whose config is not at hand, by the layout that its name stands for.

    ``None`` where the name tells none, or where the weights of the model itself are quantized: checkpoints
    made of those leave other parts as they are.
    """
    layout = layout_named_by(model_id)
    if layout is None or not model.architecture.stores_16_bits:
        return None
    architecture = replace(model.architecture, quantization=layout.quantization)
    stored = replace(
        model,
        id=model_id,
        revision=None,
        requested_revision=None,
        architecture=architecture,
        checkpoint_bytes=None,
        makers_cache_dtype=None,
    )
    return QuantizedSibling(stored, layout.quality, is_bundled=False, below=layout.below)


def sibling_bundled(model: Model) -> QuantizedSibling:
    """Return a checkpoint whose own config is at hand."""
    layout = layout_named_by(model.id)
    if layout is None:
        return QuantizedSibling(model, UNPUBLISHED, is_bundled=True)
    return QuantizedSibling(model, layout.quality, is_bundled=True, below=layout.below)


def sibling_of(request: PlanRequest, model_id: str) -> QuantizedSibling | None:
    """Return a checkpoint that a request names; ``None`` where nothing tells what it stores."""
    own = next((each for each in request.bundled_siblings if each.id == model_id), None)
    return sibling_named(request.model, model_id) if own is None else sibling_bundled(own)


def least_lossy_first(model_id: str, checkpoints: Iterable[str]) -> tuple[str, ...]:
    """Return checkpoints by the published loss of their layouts, one of each before the second of any.

    Of equal ones those of the model's own publisher come first.
    """
    own = model_id.partition("/")[0].lower()
    ordered = sorted(checkpoints, key=lambda each: (_loss(each), each.partition("/")[0].lower() != own))
    seen: Counter[int] = Counter()
    places: dict[str, tuple[int, int]] = {}
    for each in ordered:
        places[each] = (seen[_loss(each)], _loss(each))
        seen[_loss(each)] += 1
    return tuple(sorted(ordered, key=places.__getitem__))


def _loss(model_id: str) -> int:
    layout = layout_named_by(model_id)
    return (UNPUBLISHED if layout is None else layout.quality).loss


def runnable_siblings(request: PlanRequest, gpu: GpuType) -> Iterator[QuantizedSibling]:
    """Yield the least lossy checkpoint of each published loss that runs on a GPU type."""
    losses, release = set(), request.engine.rules.release
    for each in request.siblings:
        sibling = sibling_of(request, each)
        if sibling is None or not sibling.runs_on(gpu) or not sibling.is_lighter_than(request.model, release):
            continue
        if sibling.quality.loss not in losses:
            losses.add(sibling.quality.loss)
            yield sibling


def named_with_sizes(request: PlanRequest, checkpoints: Iterable[str]) -> str:
    """Return the ids of checkpoints with the sizes of their weights; a star marks those without a config."""
    ids = tuple(checkpoints)[:MOST_NAMED]
    missing = request.unbundled.intersection(ids)
    words = ", ".join(f"{_sized(request, each)}{'*' if each in missing else ''}" for each in ids)
    if not missing:
        return f"{words}."
    size = "its size follows from its name, and " if "GiB" in words else ""
    return f"{words}. *: not bundled; {size}a plan of it needs the Hub, or its config.json (--config)."


def _sized(request: PlanRequest, model_id: str) -> str:
    sibling = sibling_of(request, model_id)
    release = request.engine.rules.release
    lighter = sibling is not None and sibling.is_lighter_than(request.model, release)
    return with_size(sibling, release) if sibling is not None and lighter else model_id


def with_size(sibling: QuantizedSibling, release: Version) -> str:
    """Return the id of a checkpoint with the size of its weights."""
    about = "" if sibling.model.checkpoint_bytes is not None else "about "
    return f"{sibling.model.id} ({about}{sibling.weight_bytes(release) / GIB:,.0f} GiB of weights)"


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
        published = Published(entry.get("published", Published.FIGURES))
        quality = WeightQuality(entry["loss"], entry["effect"], entry["source"], published)
        below = ComputeCapability.parse(entry["below"]) if "below" in entry else None
        yield CheckpointLayout(entry["name"], quantization, quality, below)
