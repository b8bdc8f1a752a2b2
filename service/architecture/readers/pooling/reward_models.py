"""Decoders with a head of their own that scores tokens or steps of an answer.

Source: vLLM 0.32.0, qwen2_rm.py and internlm2.py.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from service.architecture.config import Config
from service.architecture.pooling import HeadWeights, PoolingHead, TokenPooling
from service.architecture.readers.attention import dense
from service.architecture.readers.fields.pooling_fields import head_dtype
from service.architecture.readers.recipes.family import Family


def _two_layers(text: Config, scores: int, tokens: TokenPooling) -> PoolingHead:
    """Return a layer of the hidden size and one of the scores, both split over the ranks and with biases."""
    hidden = text.integer("hidden_size")
    weights = HeadWeights(classifier=scores, split=(hidden + 1) * hidden + hidden * scores)
    return PoolingHead(tokens=tokens, weights=weights, dtype=head_dtype(text), by_token=True)


def _reward(text: Config) -> PoolingHead:
    return _two_layers(text, 1, TokenPooling.ALL)


def _process_reward(text: Config) -> PoolingHead:
    return _two_layers(text, 2, TokenPooling.STEP)


def _value_head(text: Config) -> PoolingHead:
    weights = HeadWeights(split=text.integer("hidden_size"))
    return PoolingHead(weights=weights, dtype=head_dtype(text), by_token=True)


FAMILIES: Final[Mapping[str, Family]] = {
    "Qwen2ForRewardModel": replace(dense.FAMILIES["Qwen2ForCausalLM"], pooling=_reward),
    "Qwen2ForProcessRewardModel": replace(dense.FAMILIES["Qwen2ForCausalLM"], pooling=_process_reward),
    "InternLM2ForRewardModel": replace(dense.FAMILIES["InternLM2ForCausalLM"], pooling=_value_head),
}
