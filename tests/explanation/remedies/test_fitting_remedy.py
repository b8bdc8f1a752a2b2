"""What another platform, host or release is needed for is not advised, and what was tried is not repeated."""

import pytest

from service.explanation.remedies.fitting_remedy import fitting_remedy
from service.startup_log.log import read_log

FAILED = "\nRuntimeError: x\n"
ON_CUDA = "GPU models and configuration: GPU 0: NVIDIA H100 80GB HBM3\n" + FAILED
ON_ROCM = "INFO 11-01 10:00:00 [__init__.py:1] Automatically detected platform rocm.\n" + FAILED
AT_HOME = 'File "/home/me/.venv/lib/python3.12/site-packages/vllm/a.py", line 1, in f' + FAILED
IN_IMAGE = "docker run vllm/vllm-openai:v0.20.0 --model a/b\n" + AT_HOME


def of_release(release: str) -> str:
    return f"INFO 11-01 10:00:00 [utils.py:1] vLLM API server version {release}\n{FAILED}"


@pytest.mark.parametrize(
    ("text", "remedy", "left"),
    [
        (ON_ROCM, "Run nvidia-smi. Use a smaller model.", "Use a smaller model."),
        (ON_CUDA, "Run nvidia-smi. Use a smaller model.", "Run nvidia-smi. Use a smaller model."),
        (ON_CUDA, "On AMD use the ROCm build; on NVIDIA the wheel.", "On NVIDIA the wheel."),
        (ON_ROCM, "Use: on NVIDIA a (b, c), on AMD d; do e.", "Use: on AMD d; do e."),
        (ON_ROCM, "On AMD use the ROCm build; on NVIDIA the wheel.", "On AMD use the ROCm build."),
        (AT_HOME, "Give more memory (docker --shm-size), or do b.", "Give more memory, or do b."),
        (IN_IMAGE, "Give more memory (docker --shm-size).", "Give more memory (docker --shm-size)."),
        (AT_HOME, "Look for: `docker stop`, a probe, a script.", "Look for: a probe or a script."),
        (AT_HOME, "If so, use docker run --gpus all, or pass --dtype auto.", "If so, pass --dtype auto."),
    ],
)
def test_what_is_for_another_place_is_left_out(text: str, remedy: str, left: str) -> None:
    assert fitting_remedy(remedy, read_log(text)) == left


@pytest.mark.parametrize(
    ("release", "remedy", "left"),
    [
        # vLLM 0.17.0, engine/arg_utils.py: the first release with --moe-backend
        ("0.12.0", "Pass --moe-backend triton, or use a newer release.", "Use a newer release."),
        ("0.20.0", "Pass --moe-backend triton, or do b.", "Pass --moe-backend triton, or do b."),
        ("0.20.0", "Pass --x a (before 0.12 --y a).", "Pass --x a."),
        ("0.11.0", "Pass --x a (before 0.12 --y a).", "Pass --x a (before 0.12 --y a)."),
        ("0.20.0", "Use 0.6.0 or later, and do b.", "Do b."),
        ("0.5.0", "Use 0.6.0 or later, and do b.", "Use 0.6.0 or later, and do b."),
        ("0.33.0", "Use a newer release.", "Use a release after 0.33.0."),
        ("0.7.1", "Since 0.12 pass a; do b.", "Do b."),
        ("0.12.0", "Since 0.12 pass a; do b.", "Since 0.12 pass a; do b."),
        ("0.7.1", "Before 0.8 set x; since 0.12 pass a.", "Before 0.8 set x."),
        ("0.9.0", "Before 0.8 set x; since 0.12 pass a; do b.", "Do b."),
    ],
)
def test_what_the_release_has_or_lacks_counts(release: str, remedy: str, left: str) -> None:
    assert fitting_remedy(remedy, read_log(of_release(release))) == left


@pytest.mark.parametrize(
    ("said", "remedy", "left"),
    [
        ("I tried the nightly build and get the same error.", "Use a newer release, or do b.", "Do b."),
        ("It still crashes even with enforce_eager=True.", "Pass --enforce-eager, or do b.", "Do b."),
        ("Clearing ~/.cache/vllm did not help.", "Delete the folder; use b.", "Use b."),
    ],
)
def test_what_was_tried_is_not_advised(said: str, remedy: str, left: str) -> None:
    found = fitting_remedy(remedy, read_log(f"[Bug]: it fails\n\n{said}\n{FAILED}"))
    assert found.startswith(f"{left} ")
    assert found.endswith("given here already, or did not help.")


@pytest.mark.parametrize("said", ["It works with the nightly build.", "The nightly build fixed it."])
def test_what_helped_is_advised(said: str) -> None:
    text = f"[Bug]: it fails\n\n{said}\n{FAILED}"
    assert fitting_remedy("Use a newer release.", read_log(text)) == "Use a newer release."


def test_a_value_that_the_start_had_is_not_advised() -> None:
    log = read_log(f"vllm serve a/b --moe-backend marlin{FAILED}")
    assert fitting_remedy("Pass --moe-backend marlin, or use b.", log).startswith("Use b.")
    assert fitting_remedy("Pass --moe-backend triton, or use b.", log).startswith("Pass --moe-backend triton")


LISTED = "Pass --attention-backend FLASH_ATTN, or TRITON_ATTN on another GPU."


@pytest.mark.parametrize(
    ("gpu", "left"),
    [
        # vLLM 0.33.0, flash_attn.py, supports_compute_capability: 8.0 at least; a Tesla T4 has 7.5
        ("GPU 0: Tesla T4", "Pass --attention-backend TRITON_ATTN on another GPU."),
        ("GPU 0: NVIDIA A100-SXM4-40GB", LISTED),
        ("a GPU of another maker", LISTED),
        ("RuntimeError: a GPU with compute capability 0.5", LISTED),
    ],
)
def test_a_backend_that_the_gpu_cannot_run_is_not_advised(gpu: str, left: str) -> None:
    assert fitting_remedy(LISTED, read_log(f"{gpu}\n{FAILED}")) == left
