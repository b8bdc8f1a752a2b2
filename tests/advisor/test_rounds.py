"""A round gives what dry runs of its flags give, whatever length it was planned with first."""

from dataclasses import replace
from random import Random

import pytest

from service.advisor.dry_runs.dry_run import PlainSteps, dry_run, dry_runs
from service.advisor.dry_runs.grid import GridOfLength, grid_of
from service.advisor.dry_runs.plan_cache import CachedSteps
from service.advisor.request.plan_request import EngineChoice, Model, PlanRequest, Workload
from service.engines.flags import ServeFlags
from service.engines.releases import RELEASES
from service.gpus.catalog import find_gpu
from tests.accuracy.oracle import bundled_architecture
from tests.advisor.questions import GEMMA, LLAMA, QWEN

LENGTHS = (None, -1, 1, 512, 4096, 16384, 40_000, 1 << 18)
"""Below a batch, and above what the models have."""
GPUS = ("rtx-3090-24gb", "h100-sxm-80gb", "t4-16gb", "b200-180gb")
DTYPES = ("auto", "bfloat16", "float16", "fp8", "fp8_e4m3", "fp8_e5m2", "turboquant_k8v4", "nvfp4")
MODELS = (
    QWEN,
    GEMMA,
    LLAMA,
    "openai/gpt-oss-20b",
    "deepseek-ai/DeepSeek-V2-Lite",
    "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "BAAI/bge-m3",
)
"""Of one kind of attention and of several, with experts, with recurrent states, and an encoder."""


def _requests(model: str, random: Random) -> list[PlanRequest]:
    read = Model(model, None, "bundled", bundled_architecture(model))
    version = str(random.choice(RELEASES))
    request = PlanRequest(read, (find_gpu(random.choice(GPUS)),), EngineChoice.of(version))
    loaded = replace(request, workload=Workload(3000, 100, 8))
    return [request, loaded, replace(request, free_memory_bytes=20 << 30), replace(request, counts=(2,))]


@pytest.mark.parametrize("model", MODELS)
def test_a_round_of_any_length_equals_that_of_plain_steps(model: str) -> None:
    random = Random(f"rounds of {model}")
    for request in _requests(model, random):
        (gpu,), rules = request.gpus, request.engine.rules
        cached, plain = CachedSteps(request.model, rules), PlainSteps(request.model, rules)
        for length in random.sample(LENGTHS, len(LENGTHS)):
            asked = grid_of(ServeFlags(max_model_len=length), DTYPES, (1, 4))
            expected = list(dry_runs(request, asked, gpu, plain))
            for _ in range(2):
                assert list(dry_runs(request, asked, gpu, cached)) == expected, (gpu.id, length)


@pytest.mark.parametrize("model", MODELS)
def test_a_round_of_one_dtype_is_a_dry_run_of_each_size(model: str) -> None:
    """A dtype that was specified is listed in any case, under the name that was given."""
    random = Random(f"dtypes of {model}")
    request = _requests(model, random)[0]
    (gpu,), rules = request.gpus, request.engine.rules
    cached = CachedSteps(request.model, rules)
    for dtype in DTYPES:
        flags = ServeFlags(kv_cache_dtype=dtype, max_model_len=2048)
        asked: GridOfLength = grid_of(flags, ("auto",), (1, 2))
        expected = [
            dry_run(request, replace(flags, tensor_parallel_size=size), rules, gpu) for size in (1, 2)
        ]
        assert list(dry_runs(request, asked, gpu, cached)) == expected
