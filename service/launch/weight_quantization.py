"""Whether ``--quantization`` goes with what a checkpoint stores."""

from collections.abc import Mapping
from typing import Final

from service.architecture.quantization import Quantization
from service.engines.refusal import EngineRefusal, Stage
from service.engines.rules import EngineRules

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
LIKE: Final[Mapping[str, frozenset[str]]] = {
    "awq": frozenset({"auto_awq", "awq", "awq_marlin", "moe_wna16"}),
    "gptq": frozenset({"auto_gptq", "gptq", "gptq_marlin", "moe_wna16"}),
}
"""Values of the flag that run a checkpoint of some method, beside its own name."""


def check_flag(stored: Quantization | None, flag: str | None, rules: EngineRules) -> None:
    """Refuse a method that is not the checkpoint's, or that the release does not know or take.

    A checkpoint that names ModelOpt is run as ModelOpt's whatever the flag says.

    Source: vLLM 0.10.2 to 0.33.0, ModelConfig._verify_quantization and override_quantization_method.

    Raises:
        EngineRefusal: stage ``config``.
    """
    if flag is None:
        if (
            stored is not None
            and not stored.names_modelopt
            and stored.method not in rules.quantization_methods
        ):
            raise _invalid(_unknown(stored.method, rules))
        return
    if stored is not None and (stored.names_modelopt or stored.method in rules.quantization_overrides):
        return
    words = ""
    if stored is not None and flag not in LIKE.get(stored.method, frozenset({stored.method})):
        words = (
            f"Quantization method specified in the model config ({stored.method}) does not match the "
            f"quantization method specified in the `quantization` argument ({flag})."
        )
    elif flag not in rules.quantization_methods:
        words = _unknown(flag, rules)
    elif flag in rules.deprecated_quantization:
        words = (
            f"The quantization method {flag} is deprecated and will be removed in future versions of vLLM. "
            "To bypass, set `--allow-deprecated-quantization`."
        )
    if words:
        raise _invalid(words)


def _unknown(method: str, rules: EngineRules) -> str:
    return f"Unknown quantization method: {method}. Must be one of {sorted(rules.quantization_methods)}."


def _invalid(words: str) -> EngineRefusal:
    return EngineRefusal(Stage.CONFIG, f"ModelConfig: {words}", type="ValidationError")


def run_with(stored: Quantization | None, flag: str | None) -> Quantization | None:
    """Return how weights are quantized once they are loaded, as far as checks go.

    Raises:
        EngineRefusal: the checkpoint lacks what the method needs (stage ``config``).
    """
    if stored is not None or flag is None:
        return stored
    if flag in READ_FROM_FILE:
        words = f"VllmConfig: Cannot find the config file for {flag}"
        raise EngineRefusal(Stage.CONFIG, words, type="ValidationError")
    if flag == "compressed-tensors":
        detail = "The engine builds this method's config of nothing, which misses its arguments."
        raise EngineRefusal(Stage.CONFIG, "", type="TypeError", detail=detail)
    return Quantization(flag)
