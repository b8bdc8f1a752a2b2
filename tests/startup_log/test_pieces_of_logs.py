"""Pieces of logs without a start: what they are of, and what surrounds them says."""

import pytest

from service.application.text.headline import headline, understood
from service.explanation.explain import explain
from service.explanation.log_facts import gpus_of, release_of
from service.gpus.catalog import gpu_catalog
from service.startup_log.log import read_log

SERVES = (
    # vLLM 0.19.0, v1/metrics/loggers.py; 0.6.6, engine/metrics.py
    "(APIServer pid=1) INFO 10-06 11:26:41 [loggers.py:127] Engine 000: Avg prompt throughput: 0.0 tokens/s",
    "INFO 01-17 07:57:05 metrics.py:467] Avg prompt throughput: 0.1 tokens/s, Running: 1 reqs",
)


def _headline(text: str) -> str:
    return headline(explain(read_log(text), None))


@pytest.mark.parametrize("line", SERVES)
def test_the_figures_of_a_running_engine_are_vllms(line: str) -> None:
    explanation = explain(read_log(line), None)

    assert understood(explanation)
    assert headline(explanation).startswith("The engine serves")


def test_steps_in_the_middle_of_a_start_are_vllms() -> None:
    line = "(APIServer pid=1) INFO 07-15 04:35:43 [base.py:236] Multi-modal warmup completed in 17.979s"

    assert _headline(line).startswith("These lines are vLLM's and show no failure")
    assert _headline("a sentence about gardens").startswith("Nothing in this text was understood")


@pytest.mark.parametrize(
    "lines",
    [
        ["ERROR 11-12 10:29:35 [serving_chat.py:948] vllm.x.MQEngineDeadError: Engine loop is not running."],
        [
            "ERROR 01-04 04:31:09 [core.py:844] Search for `cudaErrorAssert' in https://docs.nvidia.com",
            "ERROR 01-04 04:31:09 [async_llm.py:525] AsyncLLM output_handler failed.",
        ],
    ],
)
def test_an_engine_that_answers_requests_has_started(lines: list[str]) -> None:
    assert _headline("\n".join(lines)).startswith("The engine started and died later")


def test_an_error_quoted_above_a_log_that_is_cut_is_of_the_same_start() -> None:
    log = read_log(
        "The image stops with `RuntimeError: CUDA error: no kernel image is available for execution`\n"
        "$ docker run vllm/vllm-openai:v0.9.0\n"
        "INFO 01-30 13:26:15 [api_server.py:1] vLLM API server version 0.9.0\n"
        'ERROR 01-30 13:26:29 [core.py:946]   File "/x/vllm/v1/engine/core.py", line 105, in __init__\n'
        'ERROR 01-30 13:26:29 [core.py:946]   File "/x/vllm/v1/executor/abstract.py", line 101, in __init__'
    )

    assert log.starts == 1
    assert log.failure is not None
    assert log.failure.cause is not None
    assert log.failure.cause.name == "no_kernels_for_this_gpu"


@pytest.mark.parametrize("name", ["<local NVFP4 snapshot>", "xxxx", "...", "path/to/model", "your-model"])
def test_a_word_that_a_reader_is_to_replace_is_no_model(name: str) -> None:
    assert read_log(f"$ vllm serve --model '{name}' --port 8000").model is None
    assert read_log(f"$ vllm serve --model {name} --max-model-len 2048").model is None
    in_a_block = ("```", "docker run vllm/vllm-openai:v0.19.0 \\", f"  --model {name} --enforce-eager", "```")
    assert read_log("\n".join(in_a_block)).model is None
    assert read_log("$ vllm serve --model Qwen/Qwen3-4B --port 8000").model == "Qwen/Qwen3-4B"


@pytest.mark.parametrize(
    ("text", "release"),
    [
        # vLLM 0.7.3 and 0.6.3, engine/llm_engine.py
        (
            "INFO 02-26 11:14:53 llm_engine.py:234] Initializing a V0 LLM engine (v0.7.3) with config: a",
            "0.7.3",
        ),
        (
            "INFO 02-26 11:14:53 llm_engine.py:234] Initializing an LLM engine (v0.6.3) with config: a",
            "0.6.3",
        ),
    ],
)
def test_the_release_of_the_first_engine_is_read(text: str, release: str) -> None:
    assert read_log(text).release == release


def test_a_build_without_a_number_is_the_release_that_the_text_names() -> None:
    log = read_log("vllm 0.19.0 docker image\nINFO [api_server.py:528] vLLM API server version dev")

    assert release_of(log)[0] == "0.19.0"


@pytest.mark.parametrize(
    ("words", "gpu"),
    [
        ("Unable to start Nemotron on 5090 after upgrade", "rtx-5090-32gb"),
        ("I want to run it on an RTX3090", "rtx-3090-24gb"),
        ("Note: SM_121 uses native Triton backend", "gb10-128gb"),
        ("Two nodes of DGX Spark", "gb10-128gb"),
        ("curl http://localhost:5090/v1/models on port 5090", None),
        ("it stops after 5090 tokens", None),
    ],
)
def test_a_gpu_is_known_as_people_write_it(words: str, gpu: str | None) -> None:
    found = [each.id for each in gpus_of(read_log(words), gpu_catalog())]

    assert found[:1] == ([gpu] if gpu else [])


def test_a_kernels_fault_in_a_piece_of_a_log_is_of_no_start() -> None:
    fault = "RuntimeError: CUDA error: an illegal memory access was encountered"

    assert _headline(fault).startswith("The engine failed on line 1")
    assert _headline(f"INFO a [a.py:1] Model loading took 1.0 GiB\n{fault}").startswith("The start failed")


OF_TORCH = """\
frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x57 (0x73b29fd81d87 in /lib/libc10.so)
frame #2: c10d::ProcessGroupNCCL::ncclCommWatchdog() + 0x78d (0x7f2 in /lib/libtorch_cuda.so)
"""
"""PyTorch 2, c10/util/Backtrace.cpp."""
OF_GDB = """\
#5  0x00007f1234567890 in ncclGroupEndInternal () from /usr/lib/libnccl.so.2
#6  0x00007f1234567891 in c10d::ProcessGroupNCCL::collective () from libtorch_cuda.so
"""
OF_METAL = """\
(EngineCore_DP0 pid=280) ERROR 07-15 10:48:46 core.py:1033]  --- VLLM::EngineCore(+0x238976) [0x55fb9]
(EngineCore_DP0 pid=280) ERROR 07-15 10:48:46 core.py:1033]  --- VLLM::EngineCore(PyEval_Ev+0x86) [0x55fc]
"""
"""tt-metal: tenstorrent/tt-inference-server#4658."""
OF_CHECK = """\
Exception raised from c10_cuda_check_implementation at /c10/CUDAException.cpp:44 (most recent call first):
frame #0: c10::Error::Error() + 0x80 (0x1546 in /usr/lib/torch/lib/libc10.so)
"""


@pytest.mark.parametrize(
    ("text", "part"), [(OF_TORCH, "NCCL"), (OF_GDB, "NCCL"), (OF_METAL, "compiled code"), (OF_CHECK, "CUDA")]
)
def test_a_backtrace_of_compiled_code_follows_from_an_error_above_it(text: str, part: str) -> None:
    ending = explain(read_log(text), None).ending

    assert ending is not None
    assert ending.cause is None
    assert part in ending.part
    assert "lines above it" in ending.wanted
