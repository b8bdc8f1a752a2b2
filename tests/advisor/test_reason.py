"""Sentences of a reason are true of the candidate that they are about."""

import pytest

from service.engines.flags import ServeFlags
from tests.advisor.questions import ask_all


@pytest.mark.parametrize(
    "flags",
    [
        ServeFlags(data_parallel_size=16, enable_expert_parallel=True),
        ServeFlags(tensor_parallel_size=16),
        ServeFlags(tensor_parallel_size=8, pipeline_parallel_size=2),
    ],
)
def test_stages_are_a_choice_only_where_the_search_chose_them(flags: ServeFlags) -> None:
    """16 GPUs are two nodes of 8; the sizes are the caller's, and two of these starts have one stage."""
    found = ask_all("deepseek-ai/DeepSeek-V3", "0.33.0", flags, gpu="h200-sxm-141gb")
    assert found.recommended is not None
    assert found.recommended.gpus >= 16
    assert "pipeline stage" not in found.reason
    assert "more GPUs than one node has" in found.reason
    assert "requests of 163,840 tokens" in found.reason


def test_stages_that_the_search_chose_are_named() -> None:
    """671 billion parameters in 8 bits do not fit 8 x 80 GB; two nodes in two stages hold them."""
    found = ask_all("deepseek-ai/DeepSeek-V3", "0.33.0", gpu="h100-sxm-80gb")
    assert found.recommended is not None
    staged = found.recommended.pipeline_parallel_size > 1
    assert ("one pipeline stage on each" in found.reason) is staged


def test_a_length_that_the_engine_chooses_is_the_one_that_is_named() -> None:
    """A token of Qwen3-32B takes 64 layers x 8 heads x 128 x 2 (K and V) x 2 B = 256 KiB.

    Weights of 61 GiB leave less than the 10 GiB of 40,960 such tokens on one H100, so the engine's own choice
    (`--max-model-len auto`) is a shorter context.
    """
    flags = ServeFlags(max_model_len=-1)
    found = ask_all("Qwen/Qwen3-32B", "0.33.0", flags)
    best = found.recommended
    assert best is not None
    assert best.memory is not None
    tokens = best.memory.available_kv.bytes // (256 << 10) // 16 * 16
    assert tokens < 40960
    # One block is the engine's own, so one request has a block less.
    assert f"a context of {tokens - 16:,} tokens, the longest that is expected to fit" in found.reason
    assert "40,960" not in found.reason
    assert "whole context" not in found.reason
