"""What the engine checks of how steps are scheduled."""

from packaging.version import Version

from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal, Stage
from service.engines.rules.batches import BatchRules


class UnmodelledEngine(Exception):
    """The release starts another engine than the one that is modelled."""


def check_partial_prefills(flags: ServeFlags, rules: BatchRules, release: Version) -> None:
    """Refuse to compute several prompts piece by piece at once: the modelled engine cannot in any release.

    Raises:
        EngineRefusal: stage ``config``.
        UnmodelledEngine: the release falls back to its older engine.
    """
    if {flags.max_num_partial_prefills, flags.max_long_partial_prefills} <= {None, 1}:
        return
    if rules.partial_prefills_refusal is None:
        raise UnmodelledEngine(
            f"for --max-num-partial-prefills vLLM {release} starts its older engine, V0: it is not modelled"
        )
    raise EngineRefusal(Stage.CONFIG, rules.partial_prefills_refusal, type="NotImplementedError")
