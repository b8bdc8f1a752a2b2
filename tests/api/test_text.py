"""Plans as text, as a person with curl meets them."""

import shlex
from typing import Any

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from service.api.responses import negotiated_format
from service.cli.main import cli
from tests.api.plan_bodies import (
    GEMMA,
    GEMMA_QUERY,
    LLAMA_CONFIG,
    with_engine,
    with_serve,
)


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", "json"),
        ("*/*", "json"),
        ("application/json", "json"),
        ("text/plain", "table"),
        ("text/*", "table"),
        ("TEXT/PLAIN; charset=utf-8", "table"),
        ("text/plain, */*", "table"),
        ("application/json, text/plain, */*", "json"),
        ("text/plain;q=0.5, application/json", "json"),
        ("text/plain, application/json;q=0.9", "table"),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "json"),
        ("text/plain;q=0", "json"),
        ("text/plain;q=much", "json"),
        ("image/png", "json"),
    ],
)
def test_the_accept_header_chooses(accept: str, form: str) -> None:
    assert negotiated_format(accept) == form


def test_a_table_by_accept_header_is_the_table_by_format(client: TestClient) -> None:
    by_header = client.post("/plan", json=GEMMA, headers={"Accept": "text/plain"})
    assert by_header.headers["content-type"] == "text/plain; charset=utf-8"
    assert client.get("/plan", params={**GEMMA_QUERY, "format": "table"}).text == by_header.text


def test_a_table_says_what_the_engine_logs(client: TestClient) -> None:
    text = client.post("/plan", json=GEMMA, headers={"Accept": "text/plain"}).text
    for words in (
        "google/gemma-4-31B-it",
        "vLLM 0.19.0",
        "rtx-3090-24gb",
        "25,200",
        "1.87x",
        "uncertain",
        "11.54",
    ):
        assert words in text
    assert text.isascii()
    assert "\x1b" not in text
    assert not any(line != line.rstrip() for line in text.splitlines())


def test_a_table_holds_the_command_unbroken(client: TestClient) -> None:
    reply = client.post("/plan", json=GEMMA).json()
    text = client.post("/plan", json=GEMMA, headers={"Accept": "text/plain"}).text
    assert reply["plans"][0]["recommended"]["command"] in text.splitlines()


def test_a_refusal_is_told_in_the_engines_words(client: TestClient) -> None:
    question = with_serve(with_engine(GEMMA, "0.20.2"), kv_cache_dtype="int8_per_token_head")
    error = client.post("/plan", json=question).json()["plans"][0]["nearest_refused"]["error"]
    text = " ".join(client.post("/plan", json=question, headers={"Accept": "text/plain"}).text.split())
    assert "does not start" in text
    assert " ".join(error["message"].split()) in text
    assert all(" ".join(fix.split()) in text for fix in error["fix"])


def test_a_refusal_says_with_which_context(client: TestClient) -> None:
    """Its config's max_position_embeddings are 128,000; with fewer tokens it starts on the same GPU."""
    answer = client.get(
        "/plan?model=Qwen/Qwen2.5-VL-7B-Instruct&gpu=rtx-4090-24gb:1", headers={"Accept": "text/plain"}
    )
    assert "Does not start with a context of 128,000 tokens: TP 1: auto" in answer.text
    assert "Recommended, starts: auto (bfloat16), context " in answer.text


def test_many_gpus_are_compared_line_by_line(client: TestClient) -> None:
    query = {key: value for key, value in GEMMA_QUERY.items() if key != "gpu"}
    text = client.get("/plan", params={**query, "format": "table"}).text
    assert "The same refusal" not in text
    modelled = [gpu["id"] for gpu in client.get("/gpus").json()["gpus"] if gpu["modelled"]]
    # Lines below a row are indented.
    first_words = [line.split()[0] for line in text.splitlines() if line.strip() and line[0] != " "]
    first = next(place for place, word in enumerate(first_words) if set(word) == {"-"}) + 1
    assert first_words[first : first + len(modelled)] == modelled


def test_commands_can_be_pasted(client: TestClient) -> None:
    text = client.get("/plan", params={**GEMMA_QUERY, "format": "command"}).text
    (command,) = text.splitlines()
    words = shlex.split(command)
    assert words[:3] == ["vllm", "serve", "google/gemma-4-31B-it"]
    assert words[words.index("--tensor-parallel-size") + 1] == "2"


def test_commands_for_several_gpus_are_commands_alone(client: TestClient) -> None:
    query = {**GEMMA_QUERY, "gpu": ["rtx-3090-24gb", "rtx-4090-24gb"], "format": "command"}
    lines = client.get("/plan", params=query).text.splitlines()
    assert [line.split()[:3] for line in lines] == [["vllm", "serve", "google/gemma-4-31B-it"]] * 2


def test_where_nothing_starts_no_command_is_given(client: TestClient) -> None:
    query = {**GEMMA_QUERY, "engine_version": "0.20.2", "kv_cache_dtype": "int8_per_token_head"}
    reply = client.get("/plan", params={**query, "format": "command"})
    assert (reply.status_code, reply.json()["type"]) == (409, "/problems/nothing-to-run")
    assert "rtx-3090-24gb: nothing starts" in reply.json()["detail"]


def test_a_workload_tells_how_many_requests_are_admitted(client: TestClient) -> None:
    text = client.get("/plan", params={**GEMMA_QUERY, "prompt_tokens": 16001, "format": "table"}).text
    assert "Workload: A prompt of 16,001 tokens is admitted" in text


def test_a_hostile_name_stays_one_word_of_the_command(client: TestClient) -> None:
    hostile = "a; rm -rf $HOME `id` \"'"
    question = {**GEMMA, "model": hostile, "config": LLAMA_CONFIG}
    command = client.post("/plan", json=question).json()["plans"][0]["recommended"]["command"]
    assert shlex.split(command)[2] == hostile


@pytest.mark.parametrize(
    ("serve", "gpu", "said"),
    [
        # Two H100s hold 58 GiB of weights and a request of 262,144 tokens; one has too little for it.
        (
            {},
            "h100-sxm-80gb",
            (
                "the start that 0.32.0 recommends: auto (bfloat16), 2 GPUs (TP 2).",
                "It starts on both releases.",
            ),
        ),
        (
            {"tensor_parallel_size": 1, "kv_cache_dtype": "auto", "max_model_len": 262144},
            "h100-sxm-80gb",
            (
                "the start nearest to success on 0.32.0, which recommends none: auto",
                "starts on neither release.",
            ),
        ),
        # 58 GiB of weights are 35 GiB more than a card of 24 GB has.
        (
            {"tensor_parallel_size": 1, "kv_cache_dtype": "auto", "max_model_len": 4096},
            "rtx-3090-24gb",
            ("starts on neither release.", "GiB too little ("),
        ),
    ],
)
def test_a_comparison_says_which_start_and_in_which_units(
    client: TestClient, serve: dict[str, Any], gpu: str, said: tuple[str, ...]
) -> None:
    versions = ["0.20.2", "0.32.0"]
    body = {
        "model": "google/gemma-4-31B-it",
        "gpus": [gpu],
        "serve": serve,
        "engine": {"versions": versions},
    }
    (step,) = client.post("/plan", json=body).json()["upgrades"]
    text = client.post("/plan", json=body, headers={"Accept": "text/plain"}).text
    shown = " ".join(text.partition(f"-- {gpu}")[2].split())
    before, after = (_memory_words(step[name]) for name in ("before", "after"))

    assert all(words in shown for words in said)
    assert f"memory for the KV cache of one rank: {before} became {after}" in shown
    assert step["start"]["gpus"] == (serve.get("tensor_parallel_size") or 2)
    assert step["start"]["command"].startswith("vllm serve google/gemma-4-31B-it --")
    line = ["plan", "google/gemma-4-31B-it", "--gpu", gpu, "--format", "table"]
    flags = [word for name, value in serve.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    told = CliRunner().invoke(cli, [*line, *flags, "--compare", versions[0], "--compare", versions[1]])
    assert told.stdout.partition(f"-- {gpu}")[2] == text.partition(f"-- {gpu}")[2]


def _memory_words(outcome: dict[str, Any]) -> str:
    middle, low, high = (outcome[f"available_kv_{name}bytes"] / 2**30 for name in ("", "low_", "high_"))
    if high < 0:
        return f"{-middle:.2f} GiB too little ({-high:.2f} to {-low:.2f})"
    least = f"{-low:.2f} too little" if low < 0 else f"{low:.2f}"
    lacks = " too little" if middle < 0 else ""
    return f"{abs(middle):.2f} GiB{lacks} ({least} to {high:.2f})"


def test_a_table_over_http_is_ordered_and_cut_as_on_the_command_line(client: TestClient) -> None:
    asked = "model=Qwen/Qwen3-32B&gpu=l4,h100,a100-sxm-80gb,b200&tensor_parallel_size=1"
    table = client.get(f"/plan?{asked}&format=table&sort=name&only=starting&width=80").text
    line = ["plan", "Qwen/Qwen3-32B", "--gpu", "l4,h100,a100-sxm-80gb,b200", "--tensor-parallel-size", "1"]
    options = ["--format", "table", "--sort", "name", "--only", "starting"]
    printed = CliRunner().invoke(cli, [*line, *options], env={"COLUMNS": "80", "HF_HUB_OFFLINE": "1"}).stdout

    assert table == printed
    assert "l4-24gb" not in table
    assert max(map(len, table.splitlines())) <= 80
    gpus = ["l4", "h100", "a100-sxm-80gb", "b200"]
    body = {"model": "Qwen/Qwen3-32B", "gpus": gpus, "serve": {"tensor_parallel_size": 1}}
    assert client.post("/plan?format=table&sort=name&only=starting&width=80", json=body).text == table


@pytest.mark.parametrize("wrong", ["sort=price", "only=none", "width=10", "sorted=name"])
def test_a_wrong_way_to_write_a_table_is_refused(client: TestClient, wrong: str) -> None:
    body = {"model": "Qwen/Qwen3-32B", "gpus": ["h100"]}
    assert client.post(f"/plan?format=table&{wrong}", json=body).status_code == 422
