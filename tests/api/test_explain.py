"""Logs over HTTP and on the command line."""

import json
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from service.cli.main import cli
from tests.api.plan_bodies import LLAMA_CONFIG
from tests.startup_log.logged_rows import logged_lines

GEMMA = """\
(APIServer pid=1) INFO 04-22 [utils.py:233] non-default args: {'model': 'google/gemma-4-31B-it', \
'api_key': ['SECRETsecret1'], 'max_model_len': 131072, 'tensor_parallel_size': 2, \
'max_num_batched_tokens': 2048, 'limit_mm_per_prompt': {'image': 2}}
(EngineCore pid=2) INFO 04-22 [core.py:105] Initializing a V1 LLM engine (v0.19.0) with config: \
model='google/gemma-4-31B-it', dtype=torch.bfloat16, max_seq_len=131072, tensor_parallel_size=2
(Worker_TP0 pid=3) INFO 04-22 [gpu_worker.py:436] Available KV cache memory: 11.54 GiB
(EngineCore pid=2) INFO 04-22 [kv_cache_utils.py:1319] GPU KV cache size: 25,200 tokens
(EngineCore pid=2) INFO [kv_cache_utils.py:1324] Maximum concurrency for 131,072 tokens per request: 1.87x
"""


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def _agreements(answer: dict) -> dict[str, str]:  # type: ignore[type-arg]
    return {finding["name"]: finding["agreement"] for finding in answer["findings"]}


def test_a_log_is_planned_as_it_was_started(client: TestClient) -> None:
    answer = client.post("/explain", json={"log": GEMMA, "gpu": "rtx-3090-24gb"}).json()

    assert answer["start"]["engine"]["version"] == "0.19.0"
    assert answer["start"]["command"] == (
        "vllm serve google/gemma-4-31B-it --tensor-parallel-size 2 --max-model-len 131072 "
        """--max-num-batched-tokens 2048 --limit-mm-per-prompt '{"image":2}'"""
    )
    agreements = _agreements(answer)
    assert agreements["kv_cache_tokens"] == agreements["max_concurrency"] == "agrees"
    assert [words.partition(":")[0] for words in answer["unmodelled"]] == []
    assert answer["assumptions"] == answer["missing"] == []
    assert answer["ending"] is None


def test_what_the_log_does_not_tell_is_said(client: TestClient) -> None:
    log = "Available KV cache memory: 11.54 GiB\nGPU KV cache size: 25,200 tokens"
    answer = client.post("/explain", json={"log": log, "model": "Qwen/Qwen3-4B"})

    assert [each["field"] for each in answer.json()["assumptions"]] == ["engine.version", "gpu", "serve"]


def test_nothing_is_planned_on_a_gpu_that_no_figure_could_confirm(client: TestClient) -> None:
    """The tokens alone depend on memory that the log does not state."""
    log = "GPU KV cache size: 25,200 tokens"
    answer = client.post("/explain", json={"log": log, "model": "Qwen/Qwen3-4B"}).json()

    assert (answer["start"], answer["verdict"]) == (None, None)
    assert [each["field"] for each in answer["missing"]] == ["gpus"]


def test_a_flag_that_later_releases_lack_shows_the_release(client: TestClient) -> None:
    """--swap-space was removed in 0.18.0, so that a start which has it is of an older release."""
    log = "$ vllm serve Qwen/Qwen3-4B --swap-space 64 --max-model-len 8192"
    answer = client.post("/explain", json={"log": log, "gpu": "h100-sxm-80gb"}).json()

    assert answer["missing"] == []
    assert answer["start"]["engine"]["version"] == "0.17.1"


def test_without_a_model_the_words_alone_are_explained(client: TestClient) -> None:
    answer = client.post(
        "/explain", json={"log": "ValueError: No available memory for the cache blocks."}
    ).json()

    assert answer["start"] is None
    assert answer["missing"][0]["field"] == "model"
    assert answer["ending"]["cause"] == "no_memory_for_cache_blocks"


@pytest.mark.parametrize(
    ("log", "field"),
    [
        ("Starting to load model nobody/has-this...", "model"),
        ("Starting to load model /models/my-model...", "model"),
        ("Automatically detected platform rocm.\nStarting to load model Qwen/Qwen3-4B...", "gpu"),
        (
            "non-default args: {'model': 'Qwen/Qwen3-4B', 'kv_cache_dtype': 'of_a_fork'}",
            "serve.kv_cache_dtype",
        ),
    ],
)
def test_what_the_log_says_and_cannot_be_planned_is_no_fault(
    client: TestClient, log: str, field: str
) -> None:
    answer = client.post("/explain", json={"log": log})

    assert answer.status_code == 200
    assert [each["field"] for each in answer.json()["missing"]] == [field]


@pytest.mark.parametrize(
    ("specified", "pointer"),
    [
        ({"gpu": "rtx-3091"}, "/gpu"),
        ({"gpu": {"name": "x", "memory_bytes": 24, "compute_capability": "8.6"}}, "/gpu/memory_bytes"),
        ({"engine": {"version": "0.8.5"}}, "/engine/version"),
        ({"engine": {"patches": ["vllm#1"]}}, "/engine/patches/0"),
        ({"serve": {"kv_cache_dtype": "fp9"}}, "/serve/kv_cache_dtype"),
        ({"config": {"architectures": ["Nothing"]}}, "/config/architectures"),
    ],
)
def test_what_is_told_beside_the_log_is_checked(
    client: TestClient, specified: dict[str, object], pointer: str
) -> None:
    answer = client.post("/explain", json={"log": GEMMA} | specified)

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == pointer


def test_what_is_told_beside_the_log_wins(client: TestClient) -> None:
    specified = {
        "log": GEMMA,
        "config": LLAMA_CONFIG,
        "engine": {"version": "0.20.2"},
        "serve": {"max_model_len": 8192},
    }
    answer = client.post("/explain", json=specified).json()

    assert answer["start"]["engine"]["version"] == "0.20.2"
    assert "--max-model-len 8192" in answer["start"]["command"]
    assert _agreements(answer)["kv_cache_tokens"] == "differs"


def test_no_secret_comes_back(client: TestClient) -> None:
    for accept in ("application/json", "text/plain"):
        answer = client.post("/explain", json={"log": GEMMA}, headers={"Accept": accept})
        assert "SECRETsecret1" not in answer.text


def test_nothing_unprintable_comes_back(client: TestClient) -> None:
    log = "ValueError: \x1b[31mFree memory on device\x07 (1.00/2.00 GiB)\x9b2J \u202eevil\u2066"
    answer = client.post("/explain", json={"log": log}, headers={"Accept": "text/plain"})

    assert all(line.isprintable() for line in answer.text.splitlines())
    assert "Free memory on device" in answer.text


@pytest.mark.parametrize("name", sorted(logged_lines())[::40])
def test_a_log_comes_from_standard_input_where_no_file_is_named(name: str) -> None:
    log = logged_lines()[name]
    named = CliRunner().invoke(cli, ["explain", "-"], input=log)
    unnamed = CliRunner().invoke(cli, ["explain"], input=log)

    assert (unnamed.exit_code, unnamed.stdout) == (named.exit_code, named.stdout)
    assert json.loads(unnamed.stdout)["log"]["lines"] == log.removesuffix("\n").count("\n") + 1


@pytest.mark.parametrize("name", sorted(logged_lines())[::40])
def test_the_command_line_says_the_same(client: TestClient, name: str) -> None:
    log = logged_lines()[name]
    result = CliRunner().invoke(cli, ["explain", "-", "--format", "json"], input=log)

    answer = client.post("/explain", json={"log": log}).json()
    understood = any(
        (answer["ending"], answer["log"]["release"], answer["log"]["model"], answer["log"]["readings"])
    )
    assert result.exit_code == (3 if answer["ending"] else 0 if understood else 5)
    assert json.loads(result.stdout) == answer


def test_the_command_line_reads_a_file_and_draws_it(client: TestClient, tmp_path: Path) -> None:
    (tmp_path / "start.log").write_text(GEMMA)
    words = ["explain", str(tmp_path / "start.log"), "--gpu", "rtx-3090-24gb", "--format", "table"]
    result = CliRunner().invoke(cli, words)
    body = {"log": GEMMA, "gpu": "rtx-3090-24gb"}

    assert result.exit_code == 0
    assert result.stdout == client.post("/explain", json=body, headers={"Accept": "text/plain"}).text
    assert "= lines 4, 5: kv cache tokens 25,200, planned 25,200" in result.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [(["nowhere.log"], "nowhere.log"), (["-", "--gpu", "rtx-3091"], "rtx-3090-24gb")],
)
def test_bad_input_exits_with_2(words: list[str], said: str) -> None:
    result = CliRunner().invoke(cli, ["explain", *words], input=GEMMA)

    assert result.exit_code == 2
    assert said in result.stderr


def test_a_file_that_is_no_text_is_read(tmp_path: Path) -> None:
    (tmp_path / "start.log").write_bytes(
        b"\xff\xfe\x00ValueError: \x80No available memory for the cache blocks"
    )
    result = CliRunner().invoke(cli, ["explain", str(tmp_path / "start.log"), "--format", "json"])

    assert json.loads(result.stdout)["ending"]["cause"] == "no_memory_for_cache_blocks"


SERVED = 'INFO:     127.0.0.1:1 - "POST /v1/completions HTTP/1.1" 200 OK\n'
SHORT = "ValueError: No available memory for the cache blocks."


def test_a_log_is_the_whole_body(client: TestClient) -> None:
    reply = client.post("/explain?gpu=rtx-3090-24gb", content=GEMMA, headers={"Content-Type": "text/plain"})
    assert reply.json() == client.post("/explain", json={"log": GEMMA, "gpu": "rtx-3090-24gb"}).json()


def test_a_long_log_is_read_in_pieces(client: TestClient) -> None:
    body = (SERVED * 200_000 + SHORT + "\n" + SERVED * 200_000).encode()
    assert len(body) > 20 << 20
    answer = client.post("/explain", content=body, headers={"Content-Type": "text/plain"}).json()

    assert (answer["ending"]["cause"], answer["ending"]["line"]) == ("no_memory_for_cache_blocks", 200_001)
    assert answer["log"]["unread_lines"] > 300_000


def test_a_log_beyond_the_limit_is_refused(client: TestClient) -> None:
    headers = {"Content-Type": "text/plain", "Content-Length": str((64 << 20) + 1)}
    assert client.post("/explain", content=b"x", headers=headers).status_code == 413


def test_an_unknown_parameter_beside_a_log_is_named(client: TestClient) -> None:
    reply = client.post("/explain?gadget=1", content=SHORT, headers={"Content-Type": "text/plain"})
    assert reply.status_code == 422
    assert "gadget" in reply.text


def test_a_report_fits_into_an_issue(client: TestClient) -> None:
    reply = client.post("/explain", json={"log": SHORT}, headers={"Accept": "text/markdown"})
    assert reply.headers["content-type"].startswith("text/markdown")
    assert reply.text.startswith("**The start failed on line 1")
    assert f"```text\n{SHORT}\n```" in reply.text
    assert "*What to do:*" in reply.text


@pytest.mark.parametrize("given", [(), ("--gpu", "rtx-3090-24gb")])
def test_a_report_says_that_a_gpu_was_assumed(given: tuple[str, ...]) -> None:
    """The log names none, so what is planned beside it is of a GPU that the service chose."""
    words = ["explain", "-", "--format", "markdown", *given]
    lines = CliRunner().invoke(cli, words, input=GEMMA).stdout.splitlines()
    assumed = [line for line in lines if line.startswith("| Assumed | gpu = ")]
    (planned,) = (line for line in lines if line.startswith("| Planned beside it |"))
    assert len(assumed) == (0 if given else 1)
    assert all(f" on {line.partition(' = ')[2].partition(':')[0]}:" in planned for line in assumed)


NAMED = "How much memory do I need? I use vLLM 0.19.0."
AT_A_REQUEST = """\
INFO:     Application startup complete.
INFO:     127.0.0.1:5 - "POST /v1/completions HTTP/1.1" 500 Internal Server Error
Traceback (most recent call last):
  File "/opt/site-packages/vllm/entrypoints/openai/serving_completion.py", line 1, in create_completion
    x()
KeyError: 'a state'
INFO:     127.0.0.1:5 - "POST /v1/completions HTTP/1.1" 200 OK"""

STOPPED = """\
(APIServer pid=2805) INFO:     Application startup complete.
(APIServer pid=2805) INFO 07-22 10:45:28 [launcher.py:100] [shutdown] API server: shutdown triggered
(APIServer pid=2805) ERROR 07-22 10:45:28 [async_llm.py:704] AsyncLLM output_handler failed.
vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above)"""


@pytest.mark.parametrize(
    ("text", "code"),
    [(SHORT, 3), ("", 5), ("\x00\x01", 5), (GEMMA, 0), (NAMED, 5), (AT_A_REQUEST, 0), (STOPPED, 0)],
)
def test_the_exit_code_says_how_it_ended(text: str, code: int) -> None:
    assert CliRunner().invoke(cli, ["explain", "-", "--format", "table"], input=text).exit_code == code


def test_the_text_says_what_happened_first() -> None:
    out = CliRunner().invoke(cli, ["explain", "-", "--format", "table"], input=SHORT).stdout.splitlines()
    assert out[0] == "The start failed on line 1: no memory for cache blocks."
    assert [line.partition(":")[0] for line in out[2:4]] == ["Why", "Do"]
    assert len(out) < 25
