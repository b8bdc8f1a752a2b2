"""What `llama-server` does with a model on GPUs of one type."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from service.engine_plans.engine_plan import (
    LLAMA_CPP,
    BudgetTerm,
    CacheFigures,
    EnginePlan,
    EngineRefused,
    Unused,
    not_modelled,
)
from service.engine_plans.engine_question import EngineRoom
from service.llama_cpp.builds import Build
from service.llama_cpp.compute_buffer import compute_buffer
from service.llama_cpp.context import resolve_context
from service.llama_cpp.device_layout import DeviceLayout, layer_split
from service.llama_cpp.largest_context import STEP, CacheDemand, cache_demand, largest_context
from service.llama_cpp.llama_source import LlamaSource
from service.llama_cpp.log_lines import CacheLog
from service.llama_cpp.model_layers import LlamaModel, NotConverted, UnmodelledLayers
from service.llama_cpp.server_flags import FlashAttention, ServerFlags, SplitMode
from service.memory.budget_types import Estimate
from service.memory.interval import difference
from service.units import MIB

CELLS_ARE: Final = "cells of the context (n_ctx), shared by all slots if they are unified"
_HOST_NOTE: Final = (
    "{} of {} layers, the output counted as one, do not fit and run on the host, which is many times slower"
)
DEFAULTS: Final = ServerFlags()
MARGINAL_STEPS: Final = 1 << 15
"""Cells over which the bytes of one more cell are found."""


@dataclass(frozen=True, slots=True)
class LlamaQuestion:
    """What `llama-server` is asked: GPUs, a model, and its own flags."""

    asked: EngineRoom
    source: LlamaSource
    flags: ServerFlags
    build: Build
    version: str


def plan_llama_cpp(question: LlamaQuestion) -> EnginePlan:
    """Return what the server does."""
    asked, flags = question.asked, question.flags
    devices = 1 if flags.split_mode is SplitMode.NONE else asked.device.count
    try:
        model = question.source.model()
        layout = layer_split(len(model.layers), _shares(flags, devices), flags.n_gpu_layers)
        return _Server(question, model, layout).plan()
    except UnmodelledLayers as reason:
        return not_modelled(LLAMA_CPP, question.version, devices, _command(question), str(reason))
    except (EngineRefused, NotConverted) as refusal:
        given = asked.given_budget() or asked.device.free(several=False)
        return EnginePlan(
            LLAMA_CPP,
            question.version,
            devices,
            _command(question),
            given,
            (),
            None,
            None,
            None,
            str(refusal),
        )


@dataclass(frozen=True, slots=True)
class _Server:
    question: LlamaQuestion
    model: LlamaModel
    layout: DeviceLayout

    def plan(self) -> EnginePlan:
        """Return the plan; a context that is not created raises."""
        asked = self.question.asked
        terms = tuple(self._terms())
        weights = [term.estimate for term in terms if term.name.endswith("model buffer")]
        room = asked.given_budget()
        if room is None:
            free = asked.device.free(several=False)
            room = difference(free, weights, "free memory less the weights of the fullest device")
        figures, refusal = self._at(room.bytes)
        least, _ = self._at(room.low)
        most, _ = self._at(room.high)
        return EnginePlan(
            LLAMA_CPP,
            self.question.version,
            self.layout.devices,
            _command(self.question),
            room,
            terms,
            figures,
            least,
            most,
            refusal,
            notes=(*self._notes(), *(() if figures is None else figures.notes)),
        )

    def _terms(self) -> Iterator[BudgetTerm]:
        asked = self.question.asked
        if asked.cache_bytes is not None:
            return
        yield BudgetTerm("device memory", asked.device.total)
        weights = self.question.source.weights(self.layout)
        yield BudgetTerm("model buffer", max(weights, key=lambda each: each.bytes))
        demand = self._demand(self.question.flags)
        yield BudgetTerm("compute buffer", self._compute(demand))

    def _demand(self, flags: ServerFlags) -> CacheDemand:
        return cache_demand(self.model, flags, self.question.build, self.layout)

    def _compute(self, demand: CacheDemand) -> Estimate:
        return compute_buffer(*self.question.source.ends(), demand.context, demand.caches)

    def _at(self, room: int) -> tuple[CacheFigures | None, str | None]:
        """Return the figures where the fullest device has some bytes beside its weights, or the refusal."""
        flags, given = self.question.flags, self.question.asked.cache_bytes is not None
        if flags.ctx_size is None and flags.fit and not given:
            return self._fitted(room)

        def fits(demand: CacheDemand) -> bool:
            buffer = 0 if given else self._compute(demand).bytes
            return max(demand.device_bytes, default=0) + buffer <= room

        if flags.ctx_size is None and given:
            demand = largest_context(self.model, flags, self.question.build, self.layout, fits)
        else:
            asked = self._demand(replace(flags, ctx_size=flags.ctx_size or 0))
            demand = asked if fits(asked) else None
        if demand is not None:
            return self.figures(demand, room), None
        if flags.fit and not given:
            free = room + max(each.bytes for each in self.question.source.weights(self.layout))
            return self._with_layers_on_host(flags.ctx_size or 0, free - flags.fit_target * MIB, room)
        return None, self._out_of_memory(replace(flags, ctx_size=flags.ctx_size or flags.fit_ctx))

    def _out_of_memory(self, flags: ServerFlags) -> str:
        sizes = self._demand(flags).device_bytes
        return (
            f"allocating {max(sizes, default=0) / MIB:.2f} MiB on device {sizes.index(max(sizes))}: "
            "cudaMalloc failed: out of memory; failed to allocate buffer for kv cache"
        )

    def _fitted(self, room: int) -> tuple[CacheFigures | None, str | None]:
        """Return the figures of the context that `--fit` chooses.

        Source: llama.cpp 0c1e57098, common/fit.cpp: the whole context if every device keeps the margin; else
        one between the least and the whole context, by the bytes of all devices together; else the least
        context, with fewer layers on devices. Layers are moved where one of several devices is short.
        """
        flags, devices = self.question.flags, self.layout.devices
        weights = [each.bytes for each in self.question.source.weights(self.layout)]
        free, margin = room + max(weights), flags.fit_target * MIB
        streams = resolve_context(replace(flags, ctx_size=STEP), self.model, self.question.build).streams
        most, least = self.model.context_length * streams, flags.fit_ctx * streams
        whole, sizes = self.use(most)
        if max(sizes) + margin <= free or sum(sizes) + devices * margin <= devices * free:
            return self.figures(whole, room), None
        smallest, smallest_sizes = self.use(min(least, most))
        target = devices * (free - margin)
        if devices > 1:
            layers = len(self.model.layers)
            target -= (devices + 1) * (sum(weights) // layers) // (6 if self.model.has_experts else 2)
        if most > least and target > sum(smallest_sizes):
            grown = sum(sizes) - sum(smallest_sizes)
            cells = least + (most - least) * (target - sum(smallest_sizes)) // grown
            fitted, _ = self.use(max(cells - cells % (STEP * streams), least))
            return self.figures(fitted, room), None
        return self._with_layers_on_host(smallest.context.n_ctx, free - margin, room)

    def use(self, cells: int) -> tuple[CacheDemand, list[int]]:
        """Return what a context takes, and the bytes of everything on each device."""
        demand = self._demand(replace(self.question.flags, ctx_size=cells))
        buffer = self._compute(demand).bytes
        weights = self.question.source.weights(self.layout)
        sizes = [each.bytes + size for each, size in zip(weights, demand.device_bytes, strict=True)]
        return demand, [size + buffer for size in sizes]

    def _with_layers_on_host(
        self, cells: int, free: int, room: int
    ) -> tuple[CacheFigures | None, str | None]:
        """Return the figures with as many layers on devices as fit; the others run on the host."""
        flags, layers = self.question.flags, len(self.model.layers)
        shares = _shares(flags, self.layout.devices)
        for gpu_layers in range(layers, -1, -1) if flags.n_gpu_layers is None else ():
            server = replace(self, layout=layer_split(layers, shares, gpu_layers))
            demand, sizes = server.use(cells)
            if max(sizes) <= free:
                return server.figures(demand, room, layers - gpu_layers + 1), None
        return None, self._out_of_memory(replace(flags, ctx_size=cells))

    def figures(self, demand: CacheDemand, room: int, on_host: int = 0) -> CacheFigures:
        """Return the figures of a context; ``on_host``: layers that no device holds."""
        context, asked = demand.context, self.question.asked
        longest = min(context.n_ctx_seq, self.model.context_length or context.n_ctx_seq)
        return CacheFigures(
            tokens=context.n_ctx,
            tokens_are=f"{CELLS_ARE}; {on_host} layers are on the host" if on_host else CELLS_ARE,
            longest_request=longest,
            longest_prompt=longest - 1,
            requests=None if asked.request_tokens is None else _at_once(demand, asked.request_tokens),
            cache_bytes=demand.device_bytes,
            bytes_per_token=self._marginal_bytes(demand),
            unused=tuple(self._unused(demand, room)),
            log_lines=CacheLog(self.model, demand, self.layout, self.question.build).lines(),
            notes=(_HOST_NOTE.format(on_host, len(self.model.layers) + 1),) if on_host else (),
        )

    def _marginal_bytes(self, demand: CacheDemand) -> int:
        """Return the bytes of one more cell, on all devices."""
        context = demand.context
        more = replace(self.question.flags, ctx_size=context.n_ctx + MARGINAL_STEPS * context.streams)
        cells = MARGINAL_STEPS * context.streams
        # Windows that are not full yet grow too in a small context: the larger of two contexts has none.
        larger = replace(more, ctx_size=(more.ctx_size or 0) + cells)
        grown = self._demand(larger).caches.total_bytes - self._demand(more).caches.total_bytes
        return grown // cells

    def _unused(self, demand: CacheDemand, room: int) -> Iterator[Unused]:
        context = demand.context
        alone = replace(self.question.flags, ctx_size=context.n_ctx_seq, parallel=1, kv_unified=False)
        others = demand.caches.total_bytes - self._demand(alone).caches.total_bytes
        if others > 0:
            yield Unused("cells and states of other slots, and their windows", others)
        if self.question.asked.cache_bytes is not None:
            left = sum(max(0, room - size) for size in demand.device_bytes)
            if left:
                yield Unused("left free on devices, as layers and steps of 256 cells do not fill them", left)

    def _notes(self) -> Iterator[str]:
        if self.question.asked.cache_bytes is None:
            yield "the compute buffer is assumed: llama.cpp finds it by building its graph"
            yield self.question.source.note()
        if self.layout.layers_on(None):
            yield f"{len(self.layout.layers_on(None))} layers stay in the host's memory"
        if any(layer.compress_ratio for layer in self.model.layers):
            yield "caches of compressed groups were read in the source, not run"


def _shares(flags: ServerFlags, devices: int) -> tuple[float, ...]:
    """Return the share of each device: `-ts` has one for devices that there are not too, or lacks some."""
    given = (*flags.tensor_split, *(0.0,) * devices)[:devices]
    return given if any(given) else (1.0,) * devices


def _at_once(demand: CacheDemand, tokens: int) -> int:
    context = demand.context
    if tokens > context.n_ctx_seq:
        return 0
    return min(context.n_seq_max, context.n_ctx // tokens) if context.unified else context.n_seq_max


def _command(question: LlamaQuestion) -> str:
    return shlex.join(("llama-server", *server_words(question)))


def server_words(question: LlamaQuestion) -> Iterator[str]:
    """Yield the words behind `llama-server`, by the server's own short names."""
    flags = question.flags
    yield from question.source.words()
    for name, value, default in (
        ("-c", flags.ctx_size, None),
        ("-np", flags.parallel, None),
        ("-ngl", flags.n_gpu_layers, None),
        ("-ctk", flags.cache_type_k, DEFAULTS.cache_type_k),
        ("-ctv", flags.cache_type_v, DEFAULTS.cache_type_v),
        ("-fa", flags.flash_attn, FlashAttention.AUTO),
        ("-b", flags.batch_size, DEFAULTS.batch_size),
        ("-ub", flags.ubatch_size, DEFAULTS.ubatch_size),
        ("-sm", flags.split_mode, SplitMode.LAYER),
        ("-ts", ",".join(f"{share:g}" for share in flags.tensor_split), ""),
        ("--fit", "on" if flags.fit else "off", "on"),
    ):
        if value != default:
            yield from (name, str(value))
    if flags.swa_full:
        yield "--swa-full"
    if flags.kv_unified is not None:
        yield "-kvu" if flags.kv_unified else "-no-kvu"
    if not flags.kv_offload:
        yield "--no-kv-offload"
