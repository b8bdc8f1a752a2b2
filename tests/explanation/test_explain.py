"""Starts whose arithmetic is known from elsewhere."""

from service.advisor.answer import Verdict
from service.advisor.request import EngineChoice, PlanRequest
from service.engines.flags import ServeFlags
from service.explanation.answer import Agreement, CauseBasis, Explanation
from service.explanation.explain import explain
from service.gpus.catalog import find_gpu
from service.startup_log.log import read_log
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
    request = PlanRequest(find_model(model).model, (find_gpu(gpu),), EngineChoice(release), serve)
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
