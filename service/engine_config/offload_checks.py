"""What the engine checks of weights in the host's memory."""

from collections.abc import Collection

from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal, Stage
from service.engines.rules.batches import BatchRules

PREFETCH = "prefetch"


def fetches(flags: ServeFlags) -> bool:
    """Whether layers are fetched ahead: groups win where the backend is left to the engine.

    Source: vLLM 0.17.0 to 0.32.0, model_executor/offloader/base.py create_offloader.
    """
    if flags.offload_backend == "auto":
        return flags.offload_group_size > 0
    return flags.offload_backend == PREFETCH


def check_flags(flags: ServeFlags) -> None:
    """Refuse groups that hold fewer layers than are moved of them.

    Source: vLLM 0.17.0 to 0.32.0, config/offload.py OffloadConfig.validate_offload_config.

    Raises:
        EngineRefusal: stage ``config``.
    """
    if flags.offload_backend != PREFETCH and not flags.offload_group_size:
        return
    if flags.offload_num_in_group > flags.offload_group_size:
        raise _invalid(
            f"offload_num_in_group ({flags.offload_num_in_group}) must be <= offload_group_size "
            f"({flags.offload_group_size})"
        )
    if flags.offload_prefetch_step < 1:
        raise _invalid(
            f"offload_prefetch_step ({flags.offload_prefetch_step}) must be >= 1 when prefetch offloading is "
            "enabled (offload_group_size > 0)"
        )


def check_groups(flags: ServeFlags, rules: BatchRules, block_sizes: Collection[int]) -> None:
    """Refuse weights in the host's memory where the batch is set up anew, as for several groups of layers.

    Source: vLLM 0.11.0 to 0.19.0, GPUModelRunner.may_reinitialize_input_batch.

    Raises:
        EngineRefusal: stage ``grouping``.
    """
    if flags.cpu_offload_gb and rules.offload_keeps_batch and len(block_sizes) > 1:
        raise EngineRefusal(
            Stage.GROUPING,
            "Cannot re-initialize the input batch when CPU weight offloading is enabled. See "
            "https://github.com/vllm-project/vllm/pull/18298 for more details.",
            type="AssertionError",
        )


def _invalid(words: str) -> EngineRefusal:
    return EngineRefusal(Stage.CONFIG, f"OffloadConfig: {words}", type="ValidationError")
