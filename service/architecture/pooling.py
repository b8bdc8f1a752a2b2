"""What a model that returns vectors or scores has in place of the output layer."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class SequencePooling(StrEnum):
    """How the hidden states of a prompt become one vector (vLLM 0.32.0, SequencePoolingType)."""

    CLS = "CLS"
    LAST = "LAST"
    MEAN = "MEAN"


class TokenPooling(StrEnum):
    """Which tokens get a vector each (vLLM 0.32.0, TokenPoolingType)."""

    ALL = "ALL"
    STEP = "STEP"
    """The tokens that end a step of an argument (process reward models)."""


class Conversion(StrEnum):
    """How the engine makes a pooling model of a class that generates text (``--convert``)."""

    NONE = "none"
    EMBED = "embed"
    CLASSIFY = "classify"
    REWARD = "reward"


@dataclass(frozen=True, slots=True)
class HeadWeights:
    """The weights of a head, in elements, which are not quantized.

    They have 32 bits, unless the config names another type (vLLM 0.32.0, ModelConfig.head_dtype).
    """

    classifier: int = 0
    """Elements that every rank has in full."""
    split: int = 0
    """Elements of matrices that tensor parallelism splits."""
    pooler: int = 0
    """Elements of a layer between pooling and classifier, which older releases have in the model's dtype."""
    plain: int = 0
    """Elements in the model's dtype."""


NO_WEIGHTS: Final = HeadWeights()


@dataclass(frozen=True, slots=True)
class PoolingHead:
    """How a model makes vectors or scores of hidden states, in place of the output layer."""

    sequence: SequencePooling = SequencePooling.LAST
    tokens: TokenPooling = TokenPooling.ALL
    weights: HeadWeights = NO_WEIGHTS
    dtype: str | None = None
    """Type of its weights by the config: ``model`` is the model's own, ``None`` is 32 bits."""
    by_token: bool = False
    """Whether the class returns something for each token, not for the whole prompt."""
    keeps_output: bool = False
    """Whether the class builds the output layer of its text model all the same."""


@dataclass(frozen=True, slots=True)
class SentenceFiles:
    """What the files of sentence-transformers beside a config.json say, which the engine reads too."""

    pools: bool = False
    """Whether ``modules.json`` lists a pooling module: the engine then starts the pooling runner."""
    sequence: SequencePooling | None = None
    """How its pooling module makes one vector; ``None`` where it does not say."""
    max_seq_length: int | None = None
    """Tokens of ``sentence_bert_config.json``."""
    tokenizer_length: int | None = None
    """``model_max_length`` of ``tokenizer_config.json``, tokens."""


NO_FILES: Final = SentenceFiles()


@dataclass(frozen=True, slots=True)
class PoolingFields:
    """What a config says of pooling, whichever way the model is run."""

    conversion: Conversion | None = None
    """What the name of the class asks for, such as ``Qwen3ForSequenceClassification``; ``None``: nothing."""
    labels: int = 2
    """Scores of a classifier."""
    head_dtype: str | None = None
    causal: bool = True
    """Whether tokens see earlier tokens alone (``is_causal``)."""
    absolute_positions: bool = False
    """Whether the config says ``"position_embedding_type": "absolute"``."""
    stored_in_float32: bool = False
    """Whether the config names float32, or no type."""
    files: SentenceFiles = NO_FILES


GENERATES: Final = PoolingFields()
