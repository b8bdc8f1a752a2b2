"""What is said first, by the part that an exception passed."""

from collections.abc import Sequence

import pytest

from service.explanation.diagnosis import diagnose
from service.startup_log.errors.tracebacks import Frame
from service.startup_log.failures.advice import AdvisedStart, advice_for
from service.startup_log.failures.logged_failure import Failure
from service.startup_log.log import read_log

FLASHINFER = (
    Frame("site-packages/flashinfer/decode.py", "run"),
    Frame("vllm/v1/attention/backends/flashinfer.py", "forward"),
)
COMPILED = (Frame("site-packages/torch/_inductor/runtime/triton_heuristics.py", "run"),)
EXPERTS = (Frame("vllm/model_executor/layers/fused_moe/fused_moe.py", "fused_experts"), *COMPILED)


def said(cause: str, frames: Sequence[Frame], release: str | None = None, **flags: bool) -> str:
    failure = Failure("", "", 1, None, {}, frames=tuple(frames))
    return advice_for(cause, failure, AdvisedStart(release, flags, "profiling"))


@pytest.mark.parametrize(
    ("frames", "release", "words"),
    [
        # envs.py has the variable up to 0.14.0, engine/arg_utils.py the flags since 0.13.0 and 0.17.0.
        (FLASHINFER, "0.12.0", "VLLM_ATTENTION_BACKEND="),
        (FLASHINFER, "0.13.0", "--attention-backend "),
        (FLASHINFER, None, "--attention-backend "),
        (COMPILED, "0.19.0", "--enforce-eager"),
        (EXPERTS, "0.19.0", "--moe-backend"),
        (EXPERTS, "0.15.1", "newer release"),
    ],
)
def test_the_nearest_part_and_the_release_decide(
    frames: Sequence[Frame], release: str | None, words: str
) -> None:
    assert words in said("illegal_memory_access", frames, release)


def test_a_start_without_compilation_is_not_told_to_leave_it_out() -> None:
    assert said("illegal_memory_access", COMPILED, enforce_eager=True) == ""


def test_a_cause_that_no_kernel_has_gets_no_advice() -> None:
    assert said("model_not_found", COMPILED) == ""
    assert said("illegal_memory_access", ()) == ""


def test_what_is_compiled_for_flashinfer_can_be_left_out() -> None:
    # envs.py has the variable since 0.5.5
    sampling = (Frame("site-packages/flashinfer/jit/sampling.py", "gen_sampling_module"),)

    assert "VLLM_USE_FLASHINFER_SAMPLER=0" in said("cuda_compiler_too_old", sampling)
    assert "--attention-backend" in said("cuda_headers_missing", FLASHINFER)
    assert said("gpu_too_old_for_triton", COMPILED) == ""


def log_of(above: str, frame: str) -> str:
    return (
        f"INFO 01-01 10:00:00 [core.py:1] {above}\n"
        f'Traceback (most recent call last):\n  File "/opt/site-packages/{frame}\n'
        "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
    )


def test_the_first_thing_to_do_comes_before_what_helps_in_general() -> None:
    log = read_log(
        log_of("Model loading took 14.2 GiB", 'torch/_inductor/output_code.py", line 1, in __call__')
    )
    ending = diagnose(log, None)

    assert ending is not None
    assert ending.cause == "illegal_memory_access"
    assert ending.remedy.startswith("First pass --enforce-eager")


def test_what_cannot_help_while_weights_are_loaded_is_not_said() -> None:
    log = read_log(
        log_of("Starting to load model a/b...", 'torch/nn/modules/module.py", line 1, in __call__')
    )
    ending = diagnose(log, None)

    assert ending is not None
    assert (ending.cause, ending.reached) == ("illegal_memory_access", "loading")
    assert "--enforce-eager" not in ending.remedy
    assert "--attention-backend" not in ending.remedy
