"""Which of the engine's two model runners runs a model."""

from service.architecture.model import ModelArchitecture
from service.engine_config.speculation import Speculation
from service.engines.rules.batches import BatchRules
from service.engines.rules.speculation import SpeculationRules
from service.engines.speculative_config import DSPARK


def runs_on_v2_model_runner(
    architecture: ModelArchitecture,
    batches: BatchRules,
    speculation: SpeculationRules,
    drafted: Speculation | None,
    named: bool | None = None,
) -> bool:
    """Whether the release runs this model on its V2 model runner (vLLM 0.28.0, use_v2_model_runner).

    ``named``: what the environment says; ``None`` leaves it to the release.
    """
    if named is not None:
        return named
    if drafted is not None and not (
        drafted.v2_model_runner and drafted.method in speculation.v2_model_runner_methods
    ):
        return False
    if drafted is not None and drafted.method == DSPARK:
        # Only the V2 model runner can: vLLM 0.25.0 to 0.33.0, use_v2_model_runner.
        return True
    name = architecture.class_name
    dense = not (architecture.is_hybrid or architecture.declared.experts)
    second = {"all", name, *(("dense",) if dense else ())}
    if architecture.quantization is None:
        second.add(f"unquantized {name}")
    return bool(second & batches.v2_model_runner)
