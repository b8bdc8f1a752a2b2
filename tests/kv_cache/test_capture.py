"""CUDA graphs of whole decode steps, and the recurrent states they need."""

from dataclasses import replace

import pytest

from service.advisor.candidates.engine_start import Start
from service.advisor.dry_runs.dry_run import dry_start
from service.engines.flags import ServeFlags
from service.engines.releases import find_release, rules_for
from service.gpus.catalog import find_gpu
from service.kv_cache.capture import capture_failure
from tests.accuracy.oracle import bundled_architecture

HYBRID, DENSE = "Qwen/Qwen3.6-35B-A3B", "meta-llama/Llama-3.1-8B"


def started(model: str, release: str, **flags: object) -> Start:
    requested = replace(ServeFlags(), **flags)  # type: ignore[arg-type]
    rules = rules_for(find_release(release))
    return dry_start(bundled_architecture(model), requested, rules, find_gpu("h100-sxm-80gb"))


def test_the_words_are_those_of_a_logged_failure() -> None:
    start = started(HYBRID, "0.25.1")

    words = capture_failure(start.layout, start.engine_config, 615)

    # Logged for Qwen 3.6 27B, whose default is 1,024 sequences too.
    assert words is not None
    assert words.startswith("max_num_seqs (1024) exceeds available Mamba cache blocks (615)")


@pytest.mark.parametrize(
    ("model", "release", "flags", "blocks"),
    [
        (HYBRID, "0.25.1", {}, 1024),
        (HYBRID, "0.25.1", {"enforce_eager": True}, 1),
        (HYBRID, "0.25.1", {"max_num_seqs": 64}, 64),
        (HYBRID, "0.25.1", {"cudagraph_mode": "PIECEWISE"}, 1),
        (HYBRID, "0.25.1", {"optimization_level": 0}, 1),
        (HYBRID, "0.19.1", {}, 1),
        (DENSE, "0.25.1", {}, 1),
    ],
)
def test_nothing_fails(model: str, release: str, flags: dict[str, object], blocks: int) -> None:
    start = started(model, release, **flags)

    assert capture_failure(start.layout, start.engine_config, blocks) is None
