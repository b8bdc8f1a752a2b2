"""Blocks that one request takes of each group: for admission, prefill and decode."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, overload

from service.engine_config.engine_config import EngineConfig
from service.engine_config.state_caching import ALIGN
from service.engines.rules.admission import AdmissionGate
from service.kv_cache.grouping import LOCAL_KINDS
from service.kv_cache.groups import Group
from service.kv_cache.specs import (
    AttentionSpec,
    CacheKind,
    LayerSpec,
    StateSpec,
)
from service.units import ceil_div

RESOLVED: Final = 3
"""Tokens of an answer after which blocks of the prompt outside every window have been given back."""
WRITTEN_AHEAD: Final = frozenset(CacheKind) - {
    CacheKind.CROSS_ATTENTION,
    CacheKind.CIRCULAR_BUFFER,
    CacheKind.MAMBA,
}
"""Kinds of caches with a place for every draft token; a recurrent state has pages of its own for them."""
COUNTED: Final = 64
"""Steps looked at from each end of a prompt, and ends of chunks: between them, blocks rise or repeat."""
ALIGNED_STATES: Final = 2
"""States of one request where those at the ends of blocks are stored, checkpoints inside a chunk aside."""


@dataclass(frozen=True, slots=True)
class GroupAdmission:
    """What one request takes of one group."""

    kind: CacheKind
    counted_tokens: int
    """Tokens of the prompt that the release's gate counts."""
    blocks: int
    """Blocks that must be free before the request is let in."""
    whole_prompt_blocks: int
    """Blocks of the whole prompt: what a gate without a cap asks for."""
    blocks_after_prefill: int
    """Blocks held once the prompt has been read."""
    peak_decode_blocks: int
    """Most blocks held while the answer is written."""


@dataclass(frozen=True, slots=True)
class RequestAdmission:
    """One request as the scheduler meets it: read chunk by chunk, answered token by token."""

    groups: tuple[GroupAdmission, ...]
    peak_prefill_blocks: int
    """Most blocks of all groups together that are held until the answer has begun."""
    states_left_behind: int
    """Of the blocks held, states of the prompt that are not given back before the request ends."""

    @property
    def blocks(self) -> int:
        """Blocks that must be free before the request is let in."""
        return sum(group.blocks for group in self.groups)

    @property
    def whole_prompt_blocks(self) -> int:
        """Blocks that a gate without a cap on windows asks for."""
        return sum(group.whole_prompt_blocks for group in self.groups)

    @property
    def blocks_after_prefill(self) -> int:
        """Blocks held once the prompt has been read."""
        return sum(group.blocks_after_prefill for group in self.groups)

    @property
    def peak_decode_blocks(self) -> int:
        """Most blocks held while the answer is written."""
        return sum(group.peak_decode_blocks for group in self.groups)

    def at_once(self, free_blocks: int) -> int:
        """Return the requests let in, one prompt after the other, before one finds too few blocks free."""
        return self._let_in(free_blocks, self.blocks, self.blocks_after_prefill)

    def at_once_uncapped(self, free_blocks: int) -> int:
        """Return the same for a gate that needs blocks for the whole prompt of windowed layers too."""
        return self._let_in(free_blocks, self.whole_prompt_blocks, self.blocks_after_prefill)

    def to_the_end(self, free_blocks: int) -> int:
        """Return the requests that stay together until all are answered: none is put off for another."""
        return self._let_in(free_blocks, max(self.blocks, self.peak_decode_blocks), self.peak_decode_blocks)

    def _let_in(self, free_blocks: int, gate: int, held: int) -> int:
        needed = max(gate, self.peak_prefill_blocks)
        return 0 if needed > free_blocks else 1 + (free_blocks - needed) // max(1, held)


def admit(
    groups: tuple[Group, ...],
    engine_config: EngineConfig,
    max_model_len: int,
    prompt_tokens: int,
    output_tokens: int,
) -> RequestAdmission:
    """Return what one request takes if no prefix of it is cached, and no draft token is accepted.

    With draft tokens accepted it takes as many blocks or fewer: an answer ends in fewer steps.

    Source: vLLM 0.19.0, KVCacheManager.can_fit_full_sequence; 0.20.0 to 0.33.0,
    SingleTypeKVCacheManager.get_num_blocks_to_allocate and remove_skipped_blocks; Scheduler.schedule.
    """
    started = prompt_steps(
        groups, engine_config, prompt_tokens, max(0, min(RESOLVED, max_model_len - prompt_tokens))
    )
    specs = dict.fromkeys(group.spec for group in groups)
    uses = {spec: _Use(spec, engine_config, max_model_len, prompt_tokens, started) for spec in specs}
    # The answer's last token is never written, so one of a single token takes no step of its own.
    last = min(prompt_tokens + output_tokens, max_model_len) - 2
    peak = max(
        sum(uses[group.spec].reading(number) for group in groups)
        for number in _telling(started, specs, engine_config)
    )
    counts = tuple(uses[group.spec].admission(group.kind, last) for group in groups)
    left = sum(uses[group.spec].left_behind(len(started) - 1) for group in groups)
    return RequestAdmission(counts, peak, left)


@dataclass(frozen=True, slots=True)
class PromptSteps(Sequence[int]):
    """How far a prompt has been read, and the answer begun, after each step."""

    chunks: range
    """After each step that reads as much as a step may."""
    rest: tuple[int, ...]
    """After the others."""

    def __len__(self) -> int:
        """Return the number of steps."""
        return len(self.chunks) + len(self.rest)

    @overload
    def __getitem__(self, number: int) -> int: ...

    @overload
    def __getitem__(self, number: slice) -> tuple[int, ...]: ...

    def __getitem__(self, number: int | slice) -> int | tuple[int, ...]:
        """Return the tokens after a step, or after some steps."""
        if isinstance(number, slice):
            return tuple(self[each] for each in range(*number.indices(len(self))))
        if number < len(self.chunks):
            return self.chunks[number]
        return self.rest[number - len(self.chunks)]


def prompt_steps(
    groups: tuple[Group, ...], engine_config: EngineConfig, prompt_tokens: int, answer_tokens: int = 0
) -> PromptSteps:
    """Return the steps in which a prompt is read, and those of some tokens of the answer.

    Where states are stored at the ends of blocks, a step reads whole blocks, and the last block alone what is
    left. Source: vLLM 0.24.0, Scheduler._mamba_block_aligned_split.
    """
    chunk, whole = engine_config.max_num_batched_tokens, prompt_tokens
    blocks = {group.spec.block_size for group in groups if isinstance(group.spec, StateSpec)}
    if engine_config.mamba_cache_mode == ALIGN and blocks:
        block = max(blocks)
        chunk = chunk // block * block or chunk
        whole = prompt_tokens // block * block or prompt_tokens
    ends = {whole, *range(whole + chunk, prompt_tokens, chunk), prompt_tokens}
    answer = range(prompt_tokens + 1, prompt_tokens + answer_tokens + 1)
    return PromptSteps(range(chunk, whole, chunk), (*sorted(ends), *answer))


def _telling(steps: PromptSteps, specs: Iterable[LayerSpec], engine_config: EngineConfig) -> set[int]:
    """Return the steps one of which holds the most blocks: at both ends, and before a chunk is given back."""
    numbers = range(len(steps))
    found = {*numbers[:COUNTED], *numbers[-COUNTED:]}
    for spec in specs:
        if isinstance(spec, AttentionSpec) and spec.attention_chunk_size is not None:
            ends = range(spec.attention_chunk_size, steps.chunks.stop, spec.attention_chunk_size)[-COUNTED:]
            last = (ceil_div(end, steps.chunks.step) - 1 + engine_config.batches_behind for end in ends)
            found.update(number for number in last if number in numbers)
    return found


@dataclass(frozen=True, slots=True)
class _Use:
    """What one request does with the blocks of a group."""

    spec: LayerSpec
    engine_config: EngineConfig
    max_model_len: int
    prompt_tokens: int
    steps: PromptSteps

    @property
    def block(self) -> int:
        """Tokens of one block over all ranks that share a request."""
        shares = isinstance(self.spec, AttentionSpec) and self.spec.kind is not CacheKind.CROSS_ATTENTION
        return self.spec.block_size * (self.engine_config.decode_context_parallel_size if shares else 1)

    @property
    def keeps_ends(self) -> bool:
        """Whether recurrent states are stored at the ends of blocks."""
        return isinstance(self.spec, StateSpec) and self.engine_config.mamba_cache_mode == ALIGN

    def admission(self, kind: CacheKind, last: int) -> GroupAdmission:
        """Return the counts of a group; ``last`` is the place of the answer's last token but one."""
        return GroupAdmission(
            kind=kind,
            counted_tokens=self.counted_tokens(),
            blocks=self.gate(),
            whole_prompt_blocks=self.gate() if self.keeps_ends else self.whole(self.prompt_tokens),
            blocks_after_prefill=self.reading(len(self.steps) - 1),
            peak_decode_blocks=max(map(self.answering, self.turning_points(last)), default=self.unanswered()),
        )

    def counted_tokens(self) -> int:
        """Return the tokens of the prompt that the gate counts."""
        spec, engine_config = self.spec, self.engine_config
        if spec.kind is CacheKind.CROSS_ATTENTION:
            return engine_config.encoder_request_tokens
        gate, batch = engine_config.rules.admission.gate, engine_config.max_num_batched_tokens
        counted = self.prompt_tokens
        if gate is AdmissionGate.CHUNK_BY_CHUNK:
            counted = self.steps[0]
        elif gate is AdmissionGate.STARTUP_BOUND and isinstance(spec, AttentionSpec):
            counted = spec.retained_tokens(engine_config.demand(self.max_model_len))
        elif gate is AdmissionGate.WINDOW_PLUS_CHUNK and isinstance(spec, AttentionSpec) and spec.is_windowed:
            counted = (spec.sliding_window or 0) + batch
        return min(counted, self.prompt_tokens)

    def gate(self) -> int:
        """Return the blocks that must be free before the request is let in."""
        spec, engine_config = self.spec, self.engine_config
        if isinstance(spec, StateSpec) and self.keeps_ends:
            return 1 + self.checkpoints(0, self.prompt_tokens) + spec.speculative_pages
        if engine_config.rules.admission.gate is AdmissionGate.STARTUP_BOUND and spec.kind in LOCAL_KINDS:
            bound = spec.blocks_per_request(engine_config.demand(self.max_model_len))
            return min(self.whole(self.prompt_tokens), bound)
        return self.whole(self.counted_tokens())

    def whole(self, tokens: int) -> int:
        """Return the blocks of so many tokens, had none been given back."""
        if self.spec.kind is CacheKind.CIRCULAR_BUFFER:
            return 1
        if self.spec.kind is CacheKind.CROSS_ATTENTION:
            tokens = self.engine_config.encoder_request_tokens
        drafted = self.spec.speculative_pages if isinstance(self.spec, StateSpec) else 0
        return ceil_div(tokens, self.block) + drafted

    def reading(self, number: int) -> int:
        """Return the blocks held once there is room for a step."""
        if self.keeps_ends:
            return self._states_retained(number)
        tokens = self.steps[number]
        places = self._places(tokens, first=number == 0)
        read = self._read(number - self.engine_config.batches_behind) + self._unchecked(tokens)
        return self.whole(places) - self.given_back(read)

    def _places(self, tokens: int, *, first: bool = False) -> int:
        """Return the places of a step that leaves ``tokens`` ones, with those for draft tokens.

        A step checks the tokens drafted before, and the draft writes to the cache as many more. The tokens
        that are checked end one before the longest request does, and what the draft writes ends with it.

        Source: vLLM 0.19.0 to 0.33.0, Scheduler.schedule and AsyncScheduler._update_after_schedule, played
        for one request without a model.
        """
        scheduled = max(tokens, min(tokens + self._checked(tokens), self.max_model_len - 1))
        return min(scheduled + self._ahead(tokens, first=first), self.max_model_len)

    def _checked(self, tokens: int) -> int:
        """Return the draft tokens of a step of the answer.

        While another step is in flight, whose tokens may all be accepted, the tokens of both have places.
        """
        speculation = self.engine_config.speculation
        if speculation is None or self.spec.kind not in WRITTEN_AHEAD or tokens <= self.prompt_tokens:
            return 0
        return speculation.tokens * (2 if self._follows_drafts(tokens) else 1)

    def _ahead(self, tokens: int, *, first: bool = False) -> int:
        """Return the places after those of a step that the draft writes to."""
        speculation = self.engine_config.speculation
        if speculation is None or self.spec.kind not in WRITTEN_AHEAD:
            return 0
        in_prompt = first and tokens <= self.prompt_tokens
        late = in_prompt and not self.engine_config.rules.admission.first_chunk_lookahead
        return 0 if late else speculation.lookahead

    def _follows_drafts(self, tokens: int) -> bool:
        """Whether a step of the answer is scheduled while one that checks draft tokens is in flight."""
        return self.engine_config.concurrent_batches > 1 and tokens > self.prompt_tokens + 1

    def _unchecked(self, tokens: int) -> int:
        """Return the draft tokens in flight that a release takes for computed when it gives blocks back."""
        speculation, behind = self.engine_config.speculation, self.engine_config.batches_behind
        if speculation is None or behind or not self._follows_drafts(tokens):
            return 0
        return speculation.tokens

    def unanswered(self) -> int:
        """Return the blocks held where the answer is one token: those of the prompt still seen."""
        last = len(self.steps) - 1
        answered = sum(tokens > self.prompt_tokens for tokens in self.steps[-RESOLVED:])
        return min(self.reading(max(0, last - answered)), self.reading(last))

    def _read(self, number: int) -> int:
        """Return the tokens that are there before a step."""
        return self.steps[number - 1] if number > 0 else 0

    def answering(self, written: int) -> int:
        """Return the blocks held once there is room for a token of the answer; ``written`` are before it."""
        places = self._places(written + 1)
        read = written - self.engine_config.batches_behind + self._unchecked(written + 1)
        return self.whole(places) - self.given_back(read) + self.left_behind(len(self.steps) - 1)

    def given_back(self, computed: int) -> int:
        """Return the blocks that no token after the first ``computed`` ones looks at."""
        spec, computed = self.spec, max(0, computed)
        if isinstance(spec, StateSpec):
            passed = computed - 1
        elif spec.is_windowed and spec.sliding_window is not None:
            retained = self.engine_config.demand(self.max_model_len).retained_tokens
            passed = computed - spec.sliding_window + 1 - retained
        elif spec.kind is CacheKind.CHUNKED_LOCAL_ATTENTION and spec.attention_chunk_size is not None:
            passed = computed // spec.attention_chunk_size * spec.attention_chunk_size
        else:
            return 0
        return max(0, passed) // self.block

    def turning_points(self, last: int) -> tuple[int, ...]:
        """Return places in the answer, one of which holds the most blocks."""
        first, block = self.prompt_tokens, self.block
        # Blocks begin at multiples of their size: what a window holds there never falls.
        drafted = self._checked(last + 1) + self._ahead(last + 1)
        points = {first, last, (last + drafted) // block * block - drafted}
        if isinstance(self.spec, AttentionSpec) and self.spec.attention_chunk_size is not None:
            ends = range(self.spec.attention_chunk_size, last + 1, self.spec.attention_chunk_size)[-COUNTED:]
            points.update(end - 1 + self.engine_config.batches_behind for end in ends)
        return tuple(sorted(point for point in points if first <= point <= last))

    def _states_retained(self, number: int) -> int:
        """Return the states held at a step while the ends of blocks keep theirs."""
        behind = self.engine_config.batches_behind
        checkpoints = sum(
            self.checkpoints(self._read(step), self.steps[step])
            for step in range(max(0, number - behind), number + 1)
        )
        drafted = self.spec.speculative_pages if isinstance(self.spec, StateSpec) else 0
        oldest = max(0, number - 1 - behind)
        recent = {ceil_div(end, self.spec.block_size) for end in self.steps[oldest : number + 1]}
        return len(recent) + self.left_behind(oldest) + checkpoints + drafted

    def left_behind(self, number: int) -> int:
        """Return the states of earlier steps that are never given back: those with a gap after them."""
        if not (
            self.keeps_ends
            and self.engine_config.batches_behind
            and self.engine_config.rules.admission.states_pile_up
        ):
            return 0
        block, regular = self.spec.block_size, min(number, len(self.steps.chunks) - 1)
        leaps = max(0, regular) if self.steps.chunks.step > block else 0
        later = [ceil_div(end, block) for end in self.steps[max(0, regular) : number + 1]]
        return leaps + sum(after - place > 1 for place, after in pairwise(later))

    def checkpoints(self, start: int, end: int) -> int:
        """Return the additional states stored within one step: at the end of its last whole block."""
        spec = self.spec
        if not isinstance(spec, StateSpec) or spec.pages_per_request is None:
            return 0
        stored = spec.pages_per_request - ALIGNED_STATES
        return stored if ceil_div(end, spec.block_size) - 2 > (start - 1) // spec.block_size else 0
