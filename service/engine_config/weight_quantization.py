"""Whether a release takes a method of quantized weights, and ``--quantization`` the checkpoint."""

from typing import Final

from service.architecture.model import ModelArchitecture
from service.architecture.quantization import Quantization
from service.engines.refusal import EngineRefusal, Stage
from service.engines.rules.checkpoints import CheckpointRules
from service.engines.rules.gguf import GGUF
from service.engines.rules.layouts import LayoutRules

READ_FROM_FILE: Final = frozenset(
    {
        "auto_awq",
        "auto_gptq",
        "awq",
        "awq_marlin",
        "gptq",
        "gptq_marlin",
        "modelopt",
        "modelopt_fp4",
        "modelopt_mixed",
        "modelopt_mxfp8",
        "moe_wna16",
    }
)
"""Methods that a checkpoint must describe: vLLM 0.16.0 to 0.33.0, get_config_filenames of each."""

NO_GGUF_FILE: Final = (
    "--quantization gguf converts nothing: the engine builds modules for the tensors of a GGUF file "
    "(`qweight`) and stops at the first weight of this checkpoint (`weight`), for which none has a place; "
    "some classes say so with a ValueError. Leave the flag out to load the checkpoint as it is stored; of a "
    "GGUF file give the file, or org/name:Q4_K_M, as the model."
)
"""Source: vLLM 0.10.2 to 0.23.0, get_quant_config, GGUFLinearMethod.create_weights and AutoWeightsLoader."""


def check_methods(architecture: ModelArchitecture, flag: str | None, rules: CheckpointRules) -> None:
    """Refuse a method that the release does not accept, or that does not fit the checkpoint.

    Raises:
        EngineRefusal: stage ``config``.
    """
    _check_unnamed(architecture.unnamed_quantization, flag, architecture.model_type, rules)
    _check_method(architecture.quantization, flag, architecture.model_type, rules)


def _check_unnamed(unnamed: str | None, flag: str | None, model_type: str, rules: CheckpointRules) -> None:
    """Refuse a method beside a section of the config that names none.

    Source: vLLM 0.11.2 to 0.33.0, ModelConfig._verify_quantization: an empty name is None; asked of 0.26.0.

    Raises:
        EngineRefusal: stage ``config``.
    """
    if unnamed is None or flag is None or _runs_as("", flag, model_type, rules):
        return
    words = (
        "ModelConfig: Quantization method specified in the model config (None) does not match the "
        f"quantization method specified in the `quantization` argument ({flag})."
    )
    detail = f"The config's quantization names no method ({unnamed}): the engine takes none beside it."
    raise EngineRefusal(Stage.CONFIG, words, type="ValidationError", detail=detail)


def _check_method(
    stored: Quantization | None, flag: str | None, model_type: str, rules: CheckpointRules
) -> None:
    """Refuse a method that the release does not accept, or that does not fit the checkpoint.

    A checkpoint that names ModelOpt is run as ModelOpt's whatever the flag says; so is one whose file the
    release reads as ModelOpt's, if it takes every name of its methods.

    Source: vLLM 0.10.2 to 0.33.0, ModelConfig._verify_quantization and override_quantization_method.

    Raises:
        EngineRefusal: stage ``config``.
    """
    if stored is not None and _is_modelopt(stored, rules):
        return
    method, words, detail = flag, "", ""
    if stored is not None:
        method = _runs_as(stored.method, flag, model_type, rules)
        if flag is not None and method == stored.method != flag:
            words = (
                f"Quantization method specified in the model config ({stored.method}) does not match the "
                f"quantization method specified in the `quantization` argument ({flag})."
            )
            detail = (
                f"The checkpoint is stored as {stored.method}: leave --quantization out, or choose a "
                f"checkpoint of the model that is stored as {flag}."
            )
    if method is None:
        return
    if not words and method not in rules.quantization_methods:
        known = sorted(rules.quantization_methods)
        words = f"Unknown quantization method: {method}. Must be one of {known}."
    elif not words and method in rules.deprecated_quantization:
        words = (
            "('The quantization method %s is deprecated and will be removed in future versions of vLLM. "
            f"To bypass, set `--allow-deprecated-quantization`.', '{method}')"
        )
    if words:
        raise EngineRefusal(Stage.CONFIG, f"ModelConfig: {words}", type="ValidationError", detail=detail)


def _is_modelopt(stored: Quantization, rules: CheckpointRules) -> bool:
    named = stored.method.startswith("modelopt") if rules.modelopt_by_file else stored.method == "modelopt"
    return stored.names_modelopt or named


def check_modelopt_file(stored: Quantization | None, rules: LayoutRules) -> None:
    """Refuse an algorithm that the release does not take of ModelOpt's own file.

    Raises:
        EngineRefusal: stage ``config``.
    """
    algorithm = "" if stored is None else stored.file_algorithm
    if algorithm and algorithm.upper() not in rules.modelopt_file_algorithms:
        words = f"ModelConfig: Unknown ModelOpt quant algo: {algorithm}"
        raise EngineRefusal(Stage.CONFIG, words, type="ValidationError")


def _runs_as(stored: str, flag: str | None, model_type: str, rules: CheckpointRules) -> str:
    """Return the method that runs a checkpoint: the first one that claims it, or else its own."""
    claiming = (each for each in rules.quantization_overrides if each.applies(stored, flag, model_type))
    return next((each.runs_as for each in claiming), stored)


def run_with(stored: Quantization | None, flag: str | None) -> Quantization | None:
    """Return how weights are quantized once they are loaded, as far as checks go.

    Raises:
        EngineRefusal: the checkpoint lacks what the method needs (stage ``config``).
    """
    if flag == GGUF and (stored is None or stored.method != GGUF):
        raise EngineRefusal(Stage.MODEL, "", type="KeyError", detail=NO_GGUF_FILE)
    if stored is not None or flag is None:
        return stored
    if flag in READ_FROM_FILE:
        words = f"VllmConfig: Cannot find the config file for {flag}"
        detail = (
            f"The weights of this checkpoint are not stored as {flag}: its config.json has no "
            f"quantization_config, and --quantization {flag} does not convert weights. Choose a checkpoint "
            "of the model that is stored so."
        )
        raise EngineRefusal(Stage.CONFIG, words, type="ValidationError", detail=detail)
    if flag == "compressed-tensors":
        detail = "The engine builds this method's config of nothing, which misses its arguments."
        raise EngineRefusal(Stage.CONFIG, "", type="TypeError", detail=detail)
    return Quantization(flag)
