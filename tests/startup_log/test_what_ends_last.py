"""Errors that only follow from another one, or repeat it behind words of their own."""

from service.startup_log.log import read_log

CORE_DIED = """\
ERROR 02-19 08:29:45 client.py:562] Engine core proc EngineCore_0 died unexpectedly, shutting down client.
Exception in thread MPClientEngineMonitor:
Traceback (most recent call last):
  File "/x/vllm/v1/engine/core_client.py", line 565, in monitor_engine_cores
    _self.shutdown()
  File "/x/zmq/asyncio.py", line 116, in _default_loop
    return asyncio.get_event_loop()
RuntimeError: There is no current event loop in thread 'MPClientEngineMonitor'.
"""
"""Huzifa1/vllm-serverless-optimization, new_idea/mig-baseline/logs/vllm-0.log, shortened."""
REPEATED = """\
[rank0]: IndexError('Error in model execution: tuple index out of range')
[rank0]: Traceback (most recent call last):
[rank0]:   File "/x/vllm/model_executor/guided_decoding/xgrammar_decoding.py", line 258, in __call__
[rank0]:     sampled_token = input_ids[-1]
[rank0]: IndexError: tuple index out of range
[rank0]:
[rank0]: The above exception was the direct cause of the following exception:
[rank0]:
[rank0]: Traceback (most recent call last):
[rank0]:   File "/x/vllm/worker/model_runner_base.py", line 146, in _wrapper
[rank0]:     raise type(err)(f"Error in model execution: "
[rank0]: IndexError: Error in model execution: tuple index out of range
"""
"""vllm-project/vllm#11484, without the prefix and some calls."""
WRAPPED = """\
(EngineCore pid=118) WARNING 08-01 08:10:34 [compilation.py:1362]
CUDAGraphMode.FULL is not supported with FlashInferBackend backend
(support: AttentionCGSupport.UNIFORM_SINGLE_TOKEN_DECODE);
setting cudagraph_mode=FULL_AND_PIECEWISE

"""
"""vLLM 0.24.0, config/compilation.py, as a document that wraps lines shows it."""


def test_the_thread_that_sees_the_end_of_the_core_says_nothing_of_its_reason() -> None:
    found = read_log(CORE_DIED).failure

    assert found is not None
    assert found.cause is not None
    assert (found.cause.name, found.line) == ("engine_died_serving", 1)


def test_an_error_below_the_traceback_of_that_thread_counts() -> None:
    error = "RuntimeError: CUDA error: an illegal memory access was encountered\n"
    found = read_log(CORE_DIED + error).failure

    assert found is not None
    assert found.cause is not None
    assert found.cause.name == "illegal_memory_access"


def test_an_error_that_is_raised_again_with_words_before_it_is_shown_where_it_was_raised() -> None:
    found = read_log(REPEATED).failure

    assert found is not None
    assert found.cause is not None
    assert (found.cause.name, found.line) == ("grammar_failed", 5)


def test_a_warning_whose_message_begins_below_its_place_is_one() -> None:
    assert read_log(WRAPPED).failure is None


def test_an_error_whose_message_begins_below_its_place_stays_one() -> None:
    assert read_log(WRAPPED.replace("WARNING", "ERROR")).failure is not None


def test_the_lines_below_an_empty_one_are_no_part_of_the_warning() -> None:
    text = WRAPPED + "ValueError: Model architectures ['A'] are not supported for now.\n"

    found = read_log(text).failure
    assert found is not None
    assert found.line == len(text.splitlines())


FINISHED = """\
INFO 05-12 11:36:00 [core.py:1201] Shutdown initiated (timeout=0)
INFO 05-12 11:36:00 [core.py:1224] Shutdown complete
ERROR 05-12 11:36:01 [core_client.py:704] Engine core proc EngineCore died unexpectedly, shutting down client.
"""
"""vLLM 0.19.0, v1/engine/core.py and core_client.py, at the end of a program that used the engine."""


def test_a_core_that_ended_by_itself_did_not_die() -> None:
    assert read_log(FINISHED).failure is None
    died = FINISHED.replace("Shutdown complete", "Waiting for 2 requests")
    assert read_log(died).failure is not None


def test_a_probe_that_no_server_answers_follows_from_the_end_of_the_container() -> None:
    """kaito-project/kaito#1609, with a shorter name."""
    pod = "12s   Warning   {}   pod/workspace-llama-0     {}\n"
    refused = "Max retries exceeded with url: /health (Caused by NewConnectionError('Connection refused'))"
    text = pod.format("BackOff", "Back-off restarting failed container workspace-llama in pod") + pod.format(
        "Unhealthy", f'Readiness probe failed: Get "http://workspace-llama-0:5000/health": {refused}'
    )

    found = read_log(text).failure
    assert found is not None
    assert found.cause is not None
    assert found.cause.name == "crash_loop"
