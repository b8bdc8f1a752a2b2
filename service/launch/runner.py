"""Which of the engine's two model runners runs a model."""

from service.architecture.model import ModelArchitecture
from service.engines.rules import EngineRules
from service.engines.speculation import DSPARK
from service.launch.speculation import Speculation


def runs_on_second_runner(
    architecture: ModelArchitecture, rules: EngineRules, guessed: Speculation | None
) -> bool:
    """Whether the release runs this model on its second runner (vLLM 0.28.0, use_v2_model_runner)."""
    if guessed is not None and not (guessed.second_runner and guessed.method in rules.second_runner_methods):
        return False
    if guessed is not None and guessed.method == DSPARK:
        # Only the second runner can: vLLM 0.25.0 to 0.33.0, use_v2_model_runner.
        return True
    name = architecture.class_name
    dense = not (architecture.is_hybrid or architecture.experts_told)
    second = {"all", name, *(("dense",) if dense else ())}
    if architecture.quantization is None:
        second.add(f"unquantized {name}")
    return bool(second & rules.second_runner)
