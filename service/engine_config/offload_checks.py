"""What the engine checks of weights in the host's memory."""

from collections.abc import Collection

from service.architecture.quantization import Quantization
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal, Stage
from service.engines.rules.batches import BatchRules
from service.engines.rules.checkpoints import CheckpointRules
from service.engines.rules.groups import GroupRules

PREFETCH = "prefetch"


def fetches(flags: ServeFlags) -> bool:
    """Whether layers are fetched ahead: groups win where the backend is left to the engine.

    Source: vLLM 0.17.0 to 0.32.0, model_executor/offloader/base.py create_offloader.
    """
    if flags.offload_backend == "auto":
        return flags.offload_group_size > 0
    return flags.offload_backend == PREFETCH


def offloads_blocks(flags: ServeFlags, rules: GroupRules) -> bool:
    """Whether blocks of the cache are stored in the host's memory too.

    Source: vLLM 0.11.1 to 0.32.0, VllmConfig._post_init_kv_transfer_config.
    """
    named = flags.kv_offloading_backend is not None or rules.offloading_needs_no_backend
    return flags.kv_offloading_size is not None and named


def keeps_hybrid_manager(flags: ServeFlags, rules: GroupRules) -> bool:
    """Whether layers of several kinds can share the pool beside what offloads blocks.

    Source: vLLM 0.11.1 to 0.32.0, VllmConfig.__post_init__: connectors without SupportsHMA turn it off.
    """
    if not offloads_blocks(flags, rules):
        return True
    return flags.kv_offloading_backend != "lmcache" and rules.offloading_keeps_hybrid_manager


def check_block_offloading(flags: ServeFlags, rules: GroupRules) -> None:
    """Refuse a backend without a size.

    Source: vLLM 0.11.1 to 0.13.0, VllmConfig._post_init_kv_transfer_config.

    Raises:
        EngineRefusal: stage ``config``.
    """
    backend = flags.kv_offloading_backend
    if backend is None or flags.kv_offloading_size is not None or rules.offloading_needs_no_backend:
        return
    words = "You must set kv_offloading_size when kv_offloading_backend is set."
    raise EngineRefusal(Stage.CONFIG, f"VllmConfig: Value error, {words}", type="ValidationError")


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


def check_online(stored: Quantization | None, flags: ServeFlags, rules: CheckpointRules) -> None:
    """Refuse to move weights to the host that get their data, quantized, only while they load.

    Source: vLLM 0.16.0 to 0.33.0, online/fp8.py create_weights (device meta) and UVAOffloader, which copies
    each parameter when its layer is built.

    Raises:
        EngineRefusal: stage ``model``.
    """
    moves = fetches(flags) or flags.cpu_offload_gb > 0
    named = flags.cpu_offload_params or flags.offload_params
    online = stored is None and flags.quantization in rules.online_quantization - {"bitsandbytes"}
    if moves and online and rules.online_on_meta and not named:
        raise EngineRefusal(
            Stage.MODEL,
            "Cannot copy out of meta tensor; no data!",
            type="NotImplementedError",
            detail="Weights that are quantized while they load have no data yet when their layers are built "
            "and would be moved to the host's memory. Leave one of the two out.",
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
