"""What a start cannot do is not advised: fewer ranks than one, a flag that is not set."""

import pytest

from service.explanation.remedies.moot_alternatives import without_moot
from service.explanation.remedies.start_facts import StartFacts, facts_of
from service.startup_log.log import read_log


def facts(text: str) -> StartFacts:
    return facts_of(read_log(text))


NO_TENSORS = facts("vllm serve org/model --max-model-len 4096\nRuntimeError: x")
TENSORS = facts("vllm serve org/model -tp 4 --attention-backend FLASHINFER\nRuntimeError: x")
NO_COMMAND = facts("RuntimeError: x")


@pytest.mark.parametrize(
    ("remedy", "left"),
    [
        ("Use a smaller --tensor-parallel-size. Use another checkpoint.", "Use another checkpoint."),
        ("Use a, b, or a smaller --tensor-parallel-size if it was cut. C.", "Use a, or b. C."),
        ("Use another --dtype, or remove --attention-backend.", "Use another --dtype."),
        ("Remove --attention-backend, or use another --dtype.", "Use another --dtype."),
        ("Remove --quantization, so that a is used; pass fp8.", "Pass fp8."),
        ("Use a smaller --tensor-parallel-size.", ""),
        ("Remove --max-model-len, or do b.", "Remove --max-model-len, or do b."),
    ],
)
def test_what_the_command_does_not_allow_is_left_out(remedy: str, left: str) -> None:
    assert without_moot(remedy, NO_TENSORS) == left


def test_what_the_command_allows_stays() -> None:
    for remedy in ("Use a smaller --tensor-parallel-size.", "Use b, or remove --attention-backend."):
        assert without_moot(remedy, TENSORS) == remedy


def test_without_the_command_a_flag_is_named_with_its_condition() -> None:
    assert without_moot("Do a, or remove --attention-backend.", NO_COMMAND) == (
        "Do a, or remove --attention-backend if it is set."
    )
    assert without_moot("Use a smaller --tensor-parallel-size.", NO_COMMAND) == (
        "Use a smaller --tensor-parallel-size."
    )


def test_a_resolved_size_of_one_counts_too() -> None:
    log = facts(
        "INFO 08-02 09:40:11 llm_engine.py:176] Initializing an LLM engine (v0.5.3.post1) with config: "
        "model='/m', tensor_parallel_size=1, quantization=awq_marlin\n"
    )
    assert without_moot("Use a smaller --tensor-parallel-size. Do b.", log) == "Do b."
