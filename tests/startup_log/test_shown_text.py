"""Words beside the failure: lists of packages, sources that are shown, a client's own errors."""

import pytest

from service.startup_log.errors.shown_text import is_listed, source_of_tests
from service.startup_log.failures.failure import find_failure
from service.startup_log.failures.logged_failure import Failure
from service.startup_log.text.lines import read_lines


def failure_of(text: str) -> Failure:
    found = find_failure(read_lines(text))
    assert found is not None
    return found


def cause_of(text: str) -> str | None:
    cause = failure_of(text).cause
    return None if cause is None else cause.name


@pytest.mark.parametrize(
    "text",
    [
        "nvidia-nvshmem-cu12==3.2.5",
        "torch==2.9.0.dev20250702+cu128",
        "cuda-nvrtc    12.1.105    0    nvidia",
    ],
)
def test_a_package_with_its_version_is_listed(text: str) -> None:
    assert is_listed(text)


@pytest.mark.parametrize(
    "text",
    [
        "assert world_size == 4",
        "ERROR: No matching distribution found for xformers==0.0.1",
        "RuntimeError: CUDA error",
        "",
    ],
)
def test_a_sentence_is_no_list_of_packages(text: str) -> None:
    assert not is_listed(text)


def test_a_listed_package_is_not_what_failed() -> None:
    text = (
        "[pip3] nvidia-nvshmem-cu12==3.2.5\n[pip3] pyzmq==27.0.0\n"
        "ERROR 07-04 11:33:12 [client.py:307] RuntimeError('Engine process (pid 41) died.')\n"
        "ERROR 07-04 11:33:12 [client.py:307] NoneType: None\n"
    )
    assert cause_of(text) == "engine_died_serving"


REPORT = """\
____________________ test_offload ____________________

    @pytest.mark.skipif(not has("marlin"), reason="gptq_marlin is not supported on this GPU type.")
    def test_offload(monkeypatch):
        # Test GPTQ Marlin: is not supported
        with pytest.raises(ValueError, match="Failed to convert the grammar "):
            run("bad")
>       compare("some/model")

quantization/test_offload.py:33:
_ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _
utils.py:133: in __init__
    self.wait()
    def wait(self):
>       raise RuntimeError("Server exited unexpectedly.") from None
E       RuntimeError: Server exited unexpectedly.

utils.py:161: RuntimeError
"""


def test_the_source_of_a_test_is_not_what_failed() -> None:
    found = failure_of(REPORT)
    assert (found.type, found.message) == ("RuntimeError", "Server exited unexpectedly.")
    assert found.form is not None
    assert "does not hold that process's output" in (found.form.means or "")


def test_source_without_an_exception_below_is_no_report() -> None:
    assert not source_of_tests(read_lines("def main():\n    run()\nValueError: no report of pytest"))


def test_a_class_inside_of_a_class_is_an_exception() -> None:
    text = (
        "Is CUDA available: False\n"
        "ERROR 12-13 08:58:11 engine.py:165] Traceback (most recent call last):\n"
        'ERROR 12-13 08:58:11 engine.py:165]   File "/x/vllm/core/block/naive.py", line 130, in take\n'
        "ERROR 12-13 08:58:11 engine.py:165]     raise BlockAllocator.NoFreeBlocksError()\n"
        "ERROR 12-13 08:58:11 engine.py:165] vllm.core.block.interfaces.BlockAllocator.NoFreeBlocksError\n"
    )
    found = failure_of(text)
    assert (found.type, cause_of(text)) == ("NoFreeBlocksError", "no_free_block")


def test_a_package_that_is_not_built_comes_before_collect_env() -> None:
    collect = (
        "Traceback (most recent call last):\n"
        '  File "/x/collect_env.py", line 17, in <module>\n'
        "    from vllm.envs import environment_variables\n"
        "ModuleNotFoundError: No module named 'vllm'\n"
    )
    build = "error: subprocess-exited-with-error\nERROR: Failed building wheel for xformers\n"
    assert cause_of(collect + build) == "install_failed"
    assert cause_of(collect) == "vllm_not_installed"


def test_source_that_a_notebook_shows_is_not_what_failed() -> None:
    text = (
        "ConnectError                       Traceback (most recent call last)\n"
        "File ~/env/lib/site-packages/httpcore/_backends/sync.py:207, in SyncBackend.connect_tcp(self)\n"
        "    202 exc_map: ExceptionMapping = {\n"
        "    203     socket.timeout: ConnectTimeout,\n"
        "    204     OSError: ConnectError,\n"
        "    205 }\n"
        "--> 207 with map_exceptions(exc_map):\n\n"
        "ConnectError: [Errno 111] Connection refused\n\n"
        "The above exception was the direct cause of the following exception:\n\n"
        "APIConnectionError                 Traceback (most recent call last)\n"
        "File ~/env/lib/site-packages/openai/_base_client.py:989, in SyncAPIClient._request(self)\n"
        "--> 989     raise APIConnectionError(request=request) from err\n\n"
        "APIConnectionError: Connection error.\n"
    )
    found = failure_of(text)
    assert (found.type, cause_of(text)) == ("APIConnectionError", "server_not_reached")
    assert found.form is not None
    assert "refused" in (found.form.means or "")


READ_BY_TEST = """\
test_answers.py:100:
/usr/lib/python3.12/json/__init__.py:346: in loads
    return _default_decoder.decode(s)
E   json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)
"""
READ_BY_ENGINE = """\
Traceback (most recent call last):
  File "/x/site-packages/vllm/config.py", line 9, in read
    json.load(file)
  File "/usr/lib/python3.12/json/__init__.py", line 293, in load
    return loads(fp.read())
json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)
"""
READ_BY_CLIENT = """\
File /opt/lib/site-packages/openai/lib/_parsing/_completions.py:221, in _parse_content(content)
--> 221         return cast(T, model_parse_json(response_format, content))

ValidationError: 1 validation error for Hotel
  Invalid JSON: expected ident at line 1 column 2
"""
CONFIGURED = """\
subprocess.CalledProcessError: Command '['cmake', '/src/vllm', '-G', 'Ninja', '-DNVCC_THREADS=1']' returned 1.
"""
RACE = "FileNotFoundError: [Errno 2] No such file or directory: '/root/.triton/cache/de75/k.json.tmp.pid_7'"
KEYWORD = "TypeError: {function}() got an unexpected keyword argument 'top_k'"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (KEYWORD.format(function="Completions.create"), "client_keyword_unknown"),
        (KEYWORD.format(function="select_step"), "call_not_known"),
        ("openai.APITimeoutError: Request timed out.", "client_timed_out"),
        (READ_BY_TEST, "answer_not_json"),
        (READ_BY_ENGINE, "json_not_read"),
        (READ_BY_CLIENT, "answer_not_json"),
        (CONFIGURED, "source_not_configured"),
        (RACE, "triton_cache_race"),
    ],
)
def test_the_cause_is_that_of_who_failed(text: str, cause: str) -> None:
    assert cause_of(text) == cause


def test_a_health_check_says_that_the_text_lacks_the_reason() -> None:
    text = (
        'File "/x/vllm/entrypoints/openai/api_server.py", line 84, in health\n'
        "    await engine.check_health()\n"
        'File "/x/vllm/engine/async_llm_engine.py", line 839, in check_health\n'
        '    raise AsyncEngineDeadError("Background loop is stopped.")\n'
        "vllm.engine.async_llm_engine.AsyncEngineDeadError: Background loop is stopped.\n"
    )
    form = failure_of(text).form
    assert form is not None
    assert "does not hold that error" in (form.means or "")


def test_a_quantization_in_a_title_is_no_reason_for_an_end_under_load() -> None:
    text = (
        "[Bug]: error when the concurrency reaches 10 with gptq4bits\n\n"
        "vllm.engine.async_llm_engine.AsyncEngineDeadError: Background loop is not running.\n"
    )
    assert cause_of(text) == "engine_died_serving"


def test_what_a_worker_says_of_an_absent_file_has_the_class_of_its_exception() -> None:
    text = (
        "ERROR 07-10 09:23:56 worker_utils.py:120] Exception in worker while processing method profile: "
        "[Errno 2] No such file or directory: '/root/.triton/cache/de75/k.json'\n"
    )
    assert (failure_of(text).type, cause_of(text)) == ("FileNotFoundError", "triton_cache_race")


def test_no_gpu_where_collect_env_runs_is_not_what_failed() -> None:
    collects = (
        "Collecting environment information...\nNo CUDA runtime is found, using CUDA_HOME='/usr/local/cuda'\n"
    )
    assert cause_of(collects) == "no_gpu_visible"
    assert failure_of(f"{collects}ValueError: a reason that nobody knows\n").type == "ValueError"
