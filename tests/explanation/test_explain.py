"""Starts whose arithmetic is known from elsewhere."""

from typing import Any

import pytest

from service.advisor.candidates.verdict import Verdict
from service.advisor.request.plan_request import EngineChoice, PlanRequest
from service.engines.flags import ServeFlags
from service.explanation.explain import explain
from service.explanation.explanation_types import Agreement, CauseBasis, Explanation
from service.gpus.catalog import find_gpu
from service.startup_log.log import read_log
from service.units import GIB
from tests.accuracy.startups_models import find_model

# A public report of vLLM 0.19.0 on two RTX 3090 (24 GB): gemma-4-31B-it with 12,390,980,648 bytes of cache.
STARTED = """\
Available KV cache memory: 11.54 GiB
GPU KV cache size: 25,200 tokens
Maximum concurrency for 131,072 tokens per request: 1.87x
"""
# The words of vLLM 0.11 to 0.22 about Qwen3-4B: 36 layers of 8 heads of 128, key and value of 2 bytes, are
# 147,456 bytes a token; 40,960 tokens take 5.625 GiB; 35,607 fit in 4.89 GiB, 35,600 in whole blocks.
REFUSED = (
    "ValueError: To serve at least one request with the models's max seq len (40960), (5.62 GiB KV cache is "
    "needed, which is larger than the available KV cache memory (4.89 GiB). Based on the available memory, "
    "the estimated maximum model length is 35600."
)


def _explain(log: str, model: str, gpu: str, release: str, **flags: object) -> Explanation:
    defaults = {"kv_cache_dtype": "auto", "tensor_parallel_size": 1}
    serve = ServeFlags(**defaults | flags)  # type: ignore[arg-type]
    request = PlanRequest(find_model(model).model, (find_gpu(gpu),), EngineChoice.of(release), serve)
    return explain(read_log(log), request)


def test_a_hybrid_models_tokens_are_right() -> None:
    explanation = _explain(
        STARTED,
        "google/gemma-4-31B-it",
        "rtx-3090-24gb",
        "0.19.0",
        tensor_parallel_size=2,
        max_model_len=131072,
        max_num_batched_tokens=2048,
    )
    agreements = {finding.name: finding.agreement for finding in explanation.findings}

    assert agreements["kv_cache_tokens"] is Agreement.AGREES
    assert agreements["max_concurrency"] is Agreement.AGREES
    assert any("// 6 x 16" in note for note in explanation.notes)
    assert explanation.ending is None


def test_a_refusal_is_foreseen_with_its_numbers() -> None:
    explanation = _explain(REFUSED, "Qwen/Qwen3-4B", "rtx-5080-16gb", "0.17.1")
    findings = {finding.name: finding for finding in explanation.findings}
    ending = explanation.ending

    assert ending is not None
    assert (ending.cause, ending.basis, ending.foreseen) == (
        "kv_cache_smaller_than_one_request",
        CauseBasis.LOG,
        True,
    )
    assert findings["kv_needed_gib"].agreement is Agreement.AGREES
    assert findings["est_max_model_len"].agreement is Agreement.AGREES
    assert explanation.verdict is Verdict.REFUSED
    shorter = next(fix for fix in ending.fixes if fix.words == "--max-model-len 35600")
    assert shorter.verdict is Verdict.STARTS
    assert shorter.command == "vllm serve Qwen/Qwen3-4B --max-model-len 35600"


def test_a_refused_dtype_is_foreseen_and_fixed() -> None:
    """A public report of 0.20.0 in the engine's own words."""
    words = (
        "NotImplementedError: TurboQuant KV cache is not supported for hybrid (attention + Mamba) models. "
        "Boundary layer protection requires uniform attention layers."
    )
    explanation = _explain(
        words,
        "Qwen/Qwen3.6-27B",
        "h100-sxm-80gb",
        "0.20.0",
        kv_cache_dtype="turboquant_k8v4",
        max_model_len=32768,
        max_num_seqs=16,
    )

    assert explanation.ending is not None
    assert explanation.ending.foreseen is True
    assert explanation.ending.planned is not None
    assert explanation.ending.planned.message in words
    assert explanation.ending.fixes


def test_a_failure_that_the_plan_does_not_share_gets_no_fix() -> None:
    words = "ValueError: type fp8e4nv not supported in this architecture. The supported fp8 dtypes are ()"
    explanation = _explain(words, "Qwen/Qwen3-4B", "h100-sxm-80gb", "0.19.0", kv_cache_dtype="fp8")

    assert explanation.ending is not None
    assert explanation.ending.foreseen is False
    assert explanation.ending.fixes == ()


def test_a_log_without_a_plan_is_still_explained() -> None:
    explanation = explain(read_log(REFUSED), None)

    assert explanation.ending is not None
    assert explanation.ending.cause == "kv_cache_smaller_than_one_request"
    assert explanation.ending.foreseen is None
    assert explanation.findings == ()


def _words(log: str, **flags: object) -> dict[str, tuple[Agreement, str]]:
    """Return the findings of a start of Qwen3-4B, by name."""
    explanation = _explain(log, "Qwen/Qwen3-4B", "h100-sxm-80gb", "0.19.0", **flags)
    return {finding.name: (finding.agreement, finding.why) for finding in explanation.findings}


@pytest.mark.parametrize(
    ("line", "name", "agreement"),
    [
        ("Resolved architecture: Qwen3ForCausalLM", "architecture", Agreement.AGREES),
        ("Resolved architecture: TransformersForCausalLM", "architecture", Agreement.DIFFERS),
        # vLLM 0.19.0, platforms/cuda.py _get_backend_priorities: FlashAttention is the first on Hopper.
        (
            "Using FLASH_ATTN attention backend out of potential backends",
            "attention_backend",
            Agreement.AGREES,
        ),
        (
            "Using FLEX_ATTENTION attention backend out of potential backends",
            "attention_backend",
            Agreement.DIFFERS,
        ),
    ],
)
def test_a_word_is_the_planned_one_or_it_differs(line: str, name: str, agreement: Agreement) -> None:
    assert _words(line)[name][0] is agreement


@pytest.mark.parametrize(
    ("line", "name", "flags", "why"),
    [
        ("Model loading took 4.00 GiB", "model_loading_gib", {"pipeline_parallel_size": 2}, "pipeline stage"),
        (
            "Available KV cache memory: 4.00 GiB",
            "available_kv_gib",
            {"kv_cache_memory_bytes": 4 << 30},
            "--kv-cache-memory-bytes sets it",
        ),
        (
            "Available KV cache memory: 4.00 GiB\nGPU KV cache size: 8,192 tokens",
            "kv_cache_tokens",
            {"pipeline_parallel_size": 2},
            "the logged memory is that of one pipeline stage",
        ),
        # 40,960 tokens of 147,456 bytes are 5.625 GiB.
        (
            "Available KV cache memory: 4.00 GiB\nGPU KV cache size: 29,120 tokens",
            "kv_cache_tokens",
            {},
            "the plan has no cache with the logged 4.00 GiB: To serve at least one request",
        ),
        ("GPU KV cache size: 29,120 tokens", "kv_cache_tokens", {"max_model_len": 1 << 40}, "not contain"),
    ],
)
def test_what_cannot_be_compared_says_why(line: str, name: str, flags: dict[str, object], why: str) -> None:
    agreement, reason = _words(line, **flags)[name]

    assert agreement is Agreement.NOT_COMPARED
    assert why in reason


def test_a_shape_that_the_plan_does_not_have_is_not_judged() -> None:
    """No layer of Qwen3 is recurrent, and a refused plan has no block size."""
    lines = "Setting attention block size to 544 tokens\nPadding mamba page size by 1.49%"

    assert "mamba_pad_pct" not in _words(lines)
    assert "attention_block_size" not in _words(lines, max_model_len=1 << 40)
    assert "attention_backend" not in _words("Using FLASH_ATTN backend.", max_model_len=1 << 40)


def test_numbers_of_a_refusal_are_not_held_against_another_one() -> None:
    """The plan refuses the length itself: its words tell of no memory."""
    found = _words(REFUSED, max_model_len=1 << 20)

    assert "kv_needed_gib" not in found
    assert "est_max_model_len" not in found


OUT_OF_MEMORY = """\
Available KV cache memory: {gib:.2f} GiB
GPU KV cache size: 436,896 tokens
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
"""


def _fixes(log: str, *, gpu_specified: bool = True, **flags: object) -> dict[str, int | None]:
    serve = ServeFlags(**{"kv_cache_dtype": "auto", "tensor_parallel_size": 1} | flags)  # type: ignore[arg-type]
    request = PlanRequest(
        find_model("Qwen/Qwen3-4B").model, (find_gpu("h100-sxm-80gb"),), EngineChoice.of("0.19.0"), serve
    )
    explained = explain(read_log(log), request, gpu_specified=gpu_specified)
    assert explained.ending is not None
    return {fix.words: fix.tokens for fix in explained.ending.fixes}


def test_memory_that_ran_out_beside_the_cache_is_taken_from_the_cache() -> None:
    """A twentieth of the device less: 60 GiB less 0.05 of its total, at 16 * 147,456 bytes a block."""
    left = 60 * GIB - round(0.05 * find_gpu("h100-sxm-80gb").memory_bytes)
    fixes = _fixes(OUT_OF_MEMORY.format(gib=60))

    # The default of 0.9 less a twentieth; a GPU of 70 GiB or more serves 1,024 requests by default.
    assert fixes["--gpu-memory-utilization 0.85"] == left // (16 * 147_456) * 16
    assert "--max-num-seqs 256" in fixes


@pytest.mark.parametrize(
    ("gib", "flags", "offered"),
    [
        (60, {}, {"--gpu-memory-utilization 0.85", "--max-num-seqs 256"}),
        (60, {"max_num_seqs": 256}, {"--gpu-memory-utilization 0.85"}),
        (60, {"kv_cache_memory_bytes": 60 << 30}, {"--max-num-seqs 256"}),
        # A twentieth of 80 GB is more than the cache has.
        (3, {"max_num_seqs": 8, "max_model_len": 4096}, set()),
    ],
)
def test_what_leaves_more_beside_the_cache_is_offered_where_it_can(
    gib: float, flags: dict[str, Any], offered: set[str]
) -> None:
    names = {"--gpu-memory-utilization 0.85", "--max-num-seqs 256"}

    assert set(_fixes(OUT_OF_MEMORY.format(gib=gib), **flags)) & names == offered


def test_without_a_cache_or_a_known_gpu_nothing_is_taken_from_it() -> None:
    whole, *_, failure = OUT_OF_MEMORY.format(gib=60).splitlines(keepends=True)

    assert not [words for words in _fixes(failure) if "utilization" in words]
    assert not _fixes(whole + failure, gpu_specified=False)


def test_a_failure_without_words_takes_its_cause_from_the_plan_if_the_plan_has_one() -> None:
    silent = "ERROR EngineCore failed to start."
    heads = _explain(silent, "Qwen/Qwen3-4B", "h100-sxm-80gb", "0.19.0", tensor_parallel_size=3).ending
    ranks = _explain(silent, "Qwen/Qwen3-4B", "h100-sxm-80gb", "0.19.0", pipeline_parallel_size=100).ending

    assert heads is not None
    assert (heads.cause, heads.basis) == ("heads_do_not_divide", CauseBasis.PLAN)
    # Every fix that is offered divides the 32 heads.
    assert heads.fixes
    assert all(32 % int(fix.words.rpartition(" ")[2]) == 0 for fix in heads.fixes if "tensor" in fix.words)
    assert ranks is not None
    assert (ranks.cause, ranks.basis, ranks.fixes) == (None, CauseBasis.UNKNOWN, ())
    assert ranks.planned is not None


@pytest.mark.parametrize(
    ("config", "offered"),
    [
        # 72e9 parameters of 2 bytes are 134.1 GiB.
        ("model='/m/Some-72B-Instruct', dtype=torch.bfloat16, tensor_parallel_size=1", ["134 GiB"]),
        ("model='/m/Some-72B-Instruct', dtype=torch.bfloat16, tensor_parallel_size=2", []),
        ("model='/m/Some-72B-Instruct-AWQ', dtype=torch.float16, tensor_parallel_size=1", []),
        ("model='/m/Some-72B', dtype=torch.float16, quantization=awq, tensor_parallel_size=1", []),
    ],
)
def test_weights_that_no_gpu_holds_are_known_by_the_name_of_the_model(
    config: str, offered: list[str]
) -> None:
    log = read_log(
        f"torch.OutOfMemoryError: CUDA out of memory.\n"
        f"INFO 12-27 09:11:40 llm_engine.py:249] Initializing an LLM engine (v0.6.4) with config: {config}\n"
    )
    ending = explain(log, None, gpu_specified=False).ending

    assert ending is not None
    assert [words for words in offered if words in " ".join(ending.offers)] == offered
    assert bool(ending.offers) == bool(offered)


@pytest.mark.parametrize(
    ("ranks", "words"),
    [
        # 7,392 = 2^5 x 231, so that four parts make 29,568 = 231 x 128.
        (4, "--tensor-parallel-size 1, if ranks cut this weight: 7,392 x 4 = 29,568 is 231 blocks of 128"),
        (8, "--tensor-parallel-size 2, if ranks cut this weight: 7,392 x 4 = 29,568 is 231 blocks of 128"),
        (1, "other kernels or another checkpoint"),
    ],
)
def test_the_ranks_with_whole_blocks_follow_from_the_part_of_one(ranks: int, words: str) -> None:
    """vLLM 0.5.4, model_executor/layers/quantization/utils/marlin_utils.py verify_marlin_supports_shape."""
    log = read_log(
        f"vllm serve org/model -tp {ranks}\nValueError: Weight input_size_per_partition = 7392 is not "
        "divisible by min_thread_k = 128.\n"
    )
    ending = explain(log, None, gpu_specified=False).ending

    assert ending is not None
    assert ending.offers[0].startswith(words)
    assert ("smaller --tensor-parallel-size" in ending.remedy) == (ranks > 1)
