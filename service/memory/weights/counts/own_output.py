"""Whether a checkpoint brings an output layer of its own that its config calls tied to the embedding.

transformers 5 ties the output of classes such as Mistral3 where a config does not say so; transformers 4,
with which most of their checkpoints were written, did not. Source: vLLM issue 51063 (releases discard that
layer), vLLM 0.29.0 ModelConfig.maybe_untie_word_embeddings (they keep it).

Exporters of quantized checkpoints write the output of a tied model too, a copy of its embedding. Releases
that keep an output load it, and drop it again where it is equal; but a model with a second embedding, one for
each layer, is not compared and has both (vLLM 0.29.0 and 0.33.0, weight_tying.py _get_untied_lm_head).
"""

from dataclasses import dataclass, replace
from functools import lru_cache

from packaging.version import Version

from service.architecture.long_lists import LONG_LISTS
from service.architecture.model import ModelArchitecture
from service.memory.budget_types import Basis, Estimate
from service.memory.interval import around
from service.memory.parallelism import Parallelism
from service.memory.weights.counts.parameters import parameter_bytes_per_stage
from service.memory.weights.weight_layout import weight_layout_at

AGREEMENT = 0.02
"""Relative difference up to which a size is that of the checkpoint; an output layer is 3 % and more."""
UNKNOWN = "whether the checkpoint's own output layer is loaded depends on files that are not known"


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model as a release loads its checkpoint."""

    architecture: ModelArchitecture
    other: ModelArchitecture | None = None
    """The same with an output layer of its own or without, where it is not known which of them is built."""


def loaded_model(
    architecture: ModelArchitecture, release: Version, checkpoint_bytes: int | None
) -> LoadedModel:
    """Return the model with the output layer that its checkpoint brings.

    A release that does not keep it may still read it by a params.json, which calls nothing tied.

    ``checkpoint_bytes``: bytes of all tensors of the checkpoint; ``None`` if unknown.

    Raises:
        LookupError: the release is older than the dated layout.
    """
    stages = weight_layout_at(release).stages
    if architecture.tie_word_embeddings:
        several = architecture.per_layer_embedding is not None
        has_output = architecture.class_name not in stages.embedding_as_output
        if stages.keeps_own_output and several and has_output:
            return _with_copy(architecture, release, checkpoint_bytes)
        return LoadedModel(architecture)
    if architecture.declared.tying or architecture.class_name not in stages.tied_when_unset:
        return LoadedModel(architecture)
    return _with_output(architecture, release, checkpoint_bytes)


@LONG_LISTS.emptied
@lru_cache(maxsize=64)
def _with_output(
    architecture: ModelArchitecture, release: Version, checkpoint_bytes: int | None
) -> LoadedModel:
    untied = replace(architecture, declared=replace(architecture.declared, tying=True))
    stored = _stored(architecture, untied, release, checkpoint_bytes)
    keeps = weight_layout_at(release).stages.keeps_own_output
    if stored is not None and (stored is architecture or keeps):
        return LoadedModel(stored)
    return LoadedModel(untied, architecture)


@LONG_LISTS.emptied
@lru_cache(maxsize=64)
def _with_copy(
    architecture: ModelArchitecture, release: Version, checkpoint_bytes: int | None
) -> LoadedModel:
    untied = replace(architecture, tie_word_embeddings=False)
    stored = _stored(architecture, untied, release, checkpoint_bytes)
    if stored is not None:
        return LoadedModel(stored)
    return LoadedModel(architecture, untied if architecture.quantization is not None else None)


def _stored(
    tied: ModelArchitecture, untied: ModelArchitecture, release: Version, checkpoint_bytes: int | None
) -> ModelArchitecture | None:
    """Return what a checkpoint of some size holds; ``None`` if that does not show."""
    if checkpoint_bytes is None:
        return None
    sizes = {sum(parameter_bytes_per_stage(each, Parallelism(), release)): each for each in (tied, untied)}
    nearest = min(sizes, key=lambda size: abs(size - checkpoint_bytes))
    return sizes[nearest] if abs(nearest - checkpoint_bytes) <= AGREEMENT * nearest else None


def with_doubt(sizes: tuple[Estimate, ...], others: tuple[Estimate, ...]) -> tuple[Estimate, ...]:
    """Return the parameters of each stage, where the output layer may be missing, or be there."""
    return tuple(
        around(
            size.bytes,
            min(size.low, other.low),
            max(size.high, other.high),
            Basis.ASSUMED,
            f"{size.source}; {UNKNOWN}",
        )
        for size, other in zip(sizes, others, strict=True)
    )
