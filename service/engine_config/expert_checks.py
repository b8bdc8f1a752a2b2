"""What the engine checks of experts that ranks share, and that move between them by their load (EPLB)."""

from typing import Final

from service.architecture.model import ModelArchitecture
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal, Stage
from service.engines.rules.parallelism import ParallelismRules

NO_EXPERTS: Final = (
    "Number of experts in the model must be greater than 0 when expert parallelism is enabled."
)


def check_experts(architecture: ModelArchitecture, *, expert_parallel: bool) -> None:
    """Refuse to split experts of a model whose config names none.

    Source: vLLM 0.10.2 to 0.33.0, ModelConfig._verify_with_expert_parallelism.

    Raises:
        EngineRefusal: stage ``config``.
    """
    if expert_parallel and not architecture.declared.experts:
        raise EngineRefusal(Stage.CONFIG, f"VllmConfig: {NO_EXPERTS}", type="ValidationError")


def spare_experts(flags: ServeFlags) -> int:
    """Return the experts that all ranks together store beside the model's own."""
    given = {} if flags.eplb_config is None else flags.eplb_config.document()
    return given.get("num_redundant_experts") or flags.num_redundant_experts or 0


def check_balancing(flags: ServeFlags, rules: ParallelismRules) -> None:
    """Refuse to balance split experts or those of a single rank, and spare experts that nothing balances.

    Source: vLLM 0.11.0 to 0.32.0, config/parallel.py ParallelConfig.

    Raises:
        EngineRefusal: stage ``config``.
    """
    spare = spare_experts(flags)
    if not flags.enable_eplb:
        if spare:
            raise _invalid(
                f"num_redundant_experts is set to {spare} but EPLB is not enabled. "
                "Either enable EPLB or unset num_redundant_experts."
            )
        return
    if not flags.enable_expert_parallel:
        raise _invalid("enable_expert_parallel must be True to use EPLB.")
    ranks, replicas = flags.tensor_parallel_size or 1, flags.data_parallel_size
    if ranks * replicas == 1:
        raise _invalid(rules.balancing_refusal.format(ranks=ranks, replicas=replicas))


def _invalid(words: str) -> EngineRefusal:
    return EngineRefusal(Stage.CONFIG, f"ParallelConfig: Value error, {words}", type="ValidationError")
