"""``--speculative-config``: the method of speculative decoding and its draft."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Self

from service.nearest_names import cut, nearest, quoted

MTP: Final = "mtp"
EAGLE: Final = "eagle"
EAGLE3: Final = "eagle3"
DRAFT_MODEL: Final = "draft_model"
DSPARK: Final = "dspark"
DFLASH: Final = "dflash"
MEDUSA: Final = "medusa"
MLP_SPECULATOR: Final = "mlp_speculator"
NGRAM: Final = "ngram"
SUFFIX: Final = "suffix"
LOOKUPS: Final = frozenset({NGRAM, "ngram_gpu", SUFFIX})
"""Methods that draft from earlier tokens, without a model."""
HIDDEN_STATE_METHODS: Final = frozenset({EAGLE, EAGLE3, MTP, DFLASH, DSPARK})
"""Methods that feed a draft with the model's own hidden states (vLLM 0.33.0, SpeculativeConfig.use_eagle)."""


class InvalidSpeculation(ValueError):
    """The object is not one that the engine takes.

    Attributes:
        key: the key at fault; empty for the object itself.
        detail: what is wrong with it.
        nearest: what is spelt alike and would be valid.
    """

    def __init__(self, key: str, detail: str, nearest: tuple[str, ...] = ()) -> None:
        self.key = key
        self.detail = detail
        self.nearest = nearest
        hint = f"; the nearest are {', '.join(nearest)}" if nearest else ""
        super().__init__(f"speculative_config{f'.{key}' if key else ''}: {detail}{hint}")


@dataclass(frozen=True, slots=True)
class SpeculativeConfig:
    """``--speculative-config`` by the engine's own keys; ``None`` leaves the choice to the release."""

    method: str | None = None
    model: str | None = None
    """Id of the draft; ``None`` where the method needs none or the model brings its own (MTP)."""
    num_speculative_tokens: int | None = None
    draft_tensor_parallel_size: int | None = None
    prompt_lookup_max: int | None = None
    prompt_lookup_min: int | None = None
    quantization: str | None = None
    max_model_len: int | None = None
    """Tokens of the draft's longest request."""
    revision: str | None = None
    parallel_drafting: bool | None = None
    disable_padded_drafter_batch: bool | None = None
    use_heterogeneous_vocab: bool | None = None
    suffix_decoding_max_tree_depth: int | None = None
    """Most draft tokens of ``suffix`` where ``num_speculative_tokens`` is not specified."""

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> Self:
        """Read the object as a caller writes it.

        Raises:
            InvalidSpeculation: a key is none of those modelled, or a value of the wrong type.
        """
        unknown = next((key for key in document if key not in KEYS), None)
        if unknown is not None:
            raise InvalidSpeculation(cut(unknown), "no such key is modelled", nearest(unknown, KEYS))
        for key, value in document.items():
            kinds = KEYS[key]
            if value is not None and (not isinstance(value, kinds) or (kinds is int and value is True)):
                raise InvalidSpeculation(key, f"{quoted(str(value))} is not of type {kinds.__name__}")
        return cls(**document)

    def document(self) -> dict[str, Any]:
        """Return the object as the command line takes it, without what was left out."""
        pairs = ((field.name, getattr(self, field.name)) for field in fields(self))
        return {name: value for name, value in pairs if value is not None}


KEYS: Final[Mapping[str, type]] = {
    field.name: {"str | None": str, "int | None": int, "bool | None": bool}[str(field.type)]
    for field in fields(SpeculativeConfig)
}
"""Every key with the type of its values."""
