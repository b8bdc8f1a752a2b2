"""What a config says of pooling: labels, type of the head, whether attention is causal."""

from typing import Final

from service.architecture.config import Config, InvalidConfig
from service.architecture.pooling import Conversion, PoolingFields

DEFAULT_LABELS: Final = 2
"""transformers 4.57 and 5.10, PreTrainedConfig.num_labels of a config that names none."""
HEAD_DTYPES: Final = frozenset({"model", "half", "float16", "float", "float32", "bfloat16"})
"""vLLM 0.32.0, config/model.py _get_head_dtype."""


def labels(config: Config) -> int:
    """Return the number of scores: of ``id2label``, or else ``num_labels``."""
    named = config.section("id2label")
    if named is not None and named.fields:
        return len(named.fields)
    return config.count("num_labels", default=DEFAULT_LABELS)


def head_dtype(config: Config) -> str | None:
    """Return the type that a config names for its head; ``None`` where it names none.

    Raises:
        InvalidConfig: the engine knows no such type.
    """
    named = config.text("head_dtype").lower()
    if named and named not in HEAD_DTYPES:
        raise InvalidConfig(config.at("head_dtype"), f"is none of {', '.join(sorted(HEAD_DTYPES))}")
    return named or None


def read_pooling_fields(
    config: Config, text: Config, conversion: Conversion | None, *, in_float32: bool
) -> PoolingFields:
    """Read what a config says of pooling.

    Args:
        config: the whole config.
        text: the part that the layers are read from.
        conversion: what the name of its class asks for.
        in_float32: whether the config names float32, or no type.
    """
    return PoolingFields(
        conversion=conversion,
        labels=_scores(config, text),
        head_dtype=head_dtype(config),
        causal=text.boolean("is_causal", default=True),
        absolute_positions=config.text("position_embedding_type") == "absolute",
        stored_in_float32=in_float32,
    )


def _scores(config: Config, text: Config) -> int:
    """Return the scores of a classifier that the engine makes of the output layer, or else the labels.

    Source: vLLM 0.32.0, adapters.py SequenceClassificationConfig and _resolve_num_labels;
    Qwen3ForSequenceClassificationConfig.
    """
    tokens = config.texts("classifier_from_token") or text.texts("classifier_from_token")
    method = config.text("method") or text.text("method")
    if config.boolean("is_original_qwen3_reranker") and tokens:
        method = "from_2_way_softmax"
    if method and tokens:
        return 1 if method == "from_2_way_softmax" else len(tokens)
    own = labels(config)
    return labels(text) if own == DEFAULT_LABELS and text is not config else own
