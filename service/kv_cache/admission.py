"""How many blocks a waiting request must find free before it is let in."""

from dataclasses import dataclass

from service.engines.rules import AdmissionGate
from service.kv_cache.grouping import LOCAL_KINDS
from service.kv_cache.groups import Group
from service.kv_cache.specs import AttentionSpec, CacheKind
from service.launch.serving import Serving
from service.units import ceil_div


@dataclass(frozen=True, slots=True)
class GroupAdmission:
    """What the gate asks of one group."""

    kind: str
    blocks: int


def admission_blocks(
    groups: tuple[Group, ...], serving: Serving, prompt_tokens: int
) -> tuple[GroupAdmission, ...]:
    """Return the blocks that one prompt must find free, group by group.

    Source: vLLM 0.19.0, KVCacheManager.can_fit_full_sequence; 0.20.2 to 0.32.0,
    SingleTypeKVCacheManager.get_num_blocks_to_allocate.
    """
    return tuple(GroupAdmission(group.kind, _blocks(group, serving, prompt_tokens)) for group in groups)


def _blocks(group: Group, serving: Serving, tokens: int) -> int:
    spec = group.spec
    if not isinstance(spec, AttentionSpec):
        return 1
    gate = serving.rules.admission
    if gate is AdmissionGate.CHUNK_BY_CHUNK:
        return ceil_div(min(tokens, serving.max_num_batched_tokens), spec.block_size)
    whole = ceil_div(ceil_div(tokens, serving.decode_context_parallel_size), spec.block_size)
    if gate is AdmissionGate.STARTUP_BOUND and spec.kind in LOCAL_KINDS:
        return min(whole, spec.blocks_per_request(serving.demand()))
    if spec.kind is not CacheKind.SLIDING_WINDOW or spec.sliding_window is None:
        return whole
    if gate is AdmissionGate.WINDOW_PLUS_CHUNK:
        held = min(tokens, spec.sliding_window + serving.max_num_batched_tokens)
        return ceil_div(held, spec.block_size)
    return whole
