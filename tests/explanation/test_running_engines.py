"""Requests that a running engine refuses, engines that died later, and pieces of logs: what is said of them.

The lines are the messages of vLLM's, torch's and other libraries' own source.
"""

import pytest

from service.application.text.explanation import render_explanation
from service.application.text.headline import headline
from service.explanation.explain import explain
from service.explanation.explanation_types import Diagnosis
from service.startup_log.log import read_log

TOOLS = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
TEMPLATE = "As of transformers v4.44, default chat template is no longer allowed."
FATAL = "ERROR 10-26 11:35:32 [core.py:718] EngineCore encountered a fatal error."
OUT_OF_MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
BANNER = "INFO 10-26 11:35:30 [api_server.py:1896] vLLM API server version 0.10.2"
TAKEN = (
    "ValueError: Free memory on device ({free}/80.00 GiB) on startup is less than desired GPU memory "
    "utilization (0.9, 72.00 GiB)."
)


def _ending(text: str) -> Diagnosis:
    ending = explain(read_log(text), None).ending
    assert ending is not None
    return ending


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        (f"openai.BadRequestError: Error code: 400 - {{'message': '{TOOLS}'}}", "tool_choice_not_enabled"),
        (f"ERROR 10-26 11:35:32 [serving_chat.py:198] ValueError: {TEMPLATE}", "no_usable_chat_template"),
        (
            (
                "ERROR 10-26 11:35:32 [serving_chat.py:158] jinja2.exceptions.TemplateSyntaxError: "
                "unexpected '}'"
            ),
            "no_usable_chat_template",
        ),
        (
            "ValueError: This model's maximum context length is 4096 tokens. However, you requested 5000",
            "request_refused",
        ),
        ("ERROR 10-26 11:35:32 [serving_chat.py:198] ValueError: an unheard-of wish", None),
    ],
)
def test_a_refused_request_is_no_failed_start(line: str, cause: str | None) -> None:
    ending = _ending(line)

    assert (ending.cause, ending.refused) == (cause, True)
    assert headline(explain(read_log(line), None)).startswith("The engine runs and refused a request")


@pytest.mark.parametrize("below", [f"{OUT_OF_MEMORY}", FATAL])
def test_a_refused_request_does_not_hide_the_engines_death(below: str) -> None:
    ending = _ending(f"ValueError: {TEMPLATE}\n{below}")

    assert ending.cause in {"out_of_memory", "engine_died_serving"}
    assert not ending.refused


def test_the_file_of_a_template_that_does_not_exist_fails_the_start() -> None:
    words = (
        "ValueError: The supplied chat template (x.jinja) looks like a file path, but it failed to be opened."
    )

    assert (_ending(words).cause, _ending(words).refused) == ("chat_template", False)


@pytest.mark.parametrize(
    "sign",
    [
        '  File "/x/vllm/v1/engine/core.py", line 1623, in run_busy_loop',
        '  File "/x/vllm/engine/multiprocessing/engine.py", line 140, in run_engine_loop',
        'INFO:     127.0.0.1:52036 - "POST /v1/chat/completions HTTP/1.1" 500 Internal Server Error',
    ],
)
def test_an_engine_that_had_started_is_said_to_have_died(sign: str) -> None:
    explanation = explain(read_log(f"{sign}\n{OUT_OF_MEMORY}"), None)

    assert headline(explanation).startswith("The engine started and died later")
    # Once an engine serves, its cache is there: less of it leaves memory for the batch.
    assert explanation.ending is not None
    assert explanation.ending.remedy.startswith("Lower --gpu-memory-utilization")


@pytest.mark.parametrize(
    "sign",
    [
        '  File "/x/vllm/v1/engine/core.py", line 82, in __init__',
        "INFO 10-26 11:35:32 [gpu_model_runner.py:2338] Starting to load model org/name...",
    ],
)
def test_a_start_that_failed_did_not_die_later(sign: str) -> None:
    assert not _ending(f"{sign}\n{OUT_OF_MEMORY}").serving


def test_free_memory_is_that_of_the_start_that_failed() -> None:
    later = "INFO 10-26 11:40:32 [gpu_worker.py:298] Free memory on device (79.00/80.00 GiB) on startup."
    up = "INFO 10-26 11:41:32 Application startup complete."
    text = "\n".join([BANNER, TAKEN.format(free="60.00"), BANNER, later, up])

    # 60 of 80 GiB are three quarters.
    assert [each.split(" at most")[0] for each in _ending(text).offers] == ["--gpu-memory-utilization 0.75"]


def test_no_share_is_offered_of_a_gpu_that_others_fill() -> None:
    """A lower utilization than 0.3 of a GPU has no room for the model that asked for 0.9 of it."""
    text = (
        "ValueError: Free memory on device cuda:1 (0.98/21.48 GiB) on startup is less than desired GPU "
        "memory utilization (0.9, 19.34 GiB)."
    )
    (offer,) = _ending(text).offers
    assert "0.98 of 21.48 GiB were free" in offer
    assert "--gpu-memory-utilization" not in offer


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            (
                "# Out of memory: the server shuts down\n"
                "CRITICAL 10-26 11:35:32 launcher.py:101] MQLLMEngine is already dead"
            ),
            "out_of_memory",
        ),
        (
            (
                "It says cuda oom when capturing graphs\n"
                "INFO 10-26 11:35:32 model_runner.py:1024] Capturing the model for CUDA graphs."
            ),
            "out_of_memory",
        ),
        (
            (
                "WARNING 10-26 11:35:32 [_custom_ops.py:20] Failed to import from vllm._C with "
                "ImportError('libcudart.so.12: cannot open shared object file')\n"
                'Traceback (most recent call last):\n  File "/vllm/entrypoints/cli/serve.py", line 7, in cmd'
            ),
            "build_does_not_match",
        ),
        (
            (
                "WARNING 10-26 11:35:32 _core_ext.py:180] Failed to import from vllm._core_C with "
                "ImportError('libtorch_hip.so: cannot open shared object file')\n"
                "RuntimeError: Tried to instantiate class '_core_C.ScalarType', but it does not exist!"
            ),
            "torch_of_another_platform",
        ),
        (
            (
                '# "unrecognized arguments" error\nTraceback (most recent call last):\n'
                '  File "/home/me/collect_env.py", line 17, in <module>\n    import regex as re\n'
                "ModuleNotFoundError: No module named 'regex'"
            ),
            "unknown_argument",
        ),
        ("ModuleNotFoundError: No module named 'vllm'", "vllm_not_installed"),
        ("ModuleNotFoundError: No module named 'vllm._C'", "build_does_not_match"),
        (
            (
                "subprocess.CalledProcessError: Command '['/x/bin/ptxas', '--gpu-name=sm_120', 'a.ptx']' "
                "returned non-zero exit status 255."
            ),
            "cuda_compiler_too_old",
        ),
        ("RuntimeError: Cannot find ptxas", "toolchain_missing"),
        ("[1/11] :/usr/local/cuda/bin/nvcc --generate-dependencies-with-compile", "cuda_home_wrong"),
        ("[error]worker exited with exit code 136", "process_crashed"),
        ("ERROR: ccl_comm::allreduce_impl(ccl::datatype)", "oneccl"),
        (
            "ValueError: Invalid repository ID or local directory specified: '/models'.",
            "no_model_config",
        ),
    ],
)
def test_a_piece_of_a_log_names_its_cause(text: str, cause: str) -> None:
    assert _ending(text).cause == cause


def test_a_kernels_own_line_is_not_the_devices_memory() -> None:
    words = "Out of memory: Killed process 4711 (VLLM::EngineCor) total-vm:100kB"

    assert _ending(words).cause != "out_of_memory"


def test_a_server_that_ended_in_order_says_that_the_reason_is_elsewhere() -> None:
    text = "INFO:     Waiting for application shutdown.\nINFO:     Finished server process [1]"
    explanation = explain(read_log(text), None)

    assert explanation.ending is None
    assert render_explanation(explanation).startswith("The server ended in order on line 2")


def test_a_refused_quantization_is_not_offered_again() -> None:
    ending = _ending(
        "The quantization method awq is not supported for the current GPU. Minimum capability: 75. "
        "Current capability: 70."
    )

    # Source: vLLM 0.19.0, layers/quantization: get_min_capability of GPTQ and AWQ.
    assert "GPTQ 6.0, AWQ 7.5" in ending.remedy
