"""Translates a params.json into the config that the engine makes of it.

Source: vLLM 0.10.2 to 0.33.0, transformers_utils/configs/mistral.py adapt_config_dict and
transformers_utils/config.py MistralConfigParser. A `Dialect` holds the differences between releases.
"""

from typing import Final

from service.architecture.config import Config, InvalidConfig, read_document
from service.architecture.mistral_format.dialect import Dialect, DialectPart, RefusedParams
from service.architecture.mistral_format.sections import (
    Fields,
    check_length_scaling,
    media,
    mixture,
    no_experts,
    quantization,
    scaling,
    windows,
)
from service.architecture.model import ModelArchitecture
from service.architecture.model_files import ModelFiles
from service.architecture.reading import read_architecture, with_modelopt_file
from service.architecture.text_part import text_part

NAMES: Final = {
    "dim": "hidden_size",
    "norm_eps": "rms_norm_eps",
    "n_kv_heads": "num_key_value_heads",
    "n_layers": "num_hidden_layers",
    "n_heads": "num_attention_heads",
    "hidden_dim": "intermediate_size",
}
"""The usual name of a field, by Mistral's name."""
_WRITTEN: Final = {
    **{usual: name for name, usual in NAMES.items()},
    "quantization_config": "quantization",
    "tie_word_embeddings": "tied_embeddings",
    "rope_parameters": "yarn",
}
DEFAULT_LENGTH: Final = 128_000
NEEDED: Final = {
    "MistralForCausalLM": "intermediate_size",
    "MixtralForCausalLM": "num_local_experts",
    "Mamba2ForCausalLM": "state_size",
}
"""A field that a class reads and that may be missing; the last two stand in a config.json alone."""


def read_params(files: ModelFiles, dialect: Dialect) -> ModelArchitecture:
    """Read a model by its params.json.

    Raises:
        RefusedParams: the engine would refuse it.
        InvalidConfig: a field is missing, of the wrong type or out of range; the pointer is params.json's.
        UnknownArchitecture: what it describes is not modelled.
    """
    document = with_modelopt_file(translate(files, dialect), files.quantization)
    try:
        return read_architecture(Config(document, plain=True))
    except InvalidConfig as error:
        raise InvalidConfig(_written(error.pointer), error.detail) from error


def _written(pointer: str) -> str:
    """Return where params.json has what the translated config has at a pointer."""
    steps = pointer.removeprefix("/text_config").split("/")
    return "/".join(_WRITTEN.get(step, step) for step in steps)


def translate(files: ModelFiles, dialect: Dialect) -> Fields:
    """Return a params.json as the config.json that the engine makes of it.

    Raises:
        RefusedParams: the engine would refuse it.
        InvalidConfig: a field is of the wrong type or out of range.
    """
    params = read_document(files.params)
    fields = {
        **_general(params, files, dialect),
        **windows(params, dialect),
        **quantization(params, dialect),
    }
    fields.update(_class(params, fields, dialect))
    fields.update(scaling(params, dialect))
    check_length_scaling(params, dialect, needed=False)
    whole = media(params, fields, dialect)
    if files.config is not None and dialect.reads(DialectPart.CONFIG_FILLS):
        whole = {**files.config, **whole}
    _check_needed(whole, dialect)
    return whole


def _general(params: Config, files: ModelFiles, dialect: Dialect) -> Fields:
    """Rename the fields that every model has. Source: _remap_general_mistral_args."""
    fields = dict(params.fields)
    for name, usual in NAMES.items():
        if name in fields:
            fields[usual] = fields.pop(name)
    length = params.optional_integer("max_position_embeddings") or _length_beside(files)
    follows = dialect.reads(DialectPart.LENGTH_OF_POSITIONS)
    fields["max_position_embeddings"] = length
    fields.setdefault("max_seq_len", length if follows else DEFAULT_LENGTH)
    fields["model_type"] = params.text("model_type", default="transformer")
    fields["tie_word_embeddings"] = params.boolean("tied_embeddings")
    return fields


def _length_beside(files: ModelFiles) -> int:
    """Return the length in config.json. Source: _maybe_retrieve_max_pos_from_hf."""
    if files.config is None:
        return DEFAULT_LENGTH
    try:
        specified = text_part(read_document(files.config)).optional_integer("max_position_embeddings")
    except InvalidConfig:
        return DEFAULT_LENGTH
    return specified or DEFAULT_LENGTH


def _class(params: Config, fields: Fields, dialect: Dialect) -> Fields:
    """Name the class of the text model, and its experts."""
    experts = params.section("moe") or Config({}, params.at("moe"))
    mla = bool(params.fields.get("qk_nope_head_dim"))
    if mla and not experts.fields and dialect.reads(DialectPart.MLA_WITHOUT_EXPERTS):
        experts = Config(no_experts(fields), params.at("moe"))
    if fields["model_type"] == "mamba" and dialect.reads(DialectPart.MAMBA):
        return {"architectures": ["Mamba2ForCausalLM"]}
    shared = experts.count("num_shared_experts", default=0, minimum=0)
    if shared and dialect.reads(DialectPart.SHARED_EXPERTS):
        check_length_scaling(params, dialect, needed=True)
        names = {"architectures": ["MistralLarge3ForCausalLM"], "model_type": "deepseek_v3"}
        return {**mixture(experts), **names}
    return {"architectures": ["MixtralForCausalLM" if experts.fields else "MistralForCausalLM"]}


def _check_needed(whole: Fields, dialect: Dialect) -> None:
    """Refuse what the model's class cannot be built from."""
    text = whole.get("text_config", whole)
    needed = NEEDED.get(text["architectures"][0])
    if needed is None or needed in text:
        return
    words = f"'{dialect.plain_class}' object has no attribute '{needed}'"
    raise RefusedParams(_written(f"/{needed}"), words, type="AttributeError", building=True)
