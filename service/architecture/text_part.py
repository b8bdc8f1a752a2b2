"""The part of a config that generates text."""

from typing import Final

from service.architecture.config import Config
from service.architecture.encoders.siglip import TEXT_SECTIONS
from service.architecture.readers.fields.config_classes import UNKNOWN, ConfigClass, class_of, config_class


def text_part(config: Config, *, whole: bool = False) -> Config:
    """Return the part that generates text, as its config class completes it.

    ``whole``: without a section for it, the class reads the whole config, whatever type of model it names.
    """
    outer = class_of(config)
    if outer.within:
        return outer.view(outer.text_of(config))
    for name in TEXT_SECTIONS:
        section = config.section(name)
        if section is not None:
            return _class_of(section, outer).view(section)
    own = config if whole else own_text(config, outer)
    return (outer if outer.text is None else config_class(outer.text)).view(own)


def own_text(config: Config, outer: ConfigClass) -> Config:
    """Return the fields of the text part of a config without a section for it.

    Source: transformers 4.57 and 5.19: most classes with a text part then have its defaults alone, some
    (Mistral3Config) sizes of a published model.
    """
    return config if outer.text is None or outer.flat else Config(dict(outer.absent), config.pointer)


def text_type(config: Config, text: Config) -> str:
    """Return the ``model_type`` of the part that generates text; if it names none, the one of its class."""
    return text.text("model_type") or class_of(config).text or ""


CHECKED: Final = frozenset(
    {
        "attention_bias",
        "first_k_dense_replace",
        "head_dim",
        "hidden_act",
        "intermediate_size",
        "max_position_embeddings",
        "mlp_bias",
        "moe_intermediate_size",
        "n_routed_experts",
        "n_shared_experts",
        "norm_topk_prob",
        "num_experts",
        "num_experts_per_tok",
        "num_key_value_heads",
        "num_local_experts",
        "rms_norm_eps",
        "routed_scaling_factor",
        "sliding_window",
        "tie_word_embeddings",
    }
)
"""Fields of which a config may say that they are null, and of which some class then takes none."""


def null_fields(config: Config, text: Config) -> frozenset[tuple[str, str]]:
    """Return the checked fields that are ``null``, each behind the type of the config that has it."""
    if config.plain:
        return frozenset()
    parts = ((config.text("model_type"), config), (text_type(config, text), text))
    return frozenset(
        (model_type, name)
        for model_type, part in parts
        for name in CHECKED & part.fields.keys()
        if part.fields[name] is None
    )


def _class_of(section: Config, outer: ConfigClass) -> ConfigClass:
    return UNKNOWN if section.plain else config_class(section.text("model_type") or outer.text or "")
