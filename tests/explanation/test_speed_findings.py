"""Measured speed beside the planned one."""

from service.advisor.request.plan_request import PlanRequest
from service.engines.flags import ServeFlags
from service.explanation.explain import explain
from service.explanation.explanation_types import Agreement, Finding
from service.gpus.catalog import find_gpu
from service.startup_log.log import read_log
from tests.accuracy.startups_models import find_model
from tests.speed.rows import read_rows
from tests.startup_log.test_measured_service import LIMITED, METRICS


def findings(text: str, model: str = "Qwen/Qwen3-8B", *, gpu_specified: bool = True) -> dict[str, Finding]:
    request = PlanRequest(
        find_model(model).model, (find_gpu("h100-sxm-80gb"),), serve=ServeFlags(kv_cache_dtype="auto")
    )
    explanation = explain(read_log(text), request, gpu_specified=gpu_specified)
    return {each.name: each for each in explanation.findings}


def test_a_benchmark_is_compared_with_the_plan() -> None:
    found = findings(LIMITED)
    assert found["tpot_ms"].logged == 22.10
    low, high = found["tpot_ms"].low, found["tpot_ms"].high
    assert low is not None
    assert high is not None
    inside = low <= 22.10 <= high
    assert found["tpot_ms"].agreement is (Agreement.WITHIN if inside else Agreement.DIFFERS)
    assert found["output_tokens_per_second"].logged == 2241.42
    assert found["ttft_ms"].planned is not None


def test_a_published_measurement_agrees() -> None:
    row = next(each for each in read_rows() if each.model == "openai/gpt-oss-120b")
    block = (
        "============ Serving Benchmark Result ============\n"
        f"Successful requests: 1000\nMaximum request concurrency: {row.concurrency}\n"
        f"Total input tokens: {round(1000 * row.prompt_tokens)}\n"
        f"Total generated tokens: {round(1000 * row.output_tokens)}\n"
        f"Median TPOT (ms): {row.tpot_ms}\n"
    )
    request = PlanRequest(
        find_model(row.checkpoint).model,
        (find_gpu(row.gpu),),
        serve=ServeFlags(
            tensor_parallel_size=row.tensor_parallel_size, kv_cache_dtype="auto", max_model_len=32768
        ),
    )
    assert "--max-model-len 32768" in row.flags
    (found,) = [each for each in explain(read_log(block), request).findings if each.name == "tpot_ms"]
    assert found.agreement is Agreement.WITHIN


def test_a_measurement_faster_than_the_memory_differs() -> None:
    assert findings(LIMITED.replace("22.10", "1.10"))["tpot_ms"].agreement is Agreement.DIFFERS


def test_without_a_gpu_type_nothing_is_compared() -> None:
    found = findings(LIMITED + METRICS, gpu_specified=False)
    assert found["tpot_ms"].agreement is Agreement.NOT_COMPARED
    assert found["num_gpu_blocks"].agreement is Agreement.NOT_COMPARED


def test_the_cache_of_a_running_engine() -> None:
    found = findings(METRICS)["num_gpu_blocks"]
    assert found.logged == 573
    assert found.agreement is Agreement.DIFFERS
    assert found.planned is not None
    agreeing = METRICS.replace("573", str(round(float(found.planned))))
    assert findings(agreeing)["num_gpu_blocks"].agreement in {Agreement.AGREES, Agreement.WITHIN}
