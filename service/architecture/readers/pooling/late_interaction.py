"""Models of text and images that make a vector of each token, to be compared one by one: ColPali, ColQwen.

Source: vLLM 0.20.2 and 0.33.0, colpali.py, colqwen3.py and colqwen3_5.py: a projection in the head's type, of
hidden states to vectors, whose width the config states under one of several names.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from service.architecture.config import Config
from service.architecture.encoders import projected_patches
from service.architecture.pooling import HeadWeights, PoolingHead, SequencePooling
from service.architecture.readers.attention import dense
from service.architecture.readers.fields.pooling_fields import head_dtype
from service.architecture.readers.recipes.family import Family, Wrapper
from service.architecture.readers.recurrent import gated_delta_net

COLPALI: Final = ("embedding_dim", "embed_dim", "dim", "projection_dim", "colbert_dim")
COLQWEN: Final = ("embed_dim", "dims", "dim", "projection_dim", "colbert_dim")
COLQWEN3_5_VECTOR: Final = 128
"""colqwen3_5.py ColQwen3_5Model: width of the vectors where the config states none."""


def _projected(
    names: tuple[str, ...], *, default: int = 0, bias: bool = False, keeps_output: bool = True
) -> Callable[[Config, Config], PoolingHead]:
    """Return a reader of the projection; without a width its size is only in the checkpoint."""

    def read(config: Config, text: Config) -> PoolingHead:
        width = config.optional_integer(*names) or default
        weights = HeadWeights(classifier=(text.integer("hidden_size") + bias) * width)
        return PoolingHead(
            SequencePooling.CLS,
            weights=weights,
            dtype=head_dtype(config),
            by_token=True,
            keeps_output=keeps_output,
        )

    return read


_COLQWEN3: Final = replace(
    dense.FAMILIES["Qwen3VLForConditionalGeneration"], token_pooling=_projected(COLQWEN)
)

FAMILIES: Final[Mapping[str, Family]] = {
    "ColQwen3": _COLQWEN3,
    "ColQwen3_5": replace(
        gated_delta_net.FAMILIES["Qwen3_5ForConditionalGeneration"],
        token_pooling=_projected(COLQWEN, default=COLQWEN3_5_VECTOR, bias=True),
    ),
    "OpsColQwen3Model": _COLQWEN3,
    "Qwen3VLNemotronEmbedModel": _COLQWEN3,
}
COLPALI_WRAPPER: Final = Wrapper(
    sections=("vlm_config", "text_config"),
    model_type="gemma",
    bidirectional_media=lambda _: True,
    splits_media_heads=True,
    towers=lambda config: projected_patches.paligemma(config.section("vlm_config") or config),
    token_pooling=_projected(COLPALI, keeps_output=False),
)
