"""Cached steps give what plain steps calculate."""

from dataclasses import fields, replace
from random import Random
from typing import Any, ClassVar, Self

import pytest

from service.advisor.candidates.engine_start import build_model, resolved
from service.advisor.candidates.plan_types import Candidate
from service.advisor.dry_runs.budget_inputs import shared_inputs
from service.advisor.dry_runs.dry_run import PlainSteps, dry_run, dry_start
from service.advisor.dry_runs.engine_steps import UNMODELLED, StartedEngine
from service.advisor.dry_runs.lengths_asked_for import RECENT_STARTS
from service.advisor.dry_runs.plan_cache import CHANGED_MODELS, CachedSteps, PlanCache
from service.advisor.dry_runs.step_keys import SIZES
from service.advisor.fixes.four_bit_checkpoint import four_bit_model
from service.advisor.plan import plan
from service.advisor.request.plan_request import (
    EngineChoice,
    Model,
    PlanRequest,
    Workload,
)
from service.architecture.config import InvalidConfig
from service.architecture.reading import UnknownArchitecture
from service.engine_config.engine_config import EngineConfig
from service.engine_config.request_limits import RequestLimits, batch_defaults, limits_inputs, resolve_length
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal
from service.engines.releases import RELEASES, find_release, rules_for
from service.engines.speculative_config import SpeculativeConfig
from service.gpus.catalog import gpu_catalog
from service.hub.bundled.snapshot import BundledSnapshot
from service.kv_cache.capacity import lay_out
from service.memory.budget_estimator import estimate_budget
from service.memory.profile_run import reads_length
from tests.accuracy.oracle import bundled_architecture
from tests.advisor.questions import (
    DEEPSEEK,
    GEMMA,
    LLAMA,
    QWEN,
)

GPUS = tuple(gpu for gpu in gpu_catalog() if gpu.modelled)


def request(model: str, version: str = "0.32.0") -> PlanRequest:
    return PlanRequest(
        Model(model, None, "bundled", bundled_architecture(model)),
        GPUS,
        EngineChoice.of(version),
        workload=Workload(4000, 100, 8),
    )


@pytest.mark.parametrize(
    ("model", "version"),
    [
        (GEMMA, "0.32.0"),
        (QWEN, "0.28.0"),
        (QWEN, "0.33.0"),
        (LLAMA, "0.19.0"),
        (GEMMA, "0.24.0"),
        (DEEPSEEK, "0.31.0"),
        (DEEPSEEK, "0.15.1"),
    ],
)
def test_cached_steps_give_the_candidates_of_plain_steps(model: str, version: str) -> None:
    requested, rules = request(model, version), rules_for(find_release(version))
    steps = CachedSteps(requested.model, rules)
    variants = [
        ServeFlags(kv_cache_dtype=dtype, tensor_parallel_size=ranks)
        for dtype in ("auto", "fp8", "fp8_e5m2", "turboquant_k8v4")
        for ranks in (2, 8)
    ]
    variants += [ServeFlags(dtype="bfloat16"), ServeFlags(pipeline_parallel_size=2, max_model_len=4096)]
    for flags in variants:
        for gpu in GPUS:
            alone = dry_run(requested, flags, rules, gpu)
            assert dry_run(requested, flags, rules, gpu, steps) == alone, (gpu.id, flags)


SAMPLE = Random(20260601)
MODELS = tuple(SAMPLE.sample(BundledSnapshot().ids(), 12))
"""Of every family of the snapshot, in an order that no test chose."""
FLAGS: tuple[dict[str, Any], ...] = (
    {},
    {"kv_cache_dtype": "fp8", "tensor_parallel_size": 2, "max_model_len": 8192},
    {"pipeline_parallel_size": 2, "max_num_batched_tokens": 4096},
    {"enforce_eager": True, "enable_prefix_caching": False, "block_size": 32},
    {"quantization": "fp8", "gpu_memory_utilization": 0.8},
    {"kv_cache_memory_bytes": 4 << 30, "max_num_seqs": 32},
    {"enable_expert_parallel": True, "data_parallel_size": 2, "max_model_len": -1},
    {"language_model_only": True, "dtype": "half"},
    {"speculative_config": SpeculativeConfig(method="ngram", num_speculative_tokens=3)},
    {"max_model_len": 4096},
    {"max_model_len": 2048, "max_num_seqs": 16},
    {"max_model_len": 2048, "max_num_seqs": 16, "gpu_memory_utilization": 0.7, "enforce_eager": True},
)
LENGTH_FLAGS: tuple[dict[str, Any], ...] = (
    *FLAGS,
    {"enable_chunked_prefill": False},
    {"mamba_block_size": 512},
    {"max_num_batched_tokens": 1024},
    {"max_num_seqs": 4},
    {"decode_context_parallel_size": 2, "tensor_parallel_size": 4},
    {"kv_cache_dtype": "turboquant_k8v4"},
    {"speculative_config": SpeculativeConfig(method="mtp", num_speculative_tokens=2)},
    {"enable_prefix_caching": True, "prefix_match_unit": 32},
)
"""Beside the others, those with which a length decides more than whether a request fits."""


@pytest.mark.parametrize("model", MODELS)
def test_cached_steps_equal_plain_steps_for_any_model_flags_and_gpu(model: str) -> None:
    try:
        requested = request(model)
    except (InvalidConfig, UnknownArchitecture):
        pytest.skip("not modelled")
    random = Random(model)
    rules = rules_for(random.choice(RELEASES[-12:]))
    cached, plain = CachedSteps(requested.model, rules), PlainSteps(requested.model, rules)
    for flags in (ServeFlags(**given) for given in FLAGS):
        for gpu in random.sample(GPUS, 5):
            free = random.choice((None, 20 << 30))
            requested = replace(requested, free_memory_bytes=free)
            found, expected = (dry_run(requested, flags, rules, gpu, steps) for steps in (cached, plain))
            assert found == expected, (gpu.id, flags)
            assert _start_of(found) == _start_of(expected), (gpu.id, flags)


LENGTHS = (None, -1, 1, 17, 512, 1000, 4096, 16384, 40_000, 1 << 18)
"""Below and above a batch, below and above what most models have."""


@pytest.mark.parametrize("model", MODELS)
def test_starts_of_all_lengths_equal_plain_ones_whatever_length_came_first(model: str) -> None:
    """A start is made of that with another length, which another request may have asked for."""
    try:
        requested = request(model)
    except (InvalidConfig, UnknownArchitecture):
        pytest.skip("not modelled")
    random = Random(f"lengths of {model}")
    for _ in range(4):
        rules = rules_for(random.choice(RELEASES))
        given, gpus = random.choice(LENGTH_FLAGS), random.sample(GPUS, 2)
        cached, plain = CachedSteps(requested.model, rules), PlainSteps(requested.model, rules)
        for length in random.sample(LENGTHS, len(LENGTHS)):
            flags = ServeFlags(**{**given, "max_model_len": length})
            for gpu in gpus:
                found, expected = (dry_run(requested, flags, rules, gpu, steps) for steps in (cached, plain))
                assert found == expected, (rules.release, gpu.id, flags)
                assert found.warnings == expected.warnings
                assert found.prefix_reuse == expected.prefix_reuse
                assert _start_of(found) == _start_of(expected), (rules.release, gpu.id, flags)


@pytest.mark.parametrize("version", ["0.10.2", "0.19.0", "0.32.0"])
@pytest.mark.parametrize("given", [{}, {"kv_cache_memory_bytes": 3 << 30}, {"kv_cache_dtype": "fp8"}])
def test_lengths_that_do_not_fit_for_sure_have_candidates_of_their_own(
    version: str, given: dict[str, Any]
) -> None:
    """Of 24 GiB some 5 are left for a cache of 144 KiB a token: between 20,000 and 80,000 tokens."""
    requested, rules = request("Qwen/Qwen3-8B", version), rules_for(find_release(version))
    gpu = next(gpu for gpu in GPUS if gpu.id == "rtx-3090-24gb")
    cached, plain = CachedSteps(requested.model, rules), PlainSteps(requested.model, rules)
    verdicts = set()
    for length in (40_960, 1000, 20_000, 28_000, 31_000, 33_000, 35_000, 38_000, 9000, 40_960, None):
        flags = ServeFlags(**given, max_model_len=length)
        found, expected = (dry_run(requested, flags, rules, gpu, steps) for steps in (cached, plain))
        assert found == expected, flags
        assert found.warnings == expected.warnings
        verdicts.add((expected.verdict, expected.error is None))
    assert len(verdicts) > 1 or "kv_cache_dtype" in given


@pytest.mark.parametrize("version", ["0.15.1", "0.32.0", "0.33.0"])
@pytest.mark.parametrize(
    ("model", "given"),
    [
        (LLAMA, {"enable_chunked_prefill": False, "max_num_batched_tokens": 8192}),
        (LLAMA, {"mamba_block_size": 4096, "enable_prefix_caching": False}),
        (LLAMA, {"max_num_seqs": 4}),
        (QWEN, {"enable_prefix_caching": False}),
        (QWEN, {"speculative_config": SpeculativeConfig(method="mtp", num_speculative_tokens=2)}),
    ],
)
def test_starts_whose_length_decides_more_than_their_requests_are_their_own(
    model: str, version: str, given: dict[str, Any]
) -> None:
    requested, rules = request(model, version), rules_for(find_release(version))
    cached, plain = CachedSteps(requested.model, rules), PlainSteps(requested.model, rules)
    for length in (None, 4096, 100, 1, 8192, 9000):
        flags = ServeFlags(**given, max_model_len=length)
        found, expected = (dry_run(requested, flags, rules, GPUS[0], steps) for steps in (cached, plain))
        assert found == expected, flags
        assert _start_of(found) == _start_of(expected), flags


class RecordingConfig(EngineConfig):
    """A configuration that records which of its fields are read."""

    __slots__ = ()
    read: ClassVar[set[str]] = set()

    @classmethod
    def of(cls, engine_config: EngineConfig) -> Self:
        recording = object.__new__(cls)
        for each in fields(EngineConfig):
            object.__setattr__(recording, each.name, getattr(engine_config, each.name))
        return recording

    def __getattribute__(self, name: str) -> object:
        RecordingConfig.read.add(name)
        return super().__getattribute__(name)


@pytest.mark.parametrize("model", MODELS)
def test_neither_backends_nor_a_layout_read_what_their_key_leaves_out(model: str) -> None:
    """A field that is read and not in the key would give one start the layout of another."""
    try:
        architecture = request(model).model.architecture
    except (InvalidConfig, UnknownArchitecture):
        pytest.skip("not modelled")
    random = Random(model)
    read, recurrent = set(), False
    for given in (
        *FLAGS,
        {"mamba_cache_mode": "align"},
        {"decode_context_parallel_size": 2},
        {"block_size": 64},
    ):
        rules, gpu = rules_for(random.choice(RELEASES)), random.choice(GPUS)
        try:
            built, engine_config = resolved(architecture, ServeFlags(**given), rules, gpu)
            recording = RecordingConfig.of(engine_config)
            RecordingConfig.read = set()
            lay_out(built, recording, build_model(built, recording))
        except (EngineRefusal, *UNMODELLED):
            pass
        read |= RecordingConfig.read
        recurrent |= architecture.is_recurrent
    assert not read & SIZES
    assert recurrent or "max_model_len" not in read


class RecordingFlags(ServeFlags):
    """Flags that record which of them are read."""

    read: ClassVar[set[str]] = set()

    def __getattribute__(self, name: str) -> object:
        RecordingFlags.read.add(name)
        return super().__getattribute__(name)


@pytest.mark.parametrize("model", [LLAMA, GEMMA, "Qwen/Qwen3-8B", "openai/gpt-oss-20b"])
def test_limits_read_nothing_of_the_flags_that_their_key_leaves_out(model: str) -> None:
    """Another flag that is read would give one start the limits of another."""
    architecture, random = request(model).model.architecture, Random(model)
    given: dict[str, Any] = {
        "enable_expert_parallel": True,
        "data_parallel_size": 2,
        "all2all_backend": "naive",
    }
    for release in random.sample(RELEASES, 6):
        rules, gpu = rules_for(release), random.choice(GPUS)
        for flags in (RecordingFlags(), RecordingFlags(**given), RecordingFlags(max_num_batched_tokens=512)):
            RecordingFlags.read = set()
            limits_inputs(flags)
            in_key = RecordingFlags.read
            RecordingFlags.read = set()
            length = resolve_length(architecture, flags, rules)
            RequestLimits.of(architecture, flags, rules, batch_defaults(rules.batches, gpu), length)
            assert RecordingFlags.read <= in_key | {"max_model_len"}


def test_recent_starts_are_bounded_and_found_again_by_other_lengths() -> None:
    steps = CachedSteps(request(LLAMA).model, rules_for(find_release("0.32.0")))
    first = steps.start(ServeFlags(max_model_len=1), GPUS[0])
    size = steps.size
    for length in range(2, RECENT_STARTS + 10):
        steps.start(ServeFlags(max_model_len=length), GPUS[0])
    # Shorter ones than a batch have limits of their own.
    assert steps.size < size + 300
    again = steps.start(ServeFlags(max_model_len=1), GPUS[0])
    assert isinstance(again, StartedEngine)
    assert isinstance(first, StartedEngine)
    assert again is not first
    assert again.start.layout is first.start.layout


@pytest.mark.parametrize("model", [QWEN, "Qwen/Qwen3-8B", DEEPSEEK, GEMMA])
def test_lengths_share_what_a_start_takes_of_the_memory_unless_it_depends_on_them(model: str) -> None:
    asked = request(model)
    rules, gpu = rules_for(RELEASES[-1]), GPUS[0]
    taken = []
    for length in (4096, 9000):
        start = dry_start(asked.model.architecture, ServeFlags(max_model_len=length), rules, gpu)
        taken.append(shared_inputs(asked.model, start, ServeFlags(), gpu, None))
    assert (taken[0] == taken[1]) is (not reads_length(asked.model.architecture))
    if taken[0] == taken[1]:
        whole = [replace(taken[0], max_model_len=length) for length in (4096, 9000)]
        budgets = [estimate_budget(start.architecture, inputs) for inputs in (*taken, *whole)]
        assert budgets == budgets[:1] * 4
    else:
        with pytest.raises(ValueError, match="maximum length"):
            estimate_budget(start.architecture, replace(taken[0], max_model_len=None))


def _start_of(candidate: Candidate) -> object:
    """Return what is compared of a start, which a candidate leaves out: all but the GPU's name."""
    start = candidate.start
    if start is None:
        return None
    config = replace(start.engine_config, device_name="")
    return start.architecture, config, start.layout, start.backends.distinct, start.backends.places


def test_a_cached_refusal_names_the_gpu_of_the_request() -> None:
    requested, rules = request(LLAMA), rules_for(find_release("0.32.0"))
    steps, flags = CachedSteps(requested.model, rules), ServeFlags(dtype="bfloat16")
    old = [gpu for gpu in GPUS if str(gpu.compute_capability) == "7.5"]
    refusals = [dry_run(requested, flags, rules, gpu, steps).error for gpu in old]
    assert len(old) > 1
    for gpu, refusal in zip(old, refusals, strict=True):
        assert refusal is not None
        assert f"Your {gpu.name} GPU has compute capability 7.5." in refusal.message


def test_what_differs_in_free_memory_or_devices_is_counted() -> None:
    requested, rules = request(LLAMA), rules_for(find_release("0.32.0"))
    steps, flags = CachedSteps(requested.model, rules), ServeFlags()
    sizes = []
    for free in (None, 10 << 30, 20 << 30):
        for gpu in GPUS[:2]:
            dry_run(replace(requested, free_memory_bytes=free), flags, rules, gpu, steps)
            sizes.append(steps.size)
    assert sizes == sorted(set(sizes))


def test_gpus_that_start_alike_but_differ_in_unified_memory_have_their_own_budgets() -> None:
    requested, rules = request(LLAMA), rules_for(find_release("0.32.0"))
    discrete = GPUS[0]
    unified = replace(discrete, id="unified", unified_memory=not discrete.unified_memory)
    cached, plain = CachedSteps(requested.model, rules), PlainSteps(requested.model, rules)
    budgets = [dry_run(requested, ServeFlags(), rules, gpu, cached).memory for gpu in (discrete, unified)]
    assert budgets == [
        dry_run(requested, ServeFlags(), rules, gpu, plain).memory for gpu in (discrete, unified)
    ]
    assert budgets[0] != budgets[1]


def test_steps_under_other_rules_are_stored_and_counted() -> None:
    requested, rules = request(LLAMA), rules_for(find_release("0.32.0"))
    steps, older = CachedSteps(requested.model, rules), rules_for(find_release("0.30.0"))
    other = steps.under(older)
    assert other is steps.under(older) is not steps
    other.start(ServeFlags(), GPUS[0])
    # A device, a start, and what it has in common with those of other lengths.
    assert steps.size == other.size == 3
    assert steps.under(rules) is steps


@pytest.mark.parametrize("version", ["0.12.0", "0.32.0"])
def test_steps_of_a_changed_model_are_those_of_this_model_and_counted(version: str) -> None:
    """A note says what 4-bit weights would do: the same model again for the next refusal of any length."""
    requested, rules = request(LLAMA, version), rules_for(find_release(version))
    steps, packed = CachedSteps(requested.model, rules), four_bit_model(requested.model)
    assert packed is not None
    asked = replace(requested, model=packed)
    assert steps.of(packed) is steps.of(replace(packed))
    for length in (None, 8192, 100_000, 8192):
        flags = ServeFlags(max_model_len=length)
        for gpu in GPUS[::9]:
            found = dry_run(asked, flags, rules, gpu, steps.of(packed))
            assert found == dry_run(asked, flags, rules, gpu), (gpu.id, length)
            whole = dry_run(requested, flags, rules, gpu, steps)
            assert found.memory is not None
            assert whole.memory is not None
            assert found.memory.weights.high < whole.memory.weights.low / 2
    own = steps.size - steps.of(packed).size
    assert 0 < own < steps.size
    for bits in range(CHANGED_MODELS):
        steps.of(replace(packed, checkpoint_bytes=bits))
    assert steps.size == own


def test_a_plan_cache_changes_no_answer() -> None:
    cache, requested = PlanCache(models=1), replace(request(GEMMA), gpus=GPUS[:12])
    first = plan(requested, cache)
    assert first == plan(requested, cache) == plan(requested)
    plan(replace(request(LLAMA), gpus=GPUS[:2]), cache)
    assert plan(requested, cache) == first


def test_a_plan_cache_is_of_one_model_under_one_release_and_bounded() -> None:
    rules, older = rules_for(find_release("0.32.0")), rules_for(find_release("0.19.0"))
    cache, model = PlanCache(models=1, results=3), request(LLAMA).model
    steps = cache.steps(model, rules)
    assert cache.steps(model, rules) is steps
    assert cache.steps(model, older) is not steps
    assert cache.steps(model, rules) is not steps
    patched = rules_for(find_release("0.32.0"), ("vllm#39866",))
    assert cache.steps(model, patched).rules is patched
    full = cache.steps(model, rules)
    for size in (1, 2, 4, 8):
        full.start(ServeFlags(tensor_parallel_size=size), GPUS[0])
    assert cache.steps(model, rules) is not full
