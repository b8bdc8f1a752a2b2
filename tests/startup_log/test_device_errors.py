"""Errors of CUDA, in the forms in which torch, NCCL, Triton and others print them."""

import pytest

from service.startup_log.catalogue.device_errors import (
    BEGINNING,
    ERRORS,
    MOST_TEXT,
    DeviceError,
    device_error,
)
from service.startup_log.catalogue.phrases import CAUSES
from service.startup_log.log import read_log


def test_every_error_has_a_cause_and_one_number() -> None:
    known = {cause.name for cause in CAUSES}
    assert len({each.code for each in ERRORS}) == len(ERRORS) >= 130
    assert {each.cause for each in ERRORS} <= known
    assert max(len(each.says) for each in ERRORS) <= MOST_TEXT
    assert min(len(each.says) for each in ERRORS if each.says) >= BEGINNING


@pytest.mark.parametrize("error", [each for each in ERRORS if each.says], ids=lambda each: each.names[0])
def test_an_error_is_known_in_every_form(error: DeviceError) -> None:
    """One that is followed by other words, and one by another error's longer text, are known too."""
    code, says = error.code, error.says
    forms = [
        f"RuntimeError: CUDA error: {says}",
        f"RuntimeError: Triton Error [CUDA]: {says}",
        f"h100:1:2 [0] enqueue.cc:1 NCCL WARN Cuda failure {code} '{says}'",
        f"CUDA failure {code}: {says} ; GPU=0 ; hostname=a",
        f"[Bug]: CUDA error: {says} when it serves",
        *(f"failed with {name} (in a call)" for name in error.names),
        f"CUDA error ({code})",
    ]
    same = {each.cause for each in ERRORS if each.says == says}
    assert {device_error(form) for form in forms} <= same
    assert error.cause in same


@pytest.mark.parametrize(
    "line", ["", "CUDA error", "cuda is fine", "cudaErrorOfNobody", "CUDA error 1234", "error 700"]
)
def test_what_is_no_error_of_cuda_has_no_cause(line: str) -> None:
    assert device_error(line) is None


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        # vllm-project/vllm#19077, a title
        ("[Bug]: CUDA error: unknown error when running vllm serve on WSL2", "gpu_not_ready"),
        # vllm-project/vllm#32895
        ("torch.AcceleratorError: HIP error: no kernel image is available", "kernels_not_for_this_amd_gpu"),
        # NCCL, misc/cudawrap.cc, beside what the device reports
        ("NCCL WARN Cuda failure 2 'out of memory'", "nccl_out_of_memory"),
        ("NCCL WARN Cuda failure 1 'invalid argument'", "nccl"),
        ("RuntimeError: Triton Error [CUDA]: device kernel image is invalid", "no_kernels_for_this_gpu"),
        ("MPS client failed to connect to the MPS control daemon or the MPS server", "mps_not_usable"),
        ("pynvml.NVMLError_DriverNotLoaded: Driver Not Loaded", "no_gpu_visible"),
    ],
)
def test_a_line_has_the_cause_of_its_error(line: str, cause: str) -> None:
    failure = read_log(line).failure

    assert failure is not None
    assert failure.cause is not None
    assert failure.cause.name == cause
