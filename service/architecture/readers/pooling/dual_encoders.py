"""Encoders of text and of images whose vectors are compared: CLIP and SigLIP.

Source: vLLM 0.20.2 to 0.33.0, clip.py CLIPEmbeddingModel and siglip.py SiglipEmbeddingModel.
"""

from collections.abc import Mapping
from typing import Final

from service.architecture.config import Config
from service.architecture.encoders import siglip
from service.architecture.encoders.siglip import linear_elements
from service.architecture.layers.decoder_layer import DecoderLayer
from service.architecture.layers.model_ends import ModelEnds
from service.architecture.pooling import HeadWeights, PoolingHead, SequencePooling
from service.architecture.readers.fields.pooling_fields import head_dtype
from service.architecture.readers.pooling.text_encoders import BERT, encoding
from service.architecture.readers.recipes.family import Family
from service.architecture.readers.recipes.recipe import LAYER_NORM


def _siglip_text(text: Config) -> tuple[DecoderLayer, ...]:
    return encoding(BERT(text))


def _text_ends(text: Config) -> ModelEnds:
    return ModelEnds(norm_weights=LAYER_NORM, split_tables=(text.integer("max_position_embeddings"),))


def _clip_head(text: Config) -> PoolingHead:
    weights = HeadWeights(plain=text.integer("hidden_size") * text.integer("projection_dim", default=512))
    return PoolingHead(SequencePooling.LAST, weights=weights, dtype=head_dtype(text))


def _siglip_head(text: Config) -> PoolingHead:
    hidden = text.integer("hidden_size")
    weights = HeadWeights(plain=linear_elements(hidden, text.integer("projection_size", default=hidden)))
    return PoolingHead(SequencePooling.CLS, weights=weights, dtype=head_dtype(text))


FAMILIES: Final[Mapping[str, Family]] = {
    "CLIPModel": Family(
        BERT,
        multimodal=True,
        supports_pipeline=False,
        ends=_text_ends,
        towers=siglip.clip_images,
        pooling=_clip_head,
    ),
    "SiglipModel": Family(
        _siglip_text,
        multimodal=True,
        supports_pipeline=False,
        ends=_text_ends,
        towers=siglip.siglip_images,
        pooling=_siglip_head,
    ),
}
