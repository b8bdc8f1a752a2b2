"""Where a cause says only that a check refused the start, the rule that its message states says why."""

import pytest

from service.explanation.diagnosis import diagnose
from service.startup_log.log import read_log

DCP = (
    "Decode context parallelism for GQA/MQA requires `--tensor-parallel-size` (2) to be greater than the "
    "model's total number of KV heads (8). Increase `--tensor-parallel-size` or set "
    "`--decode-context-parallel-size 1`."
)
ROCM = "ROCM_FLASHMLA_SPARSE is not supported for DeepSeek V4.1 on ROCm; use ROCM_FLASHMLA_SPARSE_DSV41."
RULES = [
    # The message, and words by hand: what is wrong, what to do. The messages are of vLLM 0.33.0, config/.
    (
        "ValueError: RecoverSSM requires --mamba-backend triton",
        "--mamba-backend triton",
        "leave out RecoverSSM",
    ),
    (f"ValueError: {DCP}", "Decode context parallelism", "Increase `--tensor-parallel-size` or set"),
    ("ValueError: max_cpu_loras (1) must be >= max_loras (4).", "max_cpu_loras (1)", "--max-loras"),
    (
        "ValueError: HiSparse does not support decode context parallelism.",
        "HiSparse does not work with decode context parallelism",
        "Leave out what asks for decode context parallelism",
    ),
    (
        "ValueError: --use-replayssm is incompatible with KV connectors (KV cache offload)",
        "together: --use-replayssm, and KV connectors",
        "Leave out one of the two",
    ),
    (f"ValueError: {ROCM}", "DeepSeek V4.1 on ROCm", "use ROCM_FLASHMLA_SPARSE_DSV41"),
    (
        "ValueError: Unknown Mamba SSU backend: 'cuda'. Valid options are: triton, flashinfer",
        "'cuda'",
        "Valid options are: triton, flashinfer",
    ),
]
FRAME = '  File "/usr/lib/python3/site-packages/vllm/config/vllm.py", line 3506, in __post_init__\n'


@pytest.mark.parametrize(("said", "why", "helps"), RULES, ids=[row[0][:40] for row in RULES])
def test_rule_of_a_check_says_what_is_wrong_and_what_helps(said: str, why: str, helps: str) -> None:
    found = diagnose(read_log(f"Traceback (most recent call last):\n{FRAME}{said}"), None)

    assert found is not None
    assert (why in found.means, helps in found.remedy) == (True, True), (found.means, found.remedy)


def test_words_of_the_system_are_no_rule_of_a_package() -> None:
    """strerror(ENOTSUP); zmq raises it where a socket's descriptor is asked for at its end."""
    found = diagnose(read_log("zmq.error.ZMQError: Operation not supported"), None)

    assert found is not None
    assert "does not have this" not in found.means


def test_rule_stands_without_what_pydantic_puts_around_it() -> None:
    text = (
        "(APIServer pid=1) pydantic_core._pydantic_core.ValidationError: 1 validation error for LoRAConfig\n"
        "(APIServer pid=1)   Value error, max_cpu_loras (1) must be >= max_loras (4). "
        "[type=value_error, input_value=ArgsKwargs((), {'max_lora_rank': 16}), input_type=ArgsKwargs]\n"
    )

    found = diagnose(read_log(text), None)

    assert found is not None
    assert "max_cpu_loras (1) must be >= max_loras (4)" in found.means
    assert "ArgsKwargs" not in found.means


def test_braces_of_a_message_are_no_holes() -> None:
    found = diagnose(read_log(f"{FRAME}ValueError: '{{flags}}' requires {{object}}"), None)

    assert found is not None
    assert "{object}" in found.means


def test_sentence_of_a_person_states_no_rule_of_a_check() -> None:
    found = diagnose(read_log("vllm crashes: my model does not support pipeline parallelism."), None)

    assert found is None or "In this release" not in found.means


def test_part_that_refused_is_known_behind_the_frame_of_pydantic() -> None:
    # The form of a log of May 2026; vLLM raises it in layers/quantization/inc.
    text = (
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig\n"
        "  Value error, Unsupported data_type: mx_fp, currently only support  {'int'}. "
        "[type=value_error, input_value=ArgsKwargs((), {'model_co...'}), input_type=ArgsKwargs]\n"
    )

    found = diagnose(read_log(text), None)

    assert found is not None
    assert found.cause == "quantization_not_supported"
