"""The time of one step of the engine, in parts, and the least time that the hardware allows."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from service.speed.gpu_speed import GpuSpeed
from service.speed.multiplication import Precision
from service.speed.speed_constants import SpeedConstants
from service.speed.step_work import StepWork

MICROSECOND: Final = 1e-6
HALF_BYTES: Final = 2
ALL_REDUCES: Final = 2
"""Of one layer: after attention and after the network."""


class Bound(StrEnum):
    """What takes most of the time of a step."""

    MEMORY = "memory"
    """Reading weights and caches."""
    COMPUTE = "compute"
    """Multiplying matrices, prompts included."""
    COLLECTIVES = "collectives"
    """Exchanging between GPUs."""
    LAUNCHES = "launches"
    """Launching kernels, scheduling and sampling."""


@dataclass(frozen=True, slots=True)
class StepTime:
    """The time of one step in seconds: its parts, which add up, and a floor."""

    memory: float
    compute: float
    collectives: float
    launches: float
    floor: float
    """Bytes by the peak bandwidth, or operations by the peak of the tensor cores: no step is faster."""

    @property
    def seconds(self) -> float:
        """The expected time of the step."""
        return max(self.floor, self.memory + self.compute + self.collectives + self.launches)

    @property
    def bound(self) -> Bound:
        """The largest part."""
        parts = {
            Bound.MEMORY: self.memory,
            Bound.COMPUTE: self.compute,
            Bound.COLLECTIVES: self.collectives,
            Bound.LAUNCHES: self.launches,
        }
        return max(parts, key=lambda part: parts[part])


@dataclass(frozen=True, slots=True)
class StepClock:
    """What turns a batch into a time: the work of a rank, its GPU, and the constants of the release."""

    work: StepWork
    gpu: GpuSpeed
    constants: SpeedConstants
    max_num_batched_tokens: int
    eager: bool = False
    """Steps run without CUDA graphs."""
    slow_cache: bool = False
    """The attention backend reads the cache with kernels that are not native to the GPU."""
    unpacks_in_prompts: bool = False
    """Its kernels for prompts unpack the cache in software."""

    def step_time(self, batch: float, context: float, prefill: float = 0, prompt: float = 0) -> StepTime:
        """Return the time of a step of one engine.

        ``batch`` requests with ``context`` tokens each get one token. ``prefill`` tokens of prompts are
        computed beside them, which attend to half of ``prompt`` tokens on average.
        """
        decode = self._decode(batch, context)
        if not prefill:
            return decode
        chunk = min(prompt, self.max_num_batched_tokens)
        extra = self._prompt(prefill, prompt, prefill / chunk * self._experts_more(chunk, batch))
        return StepTime(
            memory=decode.memory,
            compute=decode.compute + extra.compute,
            collectives=decode.collectives + extra.collectives,
            launches=decode.launches,
            floor=decode.floor + extra.floor,
        )

    def prompt_time(self, prompt: float) -> StepTime:
        """Return the time in which one prompt is computed alone, in chunks of the batch limit."""
        chunks = max(1.0, prompt / self.max_num_batched_tokens)
        weights = self._bytes_of_weights(min(prompt, self.max_num_batched_tokens))
        alone = self._prompt(prompt, prompt, 0)
        reading = chunks * weights / self.gpu.bandwidth
        return StepTime(
            memory=max(0.0, reading / self.constants.memory_share - alone.compute),
            compute=alone.compute,
            collectives=alone.collectives + chunks * self._collective_latency(),
            launches=chunks * self._launches(),
            floor=max(alone.floor, reading),
        )

    def _decode(self, batch: float, context: float) -> StepTime:
        work, constants = self.work, self.constants
        tokens = batch * work.data_parallel_size
        routed = max(min(tokens, 1.0), tokens * constants.routed_share)
        weights = self._bytes_of_weights(routed)
        cache = batch * work.cache_bytes(context)
        slowed = cache / constants.fallback_cache_share if self.slow_cache else cache
        states = batch * work.state_bytes
        reading = (weights + slowed + states) / (self.gpu.bandwidth * constants.memory_share)
        peak = self._multiplied(batch, tokens) + self._attended(batch, context)
        computing = peak / constants.compute_share
        sequences = batch * constants.sequence_us * MICROSECOND
        return StepTime(
            memory=reading if reading >= computing else 0.0,
            compute=computing if computing > reading else 0.0,
            collectives=self._collective_latency() + batch * self._exchanged(),
            launches=self._launches() + sequences,
            floor=max((weights + cache + states) / self.gpu.bandwidth, peak),
        )

    def _prompt(self, tokens: float, prompt: float, more_bytes: float) -> StepTime:
        work, constants = self.work, self.constants
        attended = self._attended(tokens, prompt / 2)
        peak = self._multiplied(tokens, tokens * work.data_parallel_size, with_head=False) + attended
        unpacking = attended * (constants.unpacked_prompt_attention - 1) if self.unpacks_in_prompts else 0.0
        reading = more_bytes / (self.gpu.bandwidth * constants.memory_share)
        return StepTime(
            memory=0.0,
            compute=(peak + unpacking) / constants.prompt_share + reading,
            collectives=tokens * self._exchanged(),
            launches=0.0,
            floor=peak,
        )

    def _bytes_of_weights(self, tokens: float) -> float:
        work = self.work
        return work.dense_bytes + work.head_bytes + work.expert_bytes(tokens)

    def _experts_more(self, chunk: float, batch: float) -> float:
        """Return the bytes of experts that a chunk of a prompt touches beside those of the batch."""
        ranks = self.work.data_parallel_size
        routed = batch * ranks * self.constants.routed_share
        return self.work.expert_bytes(chunk * ranks + routed) - self.work.expert_bytes(routed)

    def _multiplied(self, tokens: float, of_all_ranks: float, *, with_head: bool = True) -> float:
        """Return the seconds of the matrices at the tensor peak."""
        work, peaks = self.work, self.gpu.operations
        dense = sum(count / peaks[precision] for precision, count in work.operations)
        head = work.head_operations / peaks[Precision.HALF] if with_head else 0.0
        experts = sum(each.operations / peaks[each.precision] for each in work.experts)
        return tokens * (dense + head) + of_all_ranks * experts

    def _attended(self, tokens: float, context: float) -> float:
        """Return the seconds of attention scores at the tensor peak."""
        each = sum(part.operations(context) for part in self.work.attention)
        return tokens * each / self.gpu.operations[Precision.HALF]

    def _launches(self) -> float:
        work, constants = self.work, self.constants
        layer = constants.eager_layer_us if self.eager else constants.layer_us
        each = work.layers * layer + work.expert_layers * constants.expert_layer_us
        stages = (work.pipeline_parallel_size - 1) * constants.stage_us
        return (each + stages) * constants.release_factor * MICROSECOND

    def _collective_latency(self) -> float:
        work, constants = self.work, self.constants
        if not work.exchanges:
            return 0.0
        joined = self.gpu.joins(work.exchanging_ranks)
        layer = constants.collective_us if joined else constants.bridge_collective_us
        return work.layers * layer * constants.release_factor * MICROSECOND

    def _exchanged(self) -> float:
        """Return the seconds in which the layers exchange the hidden states of one token."""
        work = self.work
        ranks = work.tensor_parallel_size
        if ranks == 1:
            return 0.0
        size = HALF_BYTES * work.hidden_size * 2 * (ranks - 1) / ranks
        return work.layers * ALL_REDUCES * size / (self.gpu.link(ranks) * self.constants.link_share)
