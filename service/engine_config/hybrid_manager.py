"""Whether layers of several kinds share the cache, each with its own, or all are treated as one kind."""

from service.architecture.layers.attention import Attention
from service.architecture.model import ModelArchitecture
from service.engine_config.speculation import Speculation
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal, Stage
from service.engines.rules.groups import GroupRules
from service.engines.rules.transfers import HybridBesideConnector, TransferRules
from service.engines.speculative_config import HIDDEN_STATE_METHODS


def keeps_several_kinds(
    architecture: ModelArchitecture,
    flags: ServeFlags,
    rules: GroupRules,
    transfers: TransferRules,
    drafted: Speculation | None,
) -> bool:
    """Whether the hybrid cache manager is on, which keeps a cache for each kind of layer.

    Source: vLLM 0.10.2 to 0.33.0, VllmConfig.__post_init__.

    Raises:
        EngineRefusal: it is asked for beside a connector that does not support it (stage ``cache_setup``).
    """
    if flags.disable_hybrid_kv_cache_manager:
        return False
    if not _beside_connector(flags, transfers):
        return False
    # Chunks do not go with hidden states for a draft.
    drafts = drafted is not None and drafted.method in HIDDEN_STATE_METHODS
    return (rules.chunks_keep_hybrid_manager and not drafts) or not _is_chunked(architecture)


def _is_chunked(architecture: ModelArchitecture) -> bool:
    mixers = (layer.mixer for layer in architecture.distinct_layers)
    return any(isinstance(mixer, Attention) and mixer.attention_chunk_size is not None for mixer in mixers)


def _beside_connector(flags: ServeFlags, rules: TransferRules) -> bool:
    """Whether the manager stays on beside the connector, if there is one."""
    if flags.kv_connector is None:
        return True
    asked = flags.disable_hybrid_kv_cache_manager is False
    supported = flags.kv_connector in rules.hybrid_connectors
    if rules.hybrid_manager is HybridBesideConnector.NEVER:
        return False
    if asked and not supported:
        words = rules.unsupported_refusal.format(connector=flags.kv_connector)
        raise EngineRefusal(Stage.CACHE_SETUP, words, type="ValueError")
    return asked or (supported and rules.hybrid_manager is HybridBesideConnector.WHEN_SUPPORTED)
