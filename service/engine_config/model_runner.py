"""Which of the engine's two model runners runs a model."""

from service.architecture.model import ModelArchitecture
from service.engine_config.engine_config import EngineConfig
from service.engine_config.speculation import Speculation
from service.engines.engine_rules import EngineRules
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal, Stage
from service.engines.rules.batches import BatchRules
from service.engines.speculative_config import DSPARK


def runs_on_v2_model_runner(
    architecture: ModelArchitecture,
    rules: EngineRules,
    drafted: Speculation | None,
    named: bool | None = None,
) -> bool:
    """Whether the release runs this model on its V2 model runner (vLLM 0.28.0, use_v2_model_runner).

    ``named``: what the environment says; ``None`` leaves it to the release.
    """
    if named is not None:
        return named
    batches, speculation = rules.batches, rules.speculation
    if architecture.pooling is not None and not rules.pooling.v2_model_runner:
        return False
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


def check_v2_model_runner(
    architecture: ModelArchitecture,
    flags: ServeFlags,
    batches: BatchRules,
    state_mode: str,
    *,
    named: bool | None,
) -> None:
    """Refuse what the V2 model runner cannot run, where the environment asks for it.

    Without a wish of the caller, the engine takes the other model runner.

    Source: vLLM 0.20.0 to 0.33.0, config/vllm.py _validate_v2_model_runner.

    Raises:
        EngineRefusal: stage ``config``.
    """
    recurrent = architecture.is_recurrent
    present = {
        "states": recurrent,
        "aligned_states": recurrent and state_mode == "align",
        "all_states": recurrent and state_mode == "all",
        "half_batches": flags.enable_dbo,
    }
    lacking = [words for name, words in batches.v2_model_runner_lacks.items() if present[name]]
    if named and lacking and batches.v2_model_runner_refusal:
        message = batches.v2_model_runner_refusal.format(features=", ".join(lacking))
        raise EngineRefusal(Stage.CONFIG, f"VllmConfig: Value error, {message}", type="ValidationError")


def runner_doubts(engine_config: EngineConfig) -> tuple[str, ...]:
    """Say that a release's V2 model runner, which the environment alone can ask for, is not modelled."""
    if not engine_config.v2_model_runner or engine_config.rules.batches.v2_model_runner_refusal:
        return ()
    words = (
        f"The V2 model runner of vLLM {engine_config.release} is not modelled: before 0.20.0 the engine does "
        "not check what it can run."
    )
    return (words,)
