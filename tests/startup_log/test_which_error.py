"""Which of several errors a text is about, and which texts are about none."""

import pytest

from service.application.text.words import with_type
from service.explanation.diagnosis import diagnose
from service.startup_log.log import read_log

TOLD = """\
Default image fails while kernels are profiled

  1. The model revision was not pinned, resulting in:

     RuntimeError: Cannot find any model weights

     {said}

  2. With the tested checkpoint it failed during startup:

     RuntimeError: CUDA error: an illegal memory access was encountered
"""
"""The form of MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark#20, with an error that the engine names."""


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ("Serving the complete snapshot fixed this part.", "illegal_memory_access"),
        ("This part is not fixed by a newer image.", "model_file_missing"),
        ("", "model_file_missing"),
    ],
)
def test_an_error_that_was_mended_is_not_the_one_that_is_left(said: str, cause: str) -> None:
    found = diagnose(read_log(TOLD.format(said=said)), None)

    assert found is not None
    assert found.cause == cause


def test_the_only_error_counts_though_it_was_mended() -> None:
    found = diagnose(
        read_log("RuntimeError: Cannot find any model weights\n\nA new download fixed it."), None
    )

    assert found is not None
    assert found.cause == "model_file_missing"


CHANGES = [
    # The form of vllm-project/vllm#38484
    """[Build] Add SM121 to the build targets

## Summary

- Add compute capability 12.1

## Context

Without native kernels users cannot run it, the GPU reports compute capability 12.1 (SM121).""",
    # The form of argilla-io/distilabel#842, which quotes what no longer happens
    """Create a placement group for steps

## Description

This PR makes one. It avoids `Ray does not allocate any GPUs on the driver node`.""",
    # The headings of vllm-project/vllm, .github/PULL_REQUEST_TEMPLATE.md
    """Guard the macro of the kernels

## Purpose

fix an out of memory error

## Test Plan

none""",
]


@pytest.mark.parametrize("text", CHANGES)
def test_a_change_of_code_is_no_failure(text: str) -> None:
    assert diagnose(read_log(text), None) is None


def test_what_was_installed_into_an_image_is_not_missing() -> None:
    """The form of vllm-project/vllm#35641."""
    text = "[Bug]: the kernel fails\n\nI use `vllm/vllm-openai-rocm:v0.16.0` with `pip install amd-quark`"
    found = diagnose(read_log(text), None)

    assert found is None or found.cause != "package_missing"


OTHER = """\
`RuntimeError: The size of tensor a (X) must match the size of tensor b (Y) at non-singleton dimension 1`

I cannot launch this model.

ERROR 05-29 13:43:45 [core.py:387] {error}
"""


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        # vllm-project/llm-compressor#1489: a comment below the title of a thread
        (
            "ValueError: Failed to find a kernel that can implement the WNA16 linear layer. Reasons:",
            "quantization_not_supported",
        ),
        (
            "RuntimeError: The size of tensor a (1280) must match the size of tensor b (2560) at dimension 1",
            "weights_do_not_fit_the_class",
        ),
        ("RuntimeError: Engine core initialization failed.", "weights_do_not_fit_the_class"),
    ],
)
def test_a_log_counts_where_its_error_is_not_that_of_the_title(error: str, cause: str) -> None:
    found = diagnose(read_log(OTHER.format(error=error)), None)

    assert found is not None
    assert found.cause == cause


def test_a_start_of_hours_is_slow() -> None:
    """vllm-project/vllm#5405."""
    found = diagnose(read_log("[Bug]: The service takes two hours to start because of NCCL"), None)

    assert found is not None
    assert found.cause == "start_is_slow"


WAITS = """\
{title}

  File "/usr/lib/python3.12/site-packages/vllm/v1/engine/utils.py", line 984, in wait_for_engine_startup
    raise RuntimeError(
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {{}}
"""


@pytest.mark.parametrize(
    "title",
    [
        # zai-org/GLM-5#10
        "# GLM-5-FP8 Crash - VLLM Engine core initialization failed",
        # vllm-project/vllm#17533: said where the executor is shut down after the failure
        "[Bug]: AttributeError: 'MultiprocExecutor' object has no attribute 'workers' when serving",
    ],
)
def test_a_title_of_the_front_end_s_error_names_no_reason(title: str) -> None:
    """The engine's core failed before; neither the words of the title nor a model's name say why."""
    found = diagnose(read_log(WAITS.format(title=title)), None)

    assert found is not None
    assert found.cause is None
    assert "Engine core initialization failed." in found.message


@pytest.mark.parametrize(
    ("title", "cause"),
    [
        # vllm-project/vllm#47761
        (
            'vllm 0.23.0 - Qwen3.6-35B-A3B-FP8 - Fails generating - "400 Unterminated string starting at"',
            "tool_arguments_not_json",
        ),
        # vllm-project/vllm#25253
        (
            "[Bug]: 500 internal error with mistral reasoning parser and tool choice required",
            "tool_call_not_parsed",
        ),
        # Continual-Intelligence/SEAL#3, vllm-project/vllm#28186 and #13394
        ("/v1/load_lora_adapter returns 404 and the script crashes with IndexError", "adapter_routes_off"),
        ("[Bug] Cannot load qwen3-vl series with lora adapter", "adapter_failed"),
        ("RuntimeError: LoRA is not enabled.", "adapters_not_enabled"),
        # vllm-project/vllm#6616
        (
            "This version of rocm-vllm doesn't support DeepSeek-V2-0628, vllm crash trying to load it.",
            "unknown_architecture",
        ),
    ],
)
def test_a_sentence_is_about_what_failed_and_not_about_the_model_s_name(title: str, cause: str) -> None:
    found = diagnose(read_log(title), None)

    assert found is not None
    assert found.cause == cause


@pytest.mark.parametrize(
    ("name", "message", "shown"),
    [
        ("OutOfMemoryError", "fails with `torch.OutOfMemoryError`", "fails with `torch.OutOfMemoryError`"),
        ("RuntimeError", "task failed: RuntimeError: no", "RuntimeError: task failed: RuntimeError: no"),
        ("KeyError", "'a'", "KeyError: 'a'"),
        ("", "died", "died"),
    ],
)
def test_a_sentence_that_names_the_exception_has_it_once(name: str, message: str, shown: str) -> None:
    assert with_type(name, message) == shown


HEADS = "ValueError: Total number of attention heads (32) must be divisible by tensor parallel size"
SIZES = "RuntimeError: Worker failed with error 'size_k must divisible by BLOCK_SIZE_K'"
NO_MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
NO_BLOCKS = "ValueError: No available memory for the cache blocks. Try increasing it"
NOT_FREE = (
    "ValueError: Free memory on device (1.0/79.0 GiB) on startup is less than desired GPU memory utilization"
)
LATER = "ERROR 01-02 04:04:05 [a.py:1]"
ILLEGAL = "RuntimeError: CUDA error: an illegal memory access was encountered"


@pytest.mark.parametrize(
    ("title", "others", "cause"),
    [
        (
            "[Bug]: `size_k must divisible by BLOCK_SIZE_K` error when using tensor parallelism",
            f"- TP=3, 5: `{HEADS}`\n- TP=4, 8: {SIZES}",
            "quantization_not_supported",
        ),
        (
            '[Bug]: "No available memory for the cache blocks" with two GPUs',
            f"With one GPU: {NO_MEMORY}\nWith two:\n{NO_BLOCKS}",
            "no_memory_for_cache_blocks",
        ),
        (
            "[Bug]: CUDA error: an illegal memory access was encountered (with MTP)",
            f"ERROR 01-02 03:04:05 [a.py:1] {NOT_FREE}\nI freed it, and then:\n{LATER} {ILLEGAL}",
            "illegal_memory_access",
        ),
    ],
)
def test_the_error_that_the_title_quotes_is_the_one(title: str, others: str, cause: str) -> None:
    """A text tells beside it how other values fail (vllm-project/vllm#17604)."""
    failure = read_log(f"{title}\n\n{others}\n").failure
    assert failure is not None
    assert failure.cause is not None
    assert failure.cause.name == cause
    assert failure.line > 1
