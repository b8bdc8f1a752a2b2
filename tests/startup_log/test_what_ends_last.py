"""Errors that only follow from another one, or repeat it behind words of their own."""

from service.startup_log.log import read_log

CORE_DIED = """\
(APIServer pid=1) ERROR 02-19 08:29:45 [core_client.py:562] Engine core proc EngineCore_0 died unexpectedly, shutting down client.
(APIServer pid=1) Exception in thread MPClientEngineMonitor:
(APIServer pid=1) Traceback (most recent call last):
(APIServer pid=1)   File "/usr/local/lib/python3.12/dist-packages/vllm/v1/engine/core_client.py", line 565, in monitor_engine_cores
(APIServer pid=1)     _self.shutdown()
(APIServer pid=1)   File "/usr/local/lib/python3.12/dist-packages/zmq/asyncio.py", line 116, in _default_loop
(APIServer pid=1)     return asyncio.get_event_loop()
(APIServer pid=1) RuntimeError: There is no current event loop in thread 'MPClientEngineMonitor'.
"""
"""Huzifa1/vllm-serverless-optimization, new_idea/mig-baseline/logs/vllm-0.log, without some calls."""
REPEATED = """\
ERROR 12-25 15:08:47 engine.py:135] IndexError('Error in model execution: tuple index out of range')
ERROR 12-25 15:08:47 engine.py:135] Traceback (most recent call last):
ERROR 12-25 15:08:47 engine.py:135]   File "/opt/conda/lib/python3.10/site-packages/vllm/model_executor/guided_decoding/xgrammar_decoding.py", line 258, in __call__
ERROR 12-25 15:08:47 engine.py:135]     sampled_token = input_ids[-1]
ERROR 12-25 15:08:47 engine.py:135] IndexError: tuple index out of range
ERROR 12-25 15:08:47 engine.py:135]
ERROR 12-25 15:08:47 engine.py:135] The above exception was the direct cause of the following exception:
ERROR 12-25 15:08:47 engine.py:135]
ERROR 12-25 15:08:47 engine.py:135] Traceback (most recent call last):
ERROR 12-25 15:08:47 engine.py:135]   File "/opt/conda/lib/python3.10/site-packages/vllm/worker/model_runner_base.py", line 146, in _wrapper
ERROR 12-25 15:08:47 engine.py:135]     raise type(err)(f"Error in model execution: "
ERROR 12-25 15:08:47 engine.py:135] IndexError: Error in model execution: tuple index out of range
"""
"""vllm-project/vllm#11484, without some calls."""
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
