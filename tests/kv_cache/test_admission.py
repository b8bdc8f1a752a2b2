"""Admission, against a block pool that is played through step by step."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.advisor.candidates.engine_start import resolved
from service.advisor.dry_runs.dry_run import dry_start
from service.engine_config.engine_config import EngineConfig
from service.engine_config.speculation import Speculation
from service.engines.flags import ServeFlags
from service.engines.releases import find_release, rules_for
from service.gpus.catalog import find_gpu
from service.kv_cache.admission import admit
from service.kv_cache.formats import cache_format
from service.kv_cache.groups import Group
from service.kv_cache.specs import AttentionSpec, CacheKind, SpecLayers
from tests.accuracy.oracle import bundled_architecture
from tests.accuracy.recorded import LATE
from tests.kv_cache.test_several_caches import WHISPER
from tests.kv_cache.test_several_caches import start as whisper
from tests.oracle.scheduling import Played, stored

LENGTH = 4096


def engine_config(version: str, batch: int, behind: int = 0) -> EngineConfig:
    flags = ServeFlags(max_model_len=LENGTH, max_num_batched_tokens=batch, max_num_seqs=1)
    architecture = bundled_architecture("meta-llama/Llama-3.1-8B")
    _, found = resolved(architecture, flags, rules_for(find_release(version)), find_gpu("h100-sxm-80gb"))
    return replace(found, concurrent_batches=1 + behind)


FORM = cache_format("auto", "bfloat16")


def group(block: int, window: int | None) -> Group:
    kind = CacheKind.FULL_ATTENTION if window is None else CacheKind.SLIDING_WINDOW
    return Group.of((SpecLayers(AttentionSpec(kind, block, 8, 128, 128, FORM, sliding_window=window), (0,)),))


def chunked(block: int, chunk: int) -> Group:
    kind = CacheKind.CHUNKED_LOCAL_ATTENTION
    spec = AttentionSpec(kind, block, 8, 128, 128, FORM, attention_chunk_size=chunk)
    return Group.of((SpecLayers(spec, (0,)),))


@dataclass
class Pool:
    """Blocks that requests take as tokens come and give back as windows pass; every block has its tokens."""

    groups: Sequence[Group]
    free: int
    behind: int
    """Steps that are not yet done when blocks are given back."""
    held: dict[tuple[int, int], set[int]] = field(default_factory=dict)
    """Places of the blocks that a request has in a group."""
    steps: dict[int, list[int]] = field(default_factory=dict)
    """Tokens that a request had before each of its steps."""

    def step(self, request: int, before: int, tokens: int) -> bool:
        """Make room for some tokens after the first ``before`` ones; return whether there was room."""
        started = self.steps.setdefault(request, [])
        started.append(before)
        done = started[max(0, len(started) - 1 - self.behind)]
        wanted = []
        for number, each in enumerate(self.groups):
            spec = each.spec
            assert isinstance(spec, AttentionSpec)
            mine = self.held.setdefault((request, number), set())
            if spec.sliding_window is not None or spec.attention_chunk_size is not None:
                # The next token sees itself and the window - 1 tokens before it, or its chunk.
                width = spec.sliding_window or spec.attention_chunk_size or 0
                seen = done - width + 1 if spec.attention_chunk_size is None else done - done % width
                passed = {place for place in mine if (place + 1) * spec.block_size <= seen}
                mine -= passed
                self.free += len(passed)
            places = {token // spec.block_size for token in range(before, before + tokens)}
            wanted.append((mine, places - mine))
        if sum(len(new) for _, new in wanted) > self.free:
            return False
        for mine, new in wanted:
            mine.update(new)
            self.free -= len(new)
        return True

    def of(self, request: int) -> int:
        """Return the blocks that a request holds."""
        return sum(len(self.held[request, number]) for number in range(len(self.groups)))


def read(pool: Pool, request: int, prompt: int, batch: int) -> int | None:
    """Read a prompt and answer with three tokens; return the most blocks held while it was read."""
    peak = 0
    for before in (*range(0, prompt, batch), prompt, prompt + 1, prompt + 2):
        if not pool.step(request, before, min(batch, prompt - before) if before < prompt else 1):
            return None
        peak = max(peak, pool.of(request))
    return peak


blocks = st.sampled_from((4, 16, 24))
groups = st.lists(
    st.builds(group, blocks, st.none() | st.integers(1, 200))
    | st.builds(chunked, blocks, st.integers(1, 200)),
    min_size=1,
    max_size=3,
    unique=True,
)
prompts, batches, behind = st.integers(1, 900), st.integers(1, 300), st.integers(0, 2)


@given(groups, prompts, batches, behind, st.integers(1, 400))
def test_as_many_are_let_in_as_a_pool_played_through_has_room_for(
    layers: list[Group], prompt: int, batch: int, late: int, free: int
) -> None:
    of = engine_config("0.32.0", batch, late)
    request = admit(tuple(layers), of, LENGTH, prompt, 1)
    pool, let_in = Pool(layers, free, late), 0
    while let_in < 50 and request.blocks <= pool.free:
        if read(pool, let_in, prompt, batch) is None:
            break
        let_in += 1
    assert let_in == min(50, request.at_once(free))


@given(groups, prompts, batches, behind)
def test_what_is_held_is_what_a_pool_played_through_holds(
    layers: list[Group], prompt: int, batch: int, late: int
) -> None:
    request = admit(tuple(layers), engine_config("0.32.0", batch, late), LENGTH, prompt, 1)
    pool = Pool(layers, 10_000, late)
    assert read(pool, 0, prompt, batch) == request.peak_prefill_blocks
    assert pool.of(0) == request.blocks_after_prefill


@given(groups, prompts, batches, behind, st.tuples(st.integers(1, 200), st.integers(1, 300)))
def test_requests_that_stay_to_the_end_find_room_for_every_token(
    layers: list[Group], prompt: int, batch: int, late: int, sizes: tuple[int, int]
) -> None:
    answer, free = sizes
    request = admit(tuple(layers), engine_config("0.32.0", batch, late), LENGTH, prompt, answer)
    together, pool = min(request.to_the_end(free), 8), Pool(layers, free, late)
    for number in range(together):
        assert read(pool, number, prompt, batch) is not None
    for token in range(3, answer):
        assert all(pool.step(number, prompt + token, 1) for number in range(together))


@given(groups, prompts, batches)
def test_a_gate_asks_for_what_a_prompt_holds_at_most(layers: list[Group], prompt: int, batch: int) -> None:
    for version, late in (("0.20.2", 0), ("0.32.0", 1)):
        request = admit(tuple(layers), engine_config(version, batch, late), LENGTH, prompt, 1)
        assert request.blocks <= request.whole_prompt_blocks
        # Three tokens of the answer take at most one more block of each group.
        assert request.peak_prefill_blocks <= request.blocks + len(layers)


def test_the_windows_of_gemma_4_by_hand() -> None:
    windows = (group(16, 1024),)
    read_and_kept = {
        # 0.19 asks for the whole prompt: 16,001 / 16 = 1000.06.
        "0.19.0": 1001,
        # (1024 - 1 + 8192) / 16 = 575.94, and one more as a window need not start with a block.
        "0.20.2": 577,
        # Two batches in flight: (1023 + 16,384) / 16 + 1 = 1089 is more than the prompt's 1001.
        "0.32.0": 1001,
    }
    for version, wanted in read_and_kept.items():
        of = replace(engine_config(version, 8192, 1), max_model_len=65_536)
        assert admit(windows, of, 65_536, 16_001, 1).blocks == wanted
    patched = rules_for(find_release("0.19.0"), ("vllm#39866",))
    of = replace(engine_config("0.19.0", 8192), rules=patched)
    (counts,) = admit(windows, of, 65_536, 16_001, 1).groups
    assert (counts.counted_tokens, counts.blocks) == (1024 + 8192, 576)
    assert counts.whole_prompt_blocks == 1001
    # While it is answered: 1024 tokens span 64 or 65 blocks.
    assert counts.peak_decode_blocks in {64, 65}


def test_before_0_19_nothing_but_the_first_step_had_to_be_free() -> None:
    # Scheduler.schedule of 0.18.1 asks for room for the tokens of a step: 8192 / 16 and 16,001 / 16.
    for version, tokens, wanted in (("0.18.1", 8192, 512), ("0.19.0", 16_001, 1001)):
        (counts,) = admit((group(16, None),), engine_config(version, 8192), 65_536, 16_001, 1).groups
        assert (counts.counted_tokens, counts.blocks) == (tokens, wanted)


def test_an_encoders_tokens_are_there_from_the_first_step_to_the_last() -> None:
    """As vLLM 0.13.0 schedules Whisper: max_num_encoder_input_tokens, which is the batch, at once."""
    start = whisper(WHISPER, "0.13.0", max_num_batched_tokens=4096)

    own, across = admit(start.layout.groups, start.engine_config, 448, 4, 200).groups

    assert across.kind == CacheKind.CROSS_ATTENTION
    assert (across.blocks, across.blocks_after_prefill, across.peak_decode_blocks) == (256, 256, 256)
    # 4 + 200 tokens but the last, which is never written.
    assert (own.blocks, own.peak_decode_blocks) == (1, 13)


@pytest.mark.parametrize(
    ("release", "tokens"),
    [("0.12.0", 1500), ("0.13.0", 4096), ("0.14.0", 1500), ("0.17.0", 1500), ("0.33.0", 1500)],
)
def test_a_request_holds_its_own_audio_and_not_the_batch_kept_for_it(release: str, tokens: int) -> None:
    """vLLM 0.33.0, Scheduler.schedule: get_num_encoder_embeds, and Whisper pads to max_source_positions."""
    start = whisper(WHISPER, release, max_num_batched_tokens=4096)

    _, across = admit(start.layout.groups, start.engine_config, 448, 4, 200).groups

    assert across.counted_tokens == tokens
    assert across.blocks == across.blocks_after_prefill == across.peak_decode_blocks == -(-tokens // 16)


def test_a_ring_is_one_block_whatever_the_prompt() -> None:
    """vLLM 0.32.0, CircularBufferManager.get_num_blocks_to_allocate: one block for each request."""
    start = dry_start(
        LATE.architecture("Qwen4ExpForCausalLM/qsa"),
        ServeFlags(max_model_len=65_536),
        rules_for(find_release("0.33.0")),
        find_gpu("h200-sxm-141gb"),
    )
    for prompt in (1, 30_000):
        counted = admit(start.layout.groups, start.engine_config, 65_536, prompt, 1000).groups
        kinds = [group.spec.kind for group in start.layout.groups]
        ring = counted[kinds.index(CacheKind.CIRCULAR_BUFFER)]
        assert (ring.blocks, ring.blocks_after_prefill, ring.peak_decode_blocks) == (1, 1, 1)


def test_the_most_blocks_of_chunks_are_held_just_before_one_is_given_back() -> None:
    # One token a step: the 840th is read while 420 to 839 are there, in blocks 26 to 52 of 16 tokens.
    assert admit((chunked(16, 420),), engine_config("0.32.0", 1), LENGTH, 1000, 1).peak_prefill_blocks == 27


def test_a_window_holds_most_where_a_block_begins() -> None:
    # Token 216 begins the tenth block of 24; the window of 194 has not passed the first, tokens 0 to 23: it
    # sees 23 to 216. Token 238 is in the same block, and the first has been given back.
    (counts,) = admit((group(24, 194),), engine_config("0.32.0", 193), LENGTH, 180, 59).groups
    assert counts.peak_decode_blocks == 10


def test_a_prompt_of_a_billion_steps_is_counted_at_once() -> None:
    # Read one token at a time, full attention holds the blocks of the prompt and of three tokens more.
    request = admit((group(16, None), group(16, 1024)), engine_config("0.32.0", 1), 1 << 31, 1 << 30, 1 << 20)
    assert request.blocks_after_prefill == (1 << 26) + 1 + 65
    assert request.peak_prefill_blocks >= request.blocks_after_prefill


PLAYED = stored()


@pytest.mark.parametrize("release", ["0.19.0", "0.24.0", "0.28.0", "0.32.0", "0.33.0"])
def test_draft_tokens_have_the_blocks_that_the_release_s_scheduler_gives_them(release: str) -> None:
    rows = [row for row in PLAYED if row.release == release]
    differing = [(row, found) for row in rows if (found := peaks(row)) != tuple(row.blocks)]
    assert not differing
    assert sum(row.draft_tokens > 0 for row in rows) >= 40


def peaks(row: Played) -> tuple[int, ...]:
    drafts = (
        Speculation("eagle" if row.lookahead else "ngram", row.draft_tokens) if row.draft_tokens else None
    )
    of = replace(
        engine_config(row.release, 512, int(row.concurrent)), speculation=drafts, max_model_len=row.length
    )
    windows = (group(row.block, row.window),) if row.window else ()
    request = admit((group(row.block, None), *windows), of, row.length, row.prompt, row.answer)
    return tuple(counts.peak_decode_blocks for counts in request.groups)


def test_the_first_chunk_has_room_for_the_draft_since_0_23() -> None:
    # As played: 512 tokens in the first step before, 515 after.
    for version, places in (("0.22.1", 512), ("0.23.0", 515), ("0.33.0", 515)):
        of = replace(engine_config(version, 512), speculation=Speculation("eagle", 3))
        request = admit((group(1, None),), of, 1300, 512, 1)
        assert request.groups[0].peak_decode_blocks == places
