"""The tensors that a planned rank allocates: as many as the engine has, and together what is planned."""

from dataclasses import replace

import pytest

from service.advisor.candidates.plan_types import Candidate
from service.advisor.dry_runs.dry_run import dry_run
from service.advisor.dry_runs.tensors import planned_tensors
from service.advisor.request.plan_request import EngineChoice, PlanRequest
from service.application.catalogs.model_reading import read_model
from service.engines.flags import ServeFlags
from service.engines.releases import find_release, rules_for
from service.gpus.catalog import find_gpu
from service.hub.bundled.snapshot import BundledSnapshot

H100 = find_gpu("h100-sxm-80gb")
FLAGS = ServeFlags(kv_cache_dtype="auto", tensor_parallel_size=1, max_model_len=4096)


def planned(model: str, flags: ServeFlags = FLAGS, release: str = "0.19.0") -> Candidate:
    fetched = BundledSnapshot().get(model)
    assert fetched is not None
    rules = rules_for(find_release(release))
    request = PlanRequest(read_model(fetched, rules.checkpoints), (H100,), EngineChoice.of(release), flags)
    return dry_run(request, flags, rules, H100)


@pytest.mark.parametrize("tensor_parallel_size", [1, 2])
@pytest.mark.parametrize(
    "model",
    [
        "meta-llama/Llama-3.2-1B-Instruct",
        "google/gemma-3-1b-it",
        "Qwen/Qwen3.5-0.8B",
        "deepseek-ai/DeepSeek-V2-Lite",
        "openai/gpt-oss-20b",
    ],
)
@pytest.mark.parametrize("release", ["0.19.0", "0.33.0"])
def test_together_they_are_what_is_planned(model: str, tensor_parallel_size: int, release: str) -> None:
    candidate = planned(model, replace(FLAGS, tensor_parallel_size=tensor_parallel_size), release)
    assert candidate.kv_cache is not None
    assert candidate.memory is not None
    tensors = planned_tensors(candidate, H100)
    assert sum(tensors.weights) == candidate.memory.weights.bytes
    assert sum(tensors.cache) == candidate.kv_cache.num_blocks * candidate.kv_cache.bytes_per_block
    assert all(size > 0 for size in (*tensors.weights, *tensors.cache))


def test_the_modules_of_a_plain_model() -> None:
    """Llama 3.2 1B: 16 layers, hidden 2048, 32 and 8 heads of 64, 8192 wide, 128256 tokens, output tied."""
    weights = planned_tensors(planned("meta-llama/Llama-3.2-1B-Instruct"), H100).weights
    embedding = 128_256 * 2048 * 2
    queries_keys_values = 2048 * (32 + 8 + 8) * 64 * 2
    gate_up = 2048 * 2 * 8192 * 2
    assert weights[0] == embedding
    assert weights.count(embedding) == 1
    assert weights.count(queries_keys_values) == 16
    assert weights.count(gate_up) == 16


@pytest.mark.parametrize(
    ("model", "count"),
    [
        # 16 layers of one kind.
        ("meta-llama/Llama-3.2-1B-Instruct", 16),
        # 22 layers with windows and 4 without, in groups of 4: each tensor is shared by all groups.
        ("google/gemma-3-1b-it", 4),
        # 27 layers of latent attention.
        ("deepseek-ai/DeepSeek-V2-Lite", 27),
    ],
)
def test_the_tensors_of_a_cache(model: str, count: int) -> None:
    cache = planned_tensors(planned(model), H100).cache
    assert len(cache) == count
    assert len(set(cache)) == 1


def test_what_does_not_start_has_no_tensors() -> None:
    with pytest.raises(ValueError, match="has no tensors"):
        planned_tensors(planned("Qwen/Qwen3-Next-80B-A3B-Instruct"), H100)
