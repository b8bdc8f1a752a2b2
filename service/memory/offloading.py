"""Weights that lie in the host's memory: what of a rank's parameters the GPU does not hold."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from service.memory.budget_types import Basis, Estimate
from service.memory.interval import around, exact

Tensor: TypeAlias = tuple[str, int]
"""Path of a module below its layer, and its bytes."""
REPACKED: Final = 0.03
"""Share of the bytes by which repacking may change a moved tensor: assumed, no logged start shows it."""
SOURCE: Final = "vLLM 0.28.0, model_executor/offloader"


@dataclass(frozen=True, slots=True)
class Offload:
    """Which parameters of the decoder's layers are moved to the host."""

    max_bytes: int = 0
    """Parameters are moved one by one until these bytes are reached; for what is read over the bus (UVA)."""
    group_size: int = 0
    """Layers of a group, of which the last ones are moved whole and fetched ahead; 0: no groups."""
    moved_in_group: int = 1
    fetched_ahead: int = 1
    """Layers for which the GPU has room to fetch their parameters into."""
    names: frozenset[str] = frozenset()
    """Segments of names of the parameters to move; none moves all."""


def moved_bytes(
    layers: Sequence[Sequence[Tensor]], offload: Offload, *, quantized: bool, stays: bool
) -> Estimate:
    """Return the bytes that a rank's layers, in their order, leave free on the GPU.

    ``stays``: quantized weights are moved again once they were repacked; where they are not, they may all
    come back to the GPU.
    """
    found = _fetched(layers, offload) if offload.group_size else _by_budget(layers, offload)
    if not quantized:
        return found
    low = found.low * (1 - REPACKED) if stays else 0
    middle = found.bytes if stays else found.bytes / 2
    return around(middle, low, found.high, Basis.ASSUMED, f"{SOURCE}; quantized weights are repacked")


def host_bytes(layers: Sequence[Sequence[Tensor]], offload: Offload) -> Estimate:
    """Return the bytes of a rank's layers that lie in the host's memory: all that are moved, no buffers."""
    return (
        _fetched(layers, replace(offload, fetched_ahead=0))
        if offload.group_size
        else _by_budget(layers, offload)
    )


def _by_budget(layers: Sequence[Sequence[Tensor]], offload: Offload) -> Estimate:
    """Source: vLLM 0.28.0, offloader/uva.py UVAOffloader: the last parameter may go beyond the budget."""
    chosen = [tensor for layer in layers for tensor in layer if tensor[1]]
    sure = [size for name, size in chosen if _is_named(name, offload.names) is True]
    maybe = [size for name, size in chosen if _is_named(name, offload.names) is None]
    low = min(offload.max_bytes, sum(sure))
    whole = sum(sure) + sum(maybe)
    beyond = max((*sure, *maybe), default=0)
    high = min(offload.max_bytes + beyond, whole)
    return around(max(low, min(offload.max_bytes, whole)), low, high, Basis.COMPUTED, SOURCE)


def _fetched(layers: Sequence[Sequence[Tensor]], offload: Offload) -> Estimate:
    """Source: vLLM 0.28.0, offloader/prefetch.py PrefetchOffloader.wrap_modules and StaticBufferPool."""
    first = offload.group_size - offload.moved_in_group
    moved = [layer for index, layer in enumerate(layers) if index % offload.group_size >= first]
    sure = [_named(layer, offload.names, unsure=False) for layer in moved]
    most = [_named(layer, offload.names, unsure=True) for layer in moved]
    low, high = (_less_buffers(chosen, offload.fetched_ahead) for chosen in (sure, most))
    if low == high:
        return exact(low, Basis.COMPUTED, SOURCE)
    return around((low + high) / 2, min(low, high), max(low, high), Basis.ASSUMED, SOURCE)


def _named(layer: Iterable[Tensor], names: frozenset[str], *, unsure: bool) -> tuple[tuple[int, Tensor], ...]:
    """Return a layer's tensors that are moved, each with its place in the layer."""
    wanted = (True, None) if unsure else (True,)
    return tuple(
        (place, tensor) for place, tensor in enumerate(layer) if _is_named(tensor[0], names) in wanted
    )


def _less_buffers(layers: Iterable[tuple[tuple[int, Tensor], ...]], fetched_ahead: int) -> int:
    """Return the bytes of layers less those of buffers: one a name and shape for each layer fetched ahead."""
    moved = [tensor for layer in layers for tensor in layer]
    buffers = {(name or place, size) for place, (name, size) in moved}
    return sum(size for _, (_, size) in moved) - fetched_ahead * sum(size for _, size in buffers)


def _is_named(module: str, names: frozenset[str]) -> bool | None:
    """Whether a module's parameters are meant; ``None`` where only some of them may be.

    Source: vLLM 0.28.0, offloader: whole segments of ``mlp.experts.w2_weight`` are compared.
    """
    if not names or any(f".{name}." in f".{module}." for name in names):
        return True
    segments = {segment for name in names for segment in name.split(".")}
    own_parameter = any(segment not in _PATH_ONLY for segment in segments - set(module.split(".")))
    return None if own_parameter else False


_PATH_ONLY: Final = frozenset(
    {"mlp", "moe", "ffn", "self_attn", "attn", "experts", "shared_experts", "mixer"}
)
"""Segments that name modules and never parameters."""
