"""The part of a config that generates text, and which classes read another one."""

from typing import Final

from service.architecture.config import Config
from service.architecture.encoders.siglip import TEXT_SECTIONS
from service.architecture.readers.fields.config_classes import UNKNOWN, ConfigClass, class_of, config_class
from service.architecture.readers.recipes.family import Family

OF_TEXT_PART: Final = frozenset(
    {
        "ExaoneMoEForCausalLM",
        "ExaoneMoeForCausalLM",
        "Gemma4ForCausalLM",
        "MiMoV2FlashForCausalLM",
        "Qwen2ForCausalLM",
        "Qwen2ForProcessRewardModel",
        "Qwen2ForRewardModel",
        "Qwen3ForCausalLM",
        "Qwen3MoeForCausalLM",
        "Qwen3NextForCausalLM",
        "Qwen3_5ForCausalLM",
        "Qwen3_5MoeForCausalLM",
    }
)
"""Classes for text alone that read the text part of a config (vLLM 0.19.0 to 0.33.0).

Source: hf_text_config in most of them, get_text_config() in qwen2.py and exaone_moe.py, and gemma4.py
_get_text_config.
"""


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


def reads_whole(class_name: str, family: Family) -> bool:
    """Whether a class for text alone reads the whole config (hf_config), as most of them do."""
    return not family.multimodal and class_name not in OF_TEXT_PART


def own_text(config: Config, outer: ConfigClass) -> Config:
    """Return the fields of the text part of a config without a section for it.

    Source: transformers 4.57 and 5.19: most classes with a text part then have its defaults alone.
    """
    return config if outer.text is None or outer.flat else Config({}, config.pointer)


def _class_of(section: Config, outer: ConfigClass) -> ConfigClass:
    return UNKNOWN if section.plain else config_class(section.text("model_type") or outer.text or "")
