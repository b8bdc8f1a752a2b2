"""Messages of other platforms, installers, containers and clients, of public threads or tools' sources."""

import pytest

from service.startup_log.failures.logged_failure import Failure
from service.startup_log.log import read_log

MESSAGES = [
    # vllm-project/vllm#51964
    (
        "start fails:AssertionError: mla_gluon requires gfx950 (CDNA4), got gfx942",
        "kernels_not_for_this_amd_gpu",
    ),
    # sgl-project/sglang#22714
    (
        ":0:rocdevice.cpp :3586: Callback: Queue 0x7f3 aborting with error : HSA_STATUS_ERROR_EXCEPTION: An",
        "rocm_fault",
    ),
    # jax-ml/jax#30834
    ("E0808 00:12:51.4 31287 tpu_hal.cc:249] Failed to initialize TPU system with error: ", "tpu_not_usable"),
    # vllm-project/vllm#20743
    ('XPU backend fails with "doesn\'t support querying the available free memory" error', "xpu_fault"),
    # CANN's error codes
    ("RuntimeError: NPU function error: c10_npu::NPUCachingAllocator, error code is 507018", "ascend_fault"),
    # vllm-project/vllm#17514
    (
        "ERROR 05-01 01:51:54 [serving_chat.py:898] cannot determine if tools should be extracted. Returning",
        "tool_call_not_parsed",
    ),
    # mike-nott/mcp-assist#21: a client's quotes are escaped, and its text is cut off
    (
        r'{"object":"error","message":"\"auto\" tool choice requires --enable-auto-tool',
        "tool_choice_not_enabled",
    ),
    # vllm-project/vllm#2735 and vllm-metal#379
    ("  \u00d7 Building editable for vllm (pyproject.toml) did not run successfully.", "install_failed"),
    ("  \u00d7 No solution found when resolving dependencies:", "install_failed"),
    # vllm-project/vllm#7454: a warning in a title
    (
        "# [Bug]: WARNING 08-13 11:31:37 shm_broadcast.py:386] No available block found in 60 second",
        "worker_hangs",
    ),
    # The exit codes of systemd.
    ("vllm.service: Main process exited, code=exited, status=203/EXEC", "unit_not_started"),
    ("vllm.service: Failed with result 'oom-kill'.", "out_of_host_memory"),
    # vllm-project/vllm#1283, #4980 and #39497
    ("# Install vLLM failed with `pip install -e .`, PyTorch dependency confusion?", "install_failed"),
    ("# [Installation]: failed installation with pip", "install_failed"),
    ("I can't run this, because i can't install vllm, lol.", "install_failed"),
    # vllm-project/vllm#917, #6790, #7632, #16514, #19668; zai-org/GLM-V#100; modal-labs/modal-examples#1154
    (
        "openai.error.Timeout: HTTPConnectionPool(host='172.26.1.30', port=8000): Read timed out.",
        "client_timed_out",
    ),
    ("# [Bug]: Engine iteration timed out. This should never happen!", "engine_iteration_timed_out"),
    ("ERROR 08-18 00:51:02 async_llm_engine.py:57] Engine background task failed", "engine_died_serving"),
    ("# [Bug]: Multi-GPU (TP > 1) vLLM serve docker timeout during startup", "start_timed_out"),
    (
        "# [Bug]: EngineCore encountered a fatal error TimeoutError\nINFO:     Application startup complete.",
        "start_timed_out",
    ),
    ("# \u65e0\u9650\u5361\u4f4f\nINFO:     Application startup complete.", "worker_hangs"),
    (
        "Runner failed with exception: Runner has been initializing for too long: 300 seconds",
        "start_timed_out",
    ),
    # curl, openai-python and uvicorn
    ("curl: (7) Failed to connect to localhost port 8000 after 0 ms: Couldn't connect", "server_not_reached"),
    ("openai.APIConnectionError: Connection error.", "server_not_reached"),
    ("ERROR:    Exception in ASGI application", "request_failed"),
    (
        "# [Bug]: Qwen2.5 VL Internal Server Error",
        "request_failed",
    ),
    (
        "vLLM serve fails on WSL2 \u2014 EngineCore segfault during multimodal encoder initialization",
        "process_crashed",
    ),
    ("\u5b89\u88c5\u62a5\u9519 vllm 0.11", "install_failed"),
]
NO_FAILURES = [
    "# Serving Qwen3 on two L40S\nINFO:     Application startup complete.",
    "The server hangs up properly after Ctrl-C. How do I measure throughput?",
    "Do you know a way to avoid being stuck with one GPU? I would like to use two.",
    "We moved to vLLM and the installation did not fail once.",
    '            "OOMKilled": false,',
    "How do I set tensor parallel size for two machines? Which error codes does the API return?",
    "vLLM is slower than expected on 4xL40S: 300 tok/s, and no errors in the log.",
    "It would be great if vLLM supported this. Currently not supported by FlashInfer.",
    "WARNING 08-13 11:31:37 [shm_broadcast.py:386] No available shared memory broadcast block found in 60",
    "Python platform              : Linux-6.6.87.2-microsoft-standard-WSL2-x86_64-with-glibc2.39",
]


def _failure(text: str) -> Failure | None:
    return read_log(text).failure


@pytest.mark.parametrize(("text", "cause"), MESSAGES)
def test_a_message_is_known(text: str, cause: str | None) -> None:
    failure = _failure(text)

    assert (failure and failure.cause and failure.cause.name) == cause


@pytest.mark.parametrize("text", NO_FAILURES)
def test_what_shows_no_failure_is_none(text: str) -> None:
    assert _failure(text) is None


@pytest.mark.parametrize(
    ("frame", "type_name", "cause"),
    [
        # vllm-project/vllm#47312
        (
            '/dist-packages/xgrammar/compiler.py", line 205, in compile_json_schema',
            "RuntimeError",
            "grammar_failed",
        ),
        # vllm-project/vllm#17790
        (
            '/vllm/entrypoints/openai/tool_parsers/hermes_tool_parser.py", line 88, in extract_tool_calls',
            "IndexError",
            "tool_call_not_parsed",
        ),
        # vllm-project/vllm#4011
        ('/setuptools/command/build_ext.py", line 90, in run', "AssertionError", "install_failed"),
        (
            '/vllm-workspace/vllm-ascend/vllm_ascend/worker/worker.py", line 508, in init',
            "RuntimeError",
            "ascend_fault",
        ),
    ],
)
def test_an_unknown_message_is_known_by_its_frame(frame: str, type_name: str, cause: str) -> None:
    failure = _failure(f'Traceback (most recent call last):\n  File "{frame}\n{type_name}: unheard of')

    assert failure is not None
    assert failure.cause is not None
    assert failure.cause.name == cause
