"""The reader of each architecture class, and why some of the engine's classes have none."""

from collections.abc import Mapping
from functools import cache
from typing import Final

from service.architecture.config import Config
from service.architecture.pooling import Conversion
from service.architecture.readers.attention import (
    dense,
    expert_variants,
    heterogeneous,
    interleaved_windows,
    learned_positions,
    looped,
    mla,
    moe,
)
from service.architecture.readers.media import encoder_decoder
from service.architecture.readers.media.wrappers import WRAPPERS
from service.architecture.readers.pooling import (
    dual_encoders,
    embedding_models,
    late_interaction,
    reward_models,
    text_encoders,
)
from service.architecture.readers.recipes.family import Family, Wrapper
from service.architecture.readers.recurrent import (
    gated_delta_net,
    kimi_delta,
    linear_attention,
    nemotron_puzzle,
    short_convolutions,
    state_space,
)
from service.architecture.readers.sparse import (
    block_sparse,
    compressed_attention,
    group_sparse,
    region_sparse,
    sparse_mla,
)
from service.bundled_toml import read_toml

FAMILIES: Final[Mapping[str, Family]] = {
    **block_sparse.FAMILIES,
    **compressed_attention.FAMILIES,
    **dense.FAMILIES,
    **dual_encoders.FAMILIES,
    **embedding_models.FAMILIES,
    **encoder_decoder.FAMILIES,
    **expert_variants.FAMILIES,
    **gated_delta_net.FAMILIES,
    **group_sparse.FAMILIES,
    **heterogeneous.FAMILIES,
    **interleaved_windows.FAMILIES,
    **kimi_delta.FAMILIES,
    **late_interaction.FAMILIES,
    **learned_positions.FAMILIES,
    **linear_attention.FAMILIES,
    **looped.FAMILIES,
    **mla.FAMILIES,
    **moe.FAMILIES,
    **nemotron_puzzle.FAMILIES,
    **region_sparse.FAMILIES,
    **reward_models.FAMILIES,
    **short_convolutions.FAMILIES,
    **sparse_mla.FAMILIES,
    **state_space.FAMILIES,
    **text_encoders.FAMILIES,
}
KNOWN: Final[Mapping[str, Family | Wrapper]] = {
    **FAMILIES,
    **WRAPPERS,
    "ColPaliForRetrieval": late_interaction.COLPALI_WRAPPER,
}


@cache
def unmodelled_classes() -> Mapping[str, str]:
    """Return the engine's classes without a reader, each with the reason (``unmodelled.toml``)."""
    entries = read_toml("service.architecture.readers", "unmodelled.toml")["unmodelled"]
    return {name: entry["reason"] for entry in entries for name in entry["classes"]}


def unmodelled(class_name: str) -> str | None:
    """Return why a class that the engine runs has no reader; ``None`` for any other class."""
    return unmodelled_classes().get(class_name)


@cache
def _pooling() -> Mapping[str, tuple[str, ...]]:
    found = read_toml("service.architecture.readers.pooling", "pooling.toml")
    return {name: tuple(words) for name, words in found.items() if isinstance(words, list)}


@cache
def _tables() -> Mapping[str, Mapping[str, str]]:
    found = read_toml("service.architecture.readers.pooling", "pooling.toml")
    return {name: table for name, table in found.items() if isinstance(table, dict)}


def decoder_of(class_name: str) -> str | None:
    """Return the class that generates text and of which the engine makes a pooling class (``pooling.toml``).

    ``None`` for a class of its own, an encoder, and a pooling model whose layers no known class has.
    """
    if class_name in KNOWN or not pools(class_name):
        return None
    known = _pooling()
    stem = class_name.removesuffix(next(filter(class_name.endswith, known["suffixes"]), ""))
    named = (_tables()["decoders"].get(class_name, ""), *(stem + end for end in known["generating_suffixes"]))
    return next((name for name in named if name in KNOWN), None)


def conversion_of(class_name: str) -> Conversion | None:
    """Return what the name of a pooling class asks the engine to make of a class that generates text.

    ``None`` for a name that the engine lists as one of a class that generates text (``pooling.toml``).
    """
    if class_name in _pooling()["generating_classes"]:
        return None
    classifies = class_name.endswith(_pooling()["classifying_suffixes"])
    return Conversion.CLASSIFY if classifies else Conversion.EMBED


def stores_nothing(class_name: str) -> bool:
    """Whether a pooling model is an encoder, for which the engine keeps no KV cache (``pooling.toml``)."""
    known = _pooling()
    return class_name.startswith(known["encoder_prefixes"]) or any(
        word in class_name for word in known["encoder_words"]
    )


def attends_both_ways(named: str, class_name: str, text: Config) -> bool:
    """Whether a class that generates text is run as an encoder, as its config says.

    ``named``: the class that the config names; ``class_name``: the one whose layers are built for it.
    """
    if named in _pooling()["encoders_if_bidirectional"]:
        return text.boolean("use_bidirectional_attention")
    return class_name in _pooling()["encoders_unless_causal"] and not text.boolean("is_causal", default=True)


def pools(class_name: str) -> bool:
    """Whether a class is one of models that return vectors or scores (``pooling.toml``)."""
    known = _pooling()
    if class_name in known["classes"]:
        return True
    return class_name.endswith(known["suffixes"]) and not class_name.endswith(known["except_suffixes"])
