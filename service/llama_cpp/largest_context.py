"""The largest context whose caches fit the devices."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from service.llama_cpp.builds import Build
from service.llama_cpp.caches import LlamaCaches, caches_of
from service.llama_cpp.compressed_caches import compressed_caches, compresses
from service.llama_cpp.context import LlamaContext, resolve_context
from service.llama_cpp.device_layout import DeviceLayout
from service.llama_cpp.model_layers import LlamaModel
from service.llama_cpp.server_flags import ServerFlags, SplitMode

STEP: Final = 256
"""Cells by which `--fit` and this search change a context; every build pads to a divisor of it."""


@dataclass(frozen=True, slots=True)
class CacheDemand:
    """A context with its caches, and what they take."""

    context: LlamaContext
    caches: LlamaCaches
    device_bytes: tuple[int, ...]
    """Bytes of the caches on each device."""
    host_bytes: int


def cache_demand(model: LlamaModel, flags: ServerFlags, build: Build, layout: DeviceLayout) -> CacheDemand:
    """Return what a server with these flags allocates for its caches.

    Raises:
        EngineRefused: llama.cpp does not create such a context.
    """
    context = resolve_context(flags, model, build)
    build_caches = compressed_caches if compresses(model) else caches_of
    caches = build_caches(model, context, build)
    if not flags.kv_offload:
        return CacheDemand(context, caches, (0,) * layout.devices, caches.total_bytes)
    if flags.split_mode is SplitMode.TENSOR:
        # Heads of every layer are divided over the devices.
        return CacheDemand(context, caches, (-(-caches.total_bytes // layout.devices),) * layout.devices, 0)
    sizes = tuple(caches.bytes_of(layout.layers_on(device)) for device in range(layout.devices))
    return CacheDemand(context, caches, sizes, caches.bytes_of(layout.layers_on(None)))


def largest_context(
    model: LlamaModel,
    flags: ServerFlags,
    build: Build,
    layout: DeviceLayout,
    fits: Callable[[CacheDemand], bool],
) -> CacheDemand | None:
    """Return the demand of the largest context that fits; ``None`` where not even the smallest does.

    The context of one sequence is not larger than the model's training length. ``fits`` must be monotonic: a
    smaller context than one that fits also fits.

    Raises:
        EngineRefused: llama.cpp does not create such a context, of any size.
    """
    start = resolve_context(replace(flags, ctx_size=STEP), model, build)
    streams = start.streams
    most = max(1, -(-model.context_length // STEP)) if model.context_length else 1 << 20

    def demand(steps: int) -> CacheDemand:
        return cache_demand(model, replace(flags, ctx_size=steps * STEP * streams), build, layout)

    best, low, high = None, 1, most
    while low <= high:
        middle = (low + high) // 2
        found = demand(middle)
        if fits(found):
            best, low = found, middle + 1
        else:
            high = middle - 1
    return best
