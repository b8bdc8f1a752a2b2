"""Issues as people wrote them: what their words and pieces of logs say, and what is no failure."""

import json
from pathlib import Path

import pytest

from service.explanation.diagnosis import diagnose
from service.startup_log.log import read_log

ASSERTED = (
    "/pytorch/aten/src/ATen/native/cuda/IndexKernel.cu:94: operator(): block: [1,0,0], thread: [97,0,0] "
    'Assertion `-sizes[i] <= index && index < sizes[i] && "index out of bounds"` failed.'
)
"""Printed by CUDA's runtime: vllm-project/vllm#16113, with a prompt of 999,990 tokens."""
REFUSED = (
    "`called `Result::unwrap()` on an `Err` value: CompletionError(HttpError(InvalidStatus(400, "
    r'"{\"error\":{\"message\":\"1 validation error for Message\\ncontent.0\\n  Input should be a valid '
    r"dictionary or instance of Content [type=model_type, input_type=ValidatorIterator]\",\"type\":"
    r'\"BadRequestError\",\"param\":null,\"code\":400}}")))`'
)
"""What vLLM answered, as a client in Rust prints it: 0xPlaygrounds/rig#1362."""
MERGED = (
    "I'll note that I don't hit this error on the first training epoch. I no longer get a ValueError about "
    "`base_model`, but different keys mismatch. Specifically on a Llama 3.1-8B model, **I get a KeyError on "
    "`layers.0.self_attn.qkv_proj.base_layer.weight`.**"
)
"""huggingface/trl#2698: the weights of an adapter that was not merged."""
UNCLEAN = (
    "> AssertionError: Error in memory profiling. This happens when the GPU memory was not properly cleaned "
    "up before initializing the vLLM instance."
)
"""vLLM 0.4.1 to 0.5.3, worker/worker.py; vllm-project/vllm#7082, where another engine still freed memory."""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            f"# Upstream Llama4 Support to Main\n\n> it throws\n>\n> ```c++\n> {ASSERTED}\n> ```\n",
            "device_side_assert",
        ),
        (f"it throws\n\n{ASSERTED}\n", "device_side_assert"),
        (f"```c++\n{ASSERTED}\n```\n", "device_side_assert"),
        # PyTorch, ATen/native/cuda/TensorCompare.cu: the sampler's probabilities are not finite
        (
            (
                "TensorCompare.cu:112: _assert_async_cuda_kernel: block: [0,0,0], thread: [0,0,0] Assertion "
                "`probability tensor contains either `inf`, `nan` or element < 0` failed.\n"
            ),
            "logits_not_finite",
        ),
        (f"# vLLM tool calling loop fails\n\nI keep getting this error\n\n{REFUSED}\n", "request_refused"),
        (f"# GRPO VLLM does not work with Lora\n\n{MERGED}\n", "weights_do_not_fit_the_class"),
        (
            f"observed multiple errors in the ci\n\nThey error with:\n\n{UNCLEAN}\n",
            "memory_freed_while_profiling",
        ),
        # vllm-project/vllm#10797
        (
            (
                "# [Usage]: cannot load llama 3.2 3b on a 16gb gpu when gpu_memory_utilisation=1\n\n"
                "GPU 0: NVIDIA GeForce RTX 4080\n"
            ),
            "out_of_memory",
        ),
        ("Unable to run Qwen3-30B on RTX 5060 Ti 16GB\n", "out_of_memory"),
        # vllm-project/vllm#50719: the title says that requests hang, and quotes what the connector logs
        (
            (
                "# [Bug] Decode requests stuck and fail with Timeout waiting for P side ready\n\n"
                "(Worker_DP6 pid=9) ERROR 08-01 12:42:13 [mooncake_connector.py:1899] pulling kv_caches for "
                "['973ca62f1bc3666d'] failed: Timeout waiting for P side ready.\n"
            ),
            "kv_connector_failed",
        ),
        # aws-neuron/aws-neuron-sdk#1120, #1369
        (
            "[TEN404] (_sine.127) Internal tensorizer error: BirCodeGenLoop:Too many strides!\n",
            "neuron_compiler_failed",
        ),
        (
            "RuntimeError: neuronx-cc compilation failed with 70. Check compiler logs.\n",
            "neuron_compiler_failed",
        ),
        # vLLM 0.11.0, multimodal/video.py; QwenLM/Qwen3-VL#1770
        (
            (
                "openai.InternalServerError: Error code: 500 - {'error': {'message': 'Expected reading 1226 "
                "frames, but only loaded 1225 frames from video.', 'type': 'Internal Server Error'}}\n"
            ),
            "media_not_fetched",
        ),
        # MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks#106
        (
            "# Prefix cache stops hitting globally after ~1 h of load (hits_total freezes)\n",
            "cache_not_reused",
        ),
        ('# vLLM returns content: "" for every request\n', "wrong_output"),
        ("vLLM returns an empty string for each request\n", "wrong_output"),
    ],
)
def test_words_of_an_issue_say_the_cause(text: str, cause: str) -> None:
    found = diagnose(read_log(text), None)

    assert found is not None
    assert found.cause == cause


@pytest.mark.parametrize(
    "text",
    [
        # vllm-project/vllm-ascend#16980, in Chinese; vllm-project/vllm#41789, #55605
        (
            "# [Bug]: gemma4 MTP \u6295\u673a\u89e3\u7801\u5728 vllm-ascend \u4e0a draft "
            "\u63a5\u53d7\u7387\u6052\u4e3a 0%\n"
        ),
        "# [Bug]: gemma4 31B MTP Avg Draft acceptance rate: 0.2%, which is very low\n",
        "# Acceptance rate is extremely low when running the speculative decoding process.\n",
    ],
)
def test_drafts_that_are_not_accepted_are_no_wrong_settings(text: str) -> None:
    failure = read_log(text).failure

    assert failure is not None
    assert failure.cause is not None
    assert failure.cause.name == "drafts_not_accepted"


def test_what_is_loaded_again_and_again_is_not_what_a_crash_is_about() -> None:
    """After which step of many a process ended says when: faults of NCCL and of allocators show so too."""
    for text in (
        "# [Bug]: crash after the 3rd reload of LoRA adapters\n",
        "# Engine crashes after ~50 weight updates\n",
        "After the third reload of the tokenizer the server crashes\n",
    ):
        failure = read_log(text).failure

        assert failure is not None
        assert failure.cause is not None
        assert failure.cause.name == "engine_died_serving"
    # What fails at the first time is what is loaded.
    first = read_log("# [Bug]: The tokenizer fails to load\n").failure
    assert first is not None
    assert first.cause is not None
    assert first.cause.name == "tokenizer_not_loaded"


NONE = [
    # git log --oneline and git log of vLLM's repository: titles of #12345, #13693, #9818, #24897
    (
        (
            "a3f0c1d [Bugfix] Fix CUDA OOM during weight loading with fp8 (#12345)\n"
            "9b77e21 [Bugfix] Fix illegal memory access in MoE kernel on H20 (#13693)\n"
            "0c1d2e3 (HEAD -> main, origin/main) [Core] replace heartbeat with pid check (#9818)\n"
        ),
        "lists titles",
    ),
    (
        (
            "commit 13693aa0b1c2d3e4f5a6b7c8d9e0f1a2b3c4d5e6\nAuthor: A B <a@b.example>\n"
            "Date:   Sat Feb 22 10:11:12 2025 +0800\n\n    [BugFix] Illegal memory access for MoE On H20\n\n"
            "    When we deploy DeepSeek R1 on two H20 machines, vLLM crashed with illegal memory access.\n"
        ),
        "lists titles",
    ),
    (
        (
            "- [Bug]: vLLM still runs after Ray workers crash #16259\n"
            "- [Bug]: OPT-2.7B OOM while OPT-6.7B works fine with identical settings #29070\n"
            "- [Bug]: server crash when glm4-9b-chat got an image request #12024\n"
        ),
        "lists titles",
    ),
    ("# Known issues\n\n- OOM on load #123\n- hang at the start #124\n", "lists titles"),
    # vllm-project/production-stack#643, tenstorrent/tt-xla#722, mozilla-ai/clawbolt#635
    (
        "# [Feat][Router] Add simple request migration for vLLM failure\n\nAdds a simple loop.\n",
        "a change of code",
    ),
    (
        (
            "# Updated all models with OOM markers with the latest results\n\n### Problem description\n"
            "There are 19 models that were marked with xfail due to OOM errors.\n\n### What's changed\n"
            "All 19 models were retested using the latest release.\n"
        ),
        "a change of code",
    ),
    (
        "# fix: conversation view shows tools that were used, but that info isn't provided in the chat UI\n",
        "a change of code",
    ),
    # tenstorrent/tt-xla#4677
    (
        (
            "## Failing\n\n| Matrix id | Mode | Error | Notes |\n|---|---|---|---|\n"
            "| gemma-1.1-2b-it | single-chip | Silent C++ crash during `profile_run` | vocab=256000 |\n"
            "| mistral_7b | single-chip | OOM (TT_FATAL bank_manager.cpp:462) | 7B too big |\n"
            "| falcon3-7b-base | single-chip | OOM | Passes via TP |\n"
        ),
        "several failures",
    ),
]


@pytest.mark.parametrize(("text", "about"), NONE)
def test_lists_and_changes_report_no_failure(text: str, about: str) -> None:
    log = read_log(text)

    assert log.failure is None
    assert about in str(log.around.about)


@pytest.mark.parametrize(
    "text",
    [
        (
            "# Gateway should mark a backend as unhealthy when the engine is dead\n\n"
            "When a backend returns an engine error (e.g. `EngineDeadError`) the gateway routes to it.\n"
        ),
        "I no longer get a KeyError on `layers.0.weight`, all good now\n",
        "How to run a 32B on two 24GB GPUs?\n",
        "# Add acceptance rate metrics for speculative decoding\n",
    ],
)
def test_wishes_and_what_is_over_report_no_failure(text: str) -> None:
    assert read_log(text).failure is None


def test_items_of_a_report_with_numbers_of_issues_stay_a_report() -> None:
    text = (
        "# Engine does not start\n\nIt fails with CUDA out of memory at the start.\n\n- see #12\n- and #13\n"
    )

    failure = read_log(text).failure

    assert failure is not None
    assert failure.cause is not None
    assert failure.cause.name == "out_of_memory"


def test_a_notebook_on_one_line_shows_in_what_its_cells_ended(tmp_path: Path) -> None:
    """The form is Jupyter's nbformat 4: outputs of cells with `text`, and errors with `traceback`."""
    ended = "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`."
    cells = [
        {"cell_type": "markdown", "source": ["It crashed with CUDA out of memory before."]},
        {
            "cell_type": "code",
            "source": ["llm = LLM('m')"],
            "outputs": [
                {
                    "output_type": "stream",
                    "text": ["INFO 11-02 [core.py:58] Initializing\n", "a V1 engine\n"],
                },
                {
                    "output_type": "error",
                    "ename": "ValueError",
                    "evalue": "No available memory",
                    "traceback": ["\x1b[0;31mTraceback (most recent call last)", f"\x1b[0;31m{ended}"],
                },
            ],
        },
    ]
    notebook = tmp_path / "n.ipynb"
    notebook.write_text(json.dumps({"cells": cells, "nbformat": 4}))

    found = diagnose(read_log(notebook.read_text()), None)

    assert found is not None
    assert found.cause == "no_memory_for_cache_blocks"
    assert read_log(json.dumps({"cells": [1, {"outputs": [2, {"text": [3]}]}, None]})).failure is None
