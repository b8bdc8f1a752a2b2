"""Which of the engine's two model runners runs a model."""

from service.architecture.model import ModelArchitecture
from service.engine_config.speculation import Speculation
from service.engines.engine_rules import EngineRules


def runs_on_v2_model_runner(
    architecture: ModelArchitecture, rules: EngineRules, drafted: Speculation | None
) -> bool:
    """Whether the release runs this model on its second runner (vLLM 0.28.0, use_v2_model_runner)."""
    if drafted is not None and not (
        drafted.v2_model_runner and drafted.method in rules.speculation.v2_model_runner_methods
    ):
        return False
    name = architecture.class_name
    dense = not (architecture.is_hybrid or architecture.declared.experts)
    second = {"all", name, *(("dense",) if dense else ())}
    if architecture.quantization is None:
        second.add(f"unquantized {name}")
    return bool(second & rules.batches.v2_model_runner)
