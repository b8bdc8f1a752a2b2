"""Nemotron-H whose blocks differ one by one in experts, widths and windows (Puzzle)."""

from collections.abc import Mapping
from typing import Final

from service.architecture.config import MAX_LAYERS, Config, InvalidConfig
from service.architecture.layers.decoder_layer import DecoderLayer
from service.architecture.layers.stage_frame import ALL_EVERYWHERE
from service.architecture.readers.recipes.family import Family
from service.architecture.readers.recurrent.state_space import NEMOTRON_SIGNS, nemotron


def _puzzle(text: Config) -> tuple[DecoderLayer, ...]:
    """Read blocks of which each replaces fields of the config by those of its own.

    Source: vLLM 0.17.1 to 0.33.0, nemotron_h.py, which asks the checkpoint's NemotronHPuzzleConfig for the
    config of each layer (get_nemotron_h_config_for_layer): its entry of ``block_configs`` without nulls.

    Raises:
        InvalidConfig: there is no list of blocks, or one is of no known type.
    """
    blocks = text.fields.get("block_configs")
    if not isinstance(blocks, list) or not blocks or len(blocks) > MAX_LAYERS:
        raise InvalidConfig(text.at("block_configs"), f"is not a list of 1 to {MAX_LAYERS} blocks")
    read: dict[str, DecoderLayer] = {}
    return tuple(_layer(text, block, index, read) for index, block in enumerate(blocks))


def _layer(text: Config, block: object, index: int, read: dict[str, DecoderLayer]) -> DecoderLayer:
    """Return the layer of one block; equal blocks are read once."""
    fields = block if isinstance(block, dict) else {}
    sign = NEMOTRON_SIGNS.get(str(fields.get("block_type")))
    if sign is None:
        words = f"has no block_type of {', '.join(NEMOTRON_SIGNS)} in block {index}"
        raise InvalidConfig(text.at("block_configs"), words)
    key = repr(sorted(fields.items()))
    if key not in read:
        own = {name: value for name, value in fields.items() if value is not None}
        whole = {**text.fields, **own, "hybrid_override_pattern": sign}
        read[key] = nemotron(Config(whole, text.pointer, text.written))[0]
    return read[key]


FAMILIES: Final[Mapping[str, Family]] = {
    "NemotronHPuzzleForCausalLM": Family(_puzzle, frame=ALL_EVERYWHERE),
}
