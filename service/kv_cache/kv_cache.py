"""What the engine would make of a rank's cache memory."""

from dataclasses import dataclass, field

from service.engine_config.engine_config import RequestDemand
from service.kv_cache.groups import Group


@dataclass(frozen=True, slots=True)
class CacheGroup:
    """Layers that share one block table."""

    kind: str
    """Kind of its layers' caches: a ``CacheKind``."""
    layers: int
    """Layers on this stage."""
    block_size: int
    """Tokens of one block."""
    page_size_bytes: int
    """Bytes of one block of one layer, padding included (of all layers together for ``uniform_type``)."""
    unpadded_page_size_bytes: int
    blocks_per_request: int
    """Blocks that one request of the maximum length takes from the pool."""

    @classmethod
    def of(cls, group: Group, demand: RequestDemand) -> "CacheGroup":
        """Return a group with the blocks of one request."""
        return cls(
            kind=group.kind,
            layers=group.num_layers,
            block_size=group.spec.block_size,
            page_size_bytes=group.page_size,
            unpadded_page_size_bytes=group.unpadded_page_size,
            blocks_per_request=group.blocks_per_request(demand),
        )


@dataclass(frozen=True)
class KvCache:
    """Blocks, tokens and concurrency of the smallest rank, as the release counts them."""

    available_bytes: int
    num_blocks: int
    bytes_per_block: int
    """Bytes that one block id costs across all layers of a rank, on the first pipeline stage."""
    largest_bytes_per_block: int
    """The same on the stage where it costs most."""
    tokens: int
    """What the release logs as "GPU KV cache size"; its meaning changed over time."""
    max_concurrency: float
    """Requests of ``max_model_len`` tokens that fit at once, unrounded."""
    max_model_len: int
    estimated_max_model_len: int
    """The longest context that one request can have, up to ``max_model_len``."""
    blocks_per_request: int
    """Blocks of one request of the maximum length, as the release counts them for ``max_concurrency``."""
    stage: tuple[Group, ...] = field(repr=False)
    """What the first pipeline stage holds of each group."""
    demand: RequestDemand = field(repr=False)
    """A request of the maximum length."""
    report_lines: tuple[str, ...]
    """The release's sentences about it, to be filled in."""
    max_model_len_low: int | None = None
    """``max_model_len`` with the least memory that may be left, where the engine fits it to the memory."""
    max_model_len_high: int | None = None
    """The same with the most."""

    @property
    def groups(self) -> tuple[CacheGroup, ...]:
        """As the first pipeline stage holds them."""
        return tuple(CacheGroup.of(group, self.demand) for group in self.stage)

    @property
    def log_lines(self) -> tuple[str, ...]:
        """What the release prints about it."""
        return tuple(
            line.format(tokens=self.tokens, length=self.max_model_len, concurrency=self.max_concurrency)
            for line in self.report_lines
        )
