"""A check of a package whose message says why: the rule, what was given, and where the check is."""

import pytest

from service.explanation.diagnosis import diagnose
from service.startup_log.log import read_log

ENGINE_FRAME = (
    '  File "/usr/lib/python3.12/site-packages/vllm/v1/worker/gpu_worker.py", line 5, in load_model\n'
)
MMAP = (
    "RuntimeError: mmap can only be used with files saved with "
    "`torch.save(_use_new_zipfile_serialization=True), "
    "please torch.save your checkpoint with this option in order to use mmap."
)
CHECKS = [
    # File, function, message as the package raises it; words by hand: what is wrong, what helps.
    (
        "transformers/modeling_utils.py",
        "get_extended_attention_mask",
        "ValueError: Wrong shape for input_ids (shape (1, 2)) or attention_mask (shape (3,))",
        "Wrong shape for input_ids",
        "install the release of transformers",
    ),
    (
        "torch/distributed/rendezvous.py",
        "_create_c10d_store",
        "ValueError: port must have value from 0 to 65535 but was 65541.",
        "port must have value from 0 to 65535",
        "Change the value so that the rule holds",
    ),
    (
        "torch/serialization.py",
        "load",
        MMAP,
        "The installed torch has mmap only with files saved",
        "please torch.save your checkpoint",
    ),
    (
        "ray/_private/runtime_env/packaging.py",
        "get_uri_for_directory",
        "ValueError: directory /srv/plugins must be an existing directory",
        "directory /srv/plugins must be an existing directory",
        "install the release of ray",
    ),
]


@pytest.mark.parametrize(("file", "function", "said", "why", "helps"), CHECKS, ids=[row[0] for row in CHECKS])
def test_check_of_a_package_says_why(file: str, function: str, said: str, why: str, helps: str) -> None:
    frame = f'  File "/usr/lib/python3.12/site-packages/{file}", line 9, in {function}\n'
    found = diagnose(read_log(f"Traceback (most recent call last):\n{ENGINE_FRAME}{frame}{said}\n"), None)

    assert found is not None
    assert found.cause == "check_refused"
    assert (why in found.means, helps in found.remedy) == (True, True), (found.means, found.remedy)
    assert f"{file.partition('/')[0]}, {file.rpartition('/')[2]}, {function}" in found.means


def test_package_that_nobody_knows_needs_a_rule() -> None:
    frame = '  File "/usr/lib/python3.12/site-packages/own_queue/steps.py", line 3, in go\n'
    vague = diagnose(read_log(f"{ENGINE_FRAME}{frame}QueueError: the queue was lost today\n"), None)
    ruled = diagnose(read_log(f"{ENGINE_FRAME}{frame}QueueError: depth must be at least 4 (got 2)\n"), None)

    assert vague is not None
    assert vague.cause is None
    assert ruled is not None
    assert (ruled.cause, ruled.part) == ("check_refused", "the package own_queue")


def test_calls_that_only_pass_on_are_not_the_place_of_a_check() -> None:
    """The kernel below torch/_ops.py is whose ever it is; only the engine's call above it is known."""
    frame = '  File "/usr/lib/python3.12/site-packages/torch/_ops.py", line 1158, in __call__\n'
    found = diagnose(read_log(f"{ENGINE_FRAME}{frame}RuntimeError: the tile was lost on the way\n"), None)

    assert found is not None
    assert found.cause is None


def test_what_the_system_says_is_no_check() -> None:
    frame = '  File "/usr/lib/python3.12/site-packages/huggingface_hub/hf_api.py", line 3, in go\n'
    found = diagnose(
        read_log(f"{ENGINE_FRAME}{frame}OSError: [Errno 71] Protocol error while reading\n"), None
    )

    assert found is not None
    assert found.cause != "check_refused"


def test_rule_stands_before_what_only_the_place_shows() -> None:
    frame = '  File "/usr/lib/python3.12/site-packages/flashinfer/decode.py", line 3, in plan\n'
    text = f"{ENGINE_FRAME}{frame}ValueError: num_qo_heads must be a multiple of num_kv_heads, got 7 and 2\n"
    found = diagnose(read_log(text), None)

    assert found is not None
    assert found.cause == "flashinfer_kernel_failed"
    assert found.means.startswith("A value breaks a rule of the installed flashinfer: num_qo_heads must be")


@pytest.mark.parametrize("said", ["Cannot use this backend today", "Failed to read what was given"])
def test_a_refusal_without_a_rule_keeps_what_helps_against_its_cause(said: str) -> None:
    frame = '  File "/usr/lib/python3.12/site-packages/vllm/config/vllm.py", line 3, in __post_init__\n'
    found = diagnose(read_log(f"{frame}ValueError: {said}\n"), None)

    assert found is not None
    assert found.cause == "settings_refused"
    assert said in found.means
    assert "the flag that the message names" in found.remedy


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        ("ShelfError: Error while fetching the version: Connection aborted", None),
        ("ShelfError: Could not find a shelf with ID 7", "check_refused"),
    ],
)
def test_a_package_that_the_engine_does_not_use_came_with_the_program(said: str, cause: str | None) -> None:
    """That a step could not be done is no check; and vLLM requires no release of such a package."""
    frame = '  File "/usr/lib/python3.12/site-packages/own_shelf/client.py", line 3, in go\n'
    found = diagnose(read_log(f"{ENGINE_FRAME}{frame}{said}\n"), None)

    assert found is not None
    assert found.cause == cause
    assert "that this vLLM was made with" not in found.remedy


def test_what_torch_adds_to_a_check_is_not_repeated() -> None:
    """PyTorch 2, c10/util/Exception.h: of a kernel for GPUs, which no library of the CPU computes."""
    frame = '  File "/usr/lib/site-packages/vllm/_custom_ops.py", line 3, in cutlass_scaled_mm\n'
    said = "RuntimeError: Expected a.dim() == 2 && b.dim() == 2 to be true, but got false.  (Could this error"
    found = diagnose(
        read_log(f"{ENGINE_FRAME}{frame}{said} message be improved?  If so, please report it.)\n"), None
    )

    assert found is not None
    assert found.cause == "quantization_not_supported"
    assert "improved" not in found.means


def test_a_product_of_the_cpu_is_that_of_its_library() -> None:
    """vLLM 0.19.0 to 0.21.0, _custom_ops.py onednn_mm."""
    frame = '  File "/usr/lib/site-packages/vllm/_custom_ops.py", line 3, in onednn_mm\n'
    said = "RuntimeError: Expected a.dim() == 2 to be true, but got false."
    found = diagnose(read_log(f"{ENGINE_FRAME}{frame}{said}\n"), None)

    assert found is not None
    assert found.cause == "cpu_library_failed"
