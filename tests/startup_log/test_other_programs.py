"""Wrappers, clients and benchmarks around the engine, whose own words and servers are not the engine's."""

import pytest

from service.application.text.headline import headline
from service.explanation.explain import explain
from service.startup_log.failures.logged_failure import Failure
from service.startup_log.log import StartupLog, read_log

HEADER = "Traceback (most recent call last):"
CORE = "(EngineCore_0 pid=62)"
SERVER = "(APIServer pid=7)"

NOT_STARTED = f"""\
{CORE} INFO 03-19 11:14:31 [gpu_worker.py:276] Available KV cache memory: -0.72 GiB
{CORE} ERROR 03-19 11:14:31 [core.py:700] EngineCore failed to start.
{CORE} ERROR 03-19 11:14:31 [core.py:700] {HEADER}
{CORE} ERROR 03-19 11:14:31 [core.py:700]   File "/x/vllm/v1/core/kv_cache_utils.py", line 1, in check
{CORE} ERROR 03-19 11:14:31 [core.py:700]     raise ValueError("No available memory")
{CORE} ERROR 03-19 11:14:31 [core.py:700] ValueError: No available memory for the cache blocks.
{SERVER} {HEADER}
{SERVER}   File "/x/vllm/v1/engine/utils.py", line 759, in wait_for_engine_startup
{SERVER}     raise RuntimeError("Engine core initialization failed. "
{SERVER} RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {{}}
"""
"""File 53525371263 of the index that was searched, shortened."""
ANOTHER_SERVER = """\
[entrypoint] ERROR: vLLM server process exited unexpectedly
[entrypoint] Falling back to pipeline-only mode
INFO:     Started server process [1]
INFO:     Waiting for application startup.
INFO:     Application startup complete.
INFO:     Uvicorn running on http://0.0.0.0:8010 (Press CTRL+C to quit)
"""
REFUSED = f"""\
{SERVER} {HEADER}
{SERVER}   File "/x/vllm/engine/arg_utils.py", line 1, in create_engine_config
{SERVER}     model_config = self.create_model_config()
{SERVER} ValueError: User-specified max_model_len (65536) is greater than the derived max_model_len (32768)
"""
AGAIN = f"""\
{SERVER} INFO 03-19 11:20:31 [api_server.py:1] Starting vLLM server on http://0.0.0.0:8000
{SERVER} INFO:     Application startup complete.
"""


def test_a_server_that_comes_up_after_the_engine_ended_is_another_one() -> None:
    log = read_log(f"{NOT_STARTED}{ANOTHER_SERVER}")

    assert _cause(log) == "no_memory_for_cache_blocks"
    assert log.milestone == "cache"


def test_the_front_end_s_own_exception_ends_it_too() -> None:
    log = read_log(f"{REFUSED}{ANOTHER_SERVER}")

    assert _cause(log) == "length_beyond_model"


def test_an_engine_that_logs_on_came_up_the_second_time() -> None:
    assert read_log(f"{NOT_STARTED}{AGAIN}").milestone == "serving"


def test_a_person_who_quotes_the_end_of_another_start_ends_none() -> None:
    quoted = "Before it was `RuntimeError: Engine core initialization failed`, now it runs.\n"

    assert read_log(f"{quoted}{ANOTHER_SERVER}").milestone == "serving"


CLIENT = f"""\
Codegen: HumanEval/0 @ A-Model
{HEADER}
  File "/home/x/.local/lib/python3.12/site-packages/fire/core.py", line 684, in _CallAndUpdateTrace
    component = fn(*varargs, **kwargs)
  File "/home/x/.local/lib/python3.12/site-packages/evalplus/provider/openai.py", line 21, in codegen
    assert self.temperature > 0, "Temperature must be positive for sampling"
AssertionError: Temperature must be positive for sampling
"""
"""canada-quant/dsv4-flash-w4a16-fp8, humaneval_codegen.log, shortened."""
OF_CLIENT = f"""\
{HEADER}
  File "/x/site-packages/lm_eval/models/openai_completions.py", line 1, in get_logprobs
    return answer["logprobs"]
KeyError: 'logprobs'
"""
OF_ENGINE = f"""\
{HEADER}
  File "/x/site-packages/vllm/distributed/kv_transfer/kv_connector/v1/umbp/data.py", line 21, in __post_init__
    raise ValueError("size must be positive")
ValueError: size must be positive
"""


def test_words_of_another_program_are_not_the_engine_s() -> None:
    assert _cause(read_log(CLIENT)) == "program_fault"
    assert _cause(read_log(OF_ENGINE)) == "kv_connector_failed"
    assert _cause(read_log(OF_CLIENT)) != "request_not_checked"


TOKENIZER = f"""\
{HEADER}
  File "/x/site-packages/lm_eval/models/api_models.py", line 203, in __init__
    self.tokenizer = transformers.AutoTokenizer.from_pretrained(
  File "/x/site-packages/transformers/utils/hub.py", line 454, in cached_files
    raise OSError(
OSError: A-MODEL is not a local folder and is not a valid model identifier listed on 'https://huggingface.co/models'
"""
"""canada-quant/dsv4-flash-w4a16-fp8, gsm8k_v2.log, shortened."""
LOST = """\
[11:49:22] ENGINE READY
[bench] sending 16 requests
  request error: HTTP Error 500: Internal Server Error
  request error: [Errno 104] Connection reset by peer
  request error: <urlopen error [Errno 111] Connection refused>
[bench] ERROR: no successful requests
"""
"""The same, concurrency_wall/ctx4096_seq16.log, shortened."""
UNKNOWN_HOST = """\
[11:49:22] ENGINE READY
PROBE: curl: (6) Could not resolve host: node-5
"""
NOT_READY = """\
- **错误**: vLLM 在 300s 内未就绪: Connection error.

(EngineCore pid=7) INFO 03-16 12:48:45 [gpu_model_runner.py:4338] Model loading took 6.31 GiB memory
(EngineCore pid=7) INFO 03-16 12:48:46 [backends.py:976] Dynamo bytecode transform time: 0.61 s
"""
"""File 53268813834 of the index that was searched, shortened."""
REQUESTED = f"""\
{HEADER}
  File "/x/site-packages/urllib3/connection.py", line 174, in _new_conn
    conn = connection.create_connection(
ConnectionRefusedError: [Errno 111] Connection refused

During handling of the above exception, another exception occurred:

{HEADER}
  File "/home/x/eval.py", line 12, in <module>
    r = requests.post("http://localhost:8000/v1/completions", json=body)
requests.exceptions.ConnectionError: HTTPConnectionPool(host='localhost', port=8000): Max retries \
exceeded with url: /v1/completions (Caused by NewConnectionError('[Errno 111] Connection refused'))
"""
"""requests 2.32 and urllib3 2.2, adapters.py and exceptions.py."""
UNRESOLVED = """\
httpx.ConnectError: [Errno -2] Name or service not known
openai.APIConnectionError: Connection error.
"""
"""httpx 0.28 and openai 1.0, _exceptions.py."""
FIRST_OF_BENCHMARK = f"""\
{HEADER}
  File "/x/site-packages/vllm/benchmarks/serve.py", line 917, in benchmark
    raise ValueError(
ValueError: Initial test run failed - Please make sure benchmark arguments are correctly specified. Error: X
"""
NO_JSON = f"""\
{HEADER}
  File "/home/x/bench.py", line 33, in <module>
    r.json()["choices"]
  File "/home/x/site-packages/requests/models.py", line 978, in json
    raise RequestsJSONDecodeError(e.msg, e.doc, e.pos)
requests.exceptions.JSONDecodeError: Expecting value: line 1 column 1 (char 0)
"""
"""requests 2.32, models.py Response.json."""
BENCHED = f"""\
{HEADER}
  File "/x/site-packages/lm_eval/models/vllm_causallms.py", line 120, in __init__
    self.model = LLM(**self.model_args)
  File "/x/site-packages/transformers/utils/hub.py", line 454, in cached_files
    raise OSError(
OSError: A-MODEL is not a local folder and is not a valid model identifier listed on 'https://huggingface.co/models'
"""


@pytest.mark.parametrize(
    ("text", "cause", "means"),
    [
        (TOKENIZER, "repository_not_found", "loads a tokenizer of its own"),
        (BENCHED, "repository_not_found", ""),
        (LOST, "server_not_reached", "the server ended under these requests"),
        (UNKNOWN_HOST, "server_not_reached", "it asked no server at all"),
        (NOT_READY, "start_timed_out", "gave up"),
        (REQUESTED, "server_not_reached", "connection was refused"),
        (UNRESOLVED, "server_not_reached", "it asked no server at all"),
        (NO_JSON, "json_not_read", "read the answer as JSON"),
        (FIRST_OF_BENCHMARK, "request_failed", "sends one request before it measures"),
    ],
)
def test_what_a_client_reports_is_the_client_s(text: str, cause: str, means: str) -> None:
    failure = _failure(read_log(text))

    assert failure.cause is not None
    assert failure.cause.name == cause
    assert (failure.form.means if failure.form else "").find(means) >= 0
    assert bool(means) == (failure.form is not None)


AT = f"{SERVER} ERROR 03-16 12:48:29 [processor.py:229]"
PASSED_OVER = f"""\
{AT} Failed to collect processor kwargs
{AT} {HEADER}
{AT}   File "/x/vllm/transformers_utils/processor.py", line 1, in f
{AT}     return get_args(call_kwargs_annotations)[0]
{AT} IndexError: tuple index out of range
"""
LATER = "(EngineCore pid=7) INFO 03-16 12:48:44 [default_loader.py:293] Loading weights took 2.88 seconds\n"


def test_a_traceback_below_which_the_engine_logs_on_ended_nothing() -> None:
    assert read_log(f"{PASSED_OVER}{LATER}").failure is None
    assert _failure(read_log(PASSED_OVER)).type == "IndexError"
    failed = read_log(f"{PASSED_OVER}{LATER}torch.OutOfMemoryError: CUDA out of memory.\n")
    assert _cause(failed) == "out_of_memory"


USAGE = f"""\
Exception in thread Thread-5 (_report_usage_worker):
{HEADER}
  File "/x/site-packages/cpuinfo/cpuinfo.py", line 2759, in get_cpu_info
    output = json.loads(output, object_hook = _utf_to_str)
json.decoder.JSONDecodeError: Expecting value: line 1 column 2 (char 1)
"""


def test_a_client_without_an_answer_is_no_refused_request() -> None:
    said = headline(explain(read_log(UNKNOWN_HOST), None))

    assert said == "A client reports a failure on line 2: server not reached."


def test_a_thread_that_reports_usage_ended_nothing() -> None:
    assert read_log(f"{USAGE}{LATER}").failure is None
    assert _cause(read_log(f"{USAGE}torch.OutOfMemoryError: CUDA out of memory.\n{LATER}")) == "out_of_memory"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            "datasets.DatasetNotFoundError: Dataset 'x' doesn't exist on the Hub or cannot be accessed",
            "repository_not_found",
        ),
        (
            "ERROR [open_webui.routers.openai] Connection error: Cannot connect to host vllm:8000",
            "server_not_reached",
        ),
        ("ERROR: vLLM failed to become healthy in 600 seconds", "start_timed_out"),
        (
            "requests.ReadTimeout: HTTPConnectionPool(host='localhost', port=8000): Read timed out.",
            "client_timed_out",
        ),
        (
            "openai.InternalServerError: Error code: 500 - {'message': 'EngineCore encountered an issue.'}",
            "engine_died_serving",
        ),
    ],
)
def test_messages_of_clients_are_known(text: str, cause: str) -> None:
    assert _cause(read_log(text)) == cause


def test_a_worker_that_ray_saw_end_is_named() -> None:
    """Ray, src/ray/raylet/node_manager.cc; verl-project/verl#217."""
    text = (
        "(raylet) A worker died or was killed while executing a task by an unexpected system error. "
        "To troubleshoot the problem, check the logs for the dead worker."
    )
    assert _cause(read_log(text)) == "ray_actor_died"


def test_ranks_that_do_not_find_each_other_are_no_clients() -> None:
    logged = "INFO 03-16 12:48:44 [parallel_state.py:1] world_size=2\n"

    assert _cause(read_log(f"{logged}{REQUESTED}")) == "ranks_not_connected"


def _failure(log: StartupLog) -> Failure:
    assert log.failure is not None
    return log.failure


def _cause(log: StartupLog) -> str | None:
    cause = _failure(log).cause
    return None if cause is None else cause.name
