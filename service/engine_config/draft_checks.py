"""Whether a draft of its own checkpoint takes the parallelism of the model."""

from service.architecture.layers.experts import MixtureOfExperts
from service.engine_config.expert_checks import NO_EXPERTS
from service.engine_config.speculation import Speculation
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal, Stage
from service.engines.rules.parallelism import ParallelismRules


def check_draft_experts(drafted: Speculation | None, flags: ServeFlags, rules: ParallelismRules) -> None:
    """Refuse a draft without experts that inherits expert parallelism from the model.

    Source: vLLM 0.30.0, SpeculativeConfig.create_draft_parallel_config.

    Raises:
        EngineRefusal: stage ``config``.
    """
    config = flags.speculative_config
    if not flags.enable_expert_parallel or not rules.drafts_need_experts:
        return
    if drafted is None or drafted.draft is None or config is None or config.model is None:
        return
    if not any(isinstance(layer.feed_forward, MixtureOfExperts) for layer in drafted.draft.layers):
        raise EngineRefusal(Stage.CONFIG, f"SpeculativeConfig: {NO_EXPERTS}", type="ValidationError")
