"""The check that comes before the model: is as much free as the engine asks for?"""

from dataclasses import replace

import pytest

from service.advisor.candidates.plan_types import Candidate
from service.advisor.candidates.verdict import Verdict
from service.advisor.dry_runs.dry_run import dry_run
from service.advisor.request.plan_request import Model, PlanRequest
from service.engines.flags import ServeFlags
from service.engines.releases import find_release, rules_for
from service.gpus.catalog import find_gpu
from service.gpus.gpu_type import GpuType, inline_gpu
from service.units import GIB
from tests.memory.recorded import bundled

FLAGS = ServeFlags(tensor_parallel_size=1, max_model_len=4096, kv_cache_dtype="auto")


def planned(free: float | None, flags: ServeFlags, gpu: GpuType, release: str = "0.11.0") -> Candidate:
    request = PlanRequest(
        Model("Qwen/Qwen3-1.7B", None, "bundled", bundled("Qwen/Qwen3-1.7B")),
        (gpu,),
        serve=flags,
        free_memory_bytes=None if free is None else round(free * GIB),
    )
    return dry_run(request, flags, rules_for(find_release(release)), gpu)


@pytest.mark.parametrize(("release", "device"), [("0.11.0", ""), ("0.19.0", " cuda:0")])
def test_less_free_than_requested_is_refused_in_the_engines_words(release: str, device: str) -> None:
    """As a log of 0.11 on a card of 24 GB: 7.11 GiB free, utilization 0.5, half of 23.54 is 11.77."""
    card = inline_gpu("a card of 24 GB", round(23.54 * GIB), "8.6")

    candidate = planned(7.11, replace(FLAGS, gpu_memory_utilization=0.5), card, release)

    assert candidate.verdict is Verdict.REFUSED
    assert candidate.error is not None
    assert candidate.error.message == (
        f"Free memory on device{device} (7.11/23.54 GiB) on startup is less than desired GPU memory "
        "utilization (0.5, 11.77 GiB). Decrease GPU memory utilization or reduce GPU memory used by other "
        "processes."
    )


def test_enough_free_memory_changes_nothing() -> None:
    card = find_gpu("h100-sxm-80gb")

    specified = planned(78.68, replace(FLAGS, gpu_memory_utilization=0.9), card)

    assert specified.verdict is Verdict.STARTS
    assert specified.kv_cache == planned(None, replace(FLAGS, gpu_memory_utilization=0.9), card).kv_cache


def test_a_utilization_that_leaves_no_room_for_the_context_is_uncertain() -> None:
    """On an H100 78.68 of 79.19 GiB were free when 0.19.0 started: 0.9936 at most."""
    card = find_gpu("h100-sxm-80gb")

    assert planned(None, replace(FLAGS, gpu_memory_utilization=0.99), card).verdict is Verdict.STARTS
    assert planned(None, replace(FLAGS, gpu_memory_utilization=0.999), card).verdict is Verdict.UNCERTAIN
