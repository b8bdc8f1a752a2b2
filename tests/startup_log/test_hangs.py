"""Engines that hang: what they say of it again and again, and what people say of them."""

from service.startup_log.log import read_log

WAITS = (
    "(EngineCore pid=2025) INFO 08-13 11:{minute}:02 [shm_broadcast.py:802] No available shared memory "
    "broadcast block "
    "found in 60 seconds. This typically happens when some processes are hanging or doing some "
    "time-consuming work "
    "(e.g. compilation, weight/kv cache quantization)."
)
"""vLLM 0.19.0, distributed/device_communicators/shm_broadcast.py LONG_WAIT_TIME_LOG_MSG."""


def waits(times: int) -> str:
    """Return what an engine logs that waits for so many minutes."""
    return "\n".join(WAITS.format(minute=10 + each) for each in range(times)) + "\n"


def test_minutes_of_waiting_at_the_end_are_a_hang() -> None:
    failure = read_log(waits(5)).failure
    assert failure is not None
    assert failure.hangs
    assert not failure.serving
    assert failure.cause is not None
    assert failure.cause.name == "worker_hangs"


def test_one_wait_is_none() -> None:
    assert read_log(waits(1)).failure is None


def test_waits_after_which_the_start_goes_on_are_none() -> None:
    # vllm-project/vllm#39933: a compilation on a CPU
    later = (
        "(Worker pid=185) INFO 08-13 11:59:42 [monitor.py:76] Initial profiling/warmup run took 107.62 s\n"
    )
    assert read_log(waits(5) + later).failure is None


def test_an_engine_that_has_served_hangs_too() -> None:
    served = "(APIServer pid=1) INFO:     Application startup complete.\n"
    failure = read_log(served + waits(4)).failure
    assert failure is not None
    assert failure.hangs
    assert failure.serving


def test_under_a_title_on_a_hang_an_error_without_exception_is_not_its_end() -> None:
    # vllm-project/vllm#8122
    text = (
        "# [Bug]: when tensor-parallel-size>1, Stuck\n\n"
        "INFO 09-03 02:15:42 pynccl.py:63] vLLM is using nccl==2.21.5\n"
        "(VllmWorkerProcess pid=1156996) ERROR 09-03 02:21:36 pynccl_wrapper.py:196] Failed to load "
        "NCCL library "
        "from libnccl.so.2 .It is expected if you are not running on NVIDIA\n"
    )
    failure = read_log(text).failure
    assert failure is not None
    assert failure.hangs
    assert failure.cause is not None
    assert failure.cause.name == "ranks_hang_in_exchange"


def test_a_sentence_that_quotes_the_engine_is_still_a_sentence() -> None:
    # mark-ramsey-ri/vllm-dgx-spark#3
    failure = read_log(
        "# Errors on start up\n\nThe startup hangs at Using FlashAttention version 2.\n"
    ).failure
    assert failure is not None
    assert failure.hangs


def test_an_exception_under_such_a_title_is_the_failure() -> None:
    text = (
        "# [Bug]: vLLM hangs at start\n\n"
        "ValueError: Total number of attention heads (64) must be divisible by tensor parallel size (3).\n"
    )
    failure = read_log(text).failure
    assert failure is not None
    assert not failure.hangs
    assert failure.type == "ValueError"


def test_a_hang_while_graphs_are_captured_is_no_lack_of_memory() -> None:
    # vllm-project/vllm#39010, #46933
    for title in (
        "# [Bug]: Hang During CUDA Graph Capture on ROCM in 0.19\n",
        "# [Bug]: CUDA Graph capture hang\n",
    ):
        failure = read_log(title).failure
        assert failure is not None
        assert failure.hangs
        assert failure.cause is not None
        assert failure.cause.name == "worker_hangs"
        assert "--enforce-eager" in failure.cause.remedy


def test_a_title_that_quotes_the_wait_is_of_a_hang() -> None:
    # vllm-project/vllm#27313
    failure = read_log(f"# [Bug]: {WAITS.format(minute=10)[:160]}\n").failure
    assert failure is not None
    assert failure.hangs


def test_a_client_of_an_engine_that_hangs_gets_no_answer() -> None:
    # vllm-project/vllm#1492, shortened
    text = """\
vLLM hangs after 10 minutes without any error message

After 5-10 minutes, the vLLM server will hang there forever without error messages.

After hanging happens, requests will receive `openai.error.APIError: Invalid response object from API: \
'Internal Server Error' (HTTP response code was 500).` and there were no error messages from the vLLM side.
"""
    failure = read_log(text).failure
    assert failure is not None
    assert failure.hangs
    assert failure.cause is not None
    assert failure.cause.name == "worker_hangs"


def test_an_answer_that_failed_is_no_hang_by_itself() -> None:
    text = """\
vLLM answers with 500

Requests receive `openai.error.APIError: Invalid response object from API: 'Internal Server Error' \
(HTTP response code was 500).`
"""
    failure = read_log(text).failure
    assert failure is not None
    assert failure.cause is not None
    assert failure.cause.name == "request_failed"
