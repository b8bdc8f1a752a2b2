"""Why requests wait, by the numbers of the answer itself and of the engine's rules."""

import pytest

from service.advisor.candidates.admission import Admission, Waiting
from service.advisor.request.plan_request import Workload
from service.engines.flags import ServeFlags
from tests.advisor.questions import GEMMA, LLAMA, ask

SESSION = Workload(16_000, 160, 8)


def admission(workload: Workload, version: str = "0.32.0", model: str = LLAMA, **flags: int) -> Admission:
    requested = ServeFlags(tensor_parallel_size=1, max_model_len=65_536, kv_cache_dtype="auto", **flags)  # type: ignore[arg-type]
    found = ask(model, version, requested, gpu="h200-sxm-141gb", workload=workload).admission
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("workload", "blocks", "seqs", "waits_for", "words"),
    [
        # 16,000 / 16 = 1000 blocks to read a prompt, 1010 with all but the last token of its answer; the
        # null block is never free.
        (SESSION, 10_001, 64, Waiting.NOTHING, "All 8 requests run at once"),
        (
            SESSION,
            10_001,
            4,
            Waiting.MAX_NUM_SEQS,
            "4 of 8 requests run at once: max_num_seqs allows no more",
        ),
        (SESSION, 6001, 64, Waiting.BLOCKS, "of 8 requests run at once; the next one finds"),
        (Workload(65_536, 1, 8), 10_001, 64, Waiting.MAX_MODEL_LEN, "leaves no room for an answer"),
    ],
)
def test_what_requests_wait_for(
    workload: Workload, blocks: int, seqs: int, waits_for: Waiting, words: str
) -> None:
    found = admission(workload, num_gpu_blocks_override=blocks, max_num_seqs=seqs)

    assert found.waits_for is waits_for
    assert words in found.explanation


@pytest.mark.parametrize(("version", "hazardous"), [("0.20.1", True), ("0.20.2", False)])
def test_windows_that_are_not_counted_beyond_their_bound_are_a_hazard(version: str, hazardous: bool) -> None:
    """0.20.0 and 0.20.1 bound every step, 0.20.2 the gate alone (get_num_blocks_to_allocate)."""
    workload = Workload(60_000, 200, 2)
    hazards = admission(workload, version, GEMMA, max_num_batched_tokens=2048).hazards
    assert any("Cannot get 1 free blocks from the pool" in words for words in hazards) is hazardous
