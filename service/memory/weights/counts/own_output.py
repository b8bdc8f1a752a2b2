"""Whether a checkpoint brings an output layer of its own that its config calls tied to the embedding.

transformers 5 ties the output of classes such as Mistral3 where a config does not say so; transformers 4,
with which most of their checkpoints were written, did not. Source: vLLM issue 51063 (releases discard that
layer), vLLM 0.29.0 ModelConfig.maybe_untie_word_embeddings (they keep it).
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
    tied: ModelArchitecture | None = None
    """The same without an output layer of its own, where it is not known which of them is built."""


def loaded_model(
    architecture: ModelArchitecture, release: Version, checkpoint_bytes: int | None
) -> LoadedModel:
    """Return the model with the output layer that its checkpoint brings.

    A release that does not keep it may still read it by a params.json, which calls nothing tied.

    ``checkpoint_bytes``: bytes of all tensors of the checkpoint; ``None`` if unknown.

    Raises:
        LookupError: the release is older than the dated layout.
    """
    says_so = architecture.tie_word_embeddings or architecture.declared.tying
    tied_when_unset = weight_layout_at(release).stages.tied_when_unset
    if says_so or architecture.class_name not in tied_when_unset:
        return LoadedModel(architecture)
    return _with_output(architecture, release, checkpoint_bytes)


@LONG_LISTS.emptied
@lru_cache(maxsize=64)
def _with_output(
    architecture: ModelArchitecture, release: Version, checkpoint_bytes: int | None
) -> LoadedModel:
    untied = replace(architecture, declared=replace(architecture.declared, tying=True))
    if checkpoint_bytes is None:
        return LoadedModel(untied, architecture)
    sizes = {
        sum(parameter_bytes_per_stage(each, Parallelism(), release)): each for each in (architecture, untied)
    }
    nearest = min(sizes, key=lambda size: abs(size - checkpoint_bytes))
    is_known = abs(nearest - checkpoint_bytes) <= AGREEMENT * nearest
    stored = sizes[nearest]
    if is_known and (stored is architecture or weight_layout_at(release).stages.keeps_own_output):
        return LoadedModel(stored)
    return LoadedModel(untied, architecture)


def with_doubt(sizes: tuple[Estimate, ...], tied: tuple[Estimate, ...]) -> tuple[Estimate, ...]:
    """Return the parameters of each stage, where the output layer may be missing."""
    return tuple(
        around(size.bytes, min(size.low, least.low), size.high, Basis.ASSUMED, f"{size.source}; {UNKNOWN}")
        for size, least in zip(sizes, tied, strict=True)
    )
