"""Errors of values are in plain words: the name, what the value must be, and what it is."""

import json
from typing import Any

import pytest
from starlette.testclient import TestClient
from typer.testing import CliRunner

from service.application.errors import InvalidRequest
from service.application.probes.measurements_ndjson import read_lines
from service.application.schemas.base import Input
from service.cli.bad_input import option_name
from service.cli.main import cli
from tests.api.plan_bodies import GEMMA, with_serve
from tests.api.test_problems import BAD_QUESTIONS

PYDANTIC = (
    "Input should",
    "valid dictionary",
    "Value error",
    "Field required",
    "instance of",
    "Extra inputs",
)


@pytest.mark.parametrize(
    ("question", "detail"),
    [
        (
            with_serve(GEMMA, gpu_memory_utilization=95),
            "/serve/gpu_memory_utilization must be between 0 and 1 (got 95)",
        ),
        (
            with_serve(GEMMA, gpu_memory_utilization=0),
            "/serve/gpu_memory_utilization must be above 0 and at most 1 (got 0)",
        ),
        (
            with_serve(GEMMA, tensor_parallel_size="2"),
            "/serve/tensor_parallel_size must be a whole number (got '2')",
        ),
        (
            with_serve(GEMMA, tensor_parallel_size=0),
            "/serve/tensor_parallel_size must be between 1 and 4096 (got 0)",
        ),
        (with_serve(GEMMA, enforce_eager=1), "/serve/enforce_eager must be true or false (got 1)"),
        (with_serve(GEMMA, max_model_len=0), "/serve/max_model_len must be -1 or at least 1"),
        ({**GEMMA, "gpus": []}, "/gpus must have at least 1 item"),
        (
            {**GEMMA, "gpus": [7]},
            (
                "/gpus/0 must be the id of a GPU type, a GPU such as name=my-card,memory=40GiB,cc=8.0, "
                "or an object that describes one (got 7)"
            ),
        ),
        (
            {**GEMMA, "objective": "speed"},
            "/objective must be 'accuracy', 'tokens', 'balanced' or 'cost' (got 'speed')",
        ),
        ({**GEMMA, "modell": "x"}, "/modell is not known; the nearest name is model"),
        ({**GEMMA, "model": 3}, "/model must be text (got 3)"),
        ({**GEMMA, "model": None, "workload": {}}, "/workload/prompt_tokens is missing"),
        ([], "the body must be an object (got a list)"),
        ({"gpus": ["rtx-3090-24gb"]}, "/model is missing: give a model id, or a config"),
    ],
)
def test_a_value_at_fault_is_described(question: Any, detail: str, client: TestClient) -> None:  # noqa: ANN401
    problem = client.post("/v1/plan", json=question).json()
    assert problem["detail"] == detail
    assert problem["title"] == "The request is not valid"


@pytest.mark.parametrize("question", [case[0] for case in BAD_QUESTIONS])
def test_no_words_of_the_library_are_repeated(question: Any, client: TestClient) -> None:  # noqa: ANN401
    if question is None or "\\ud800" in json.dumps(question):
        return
    for path in ("/v1/plan", "/v1/explain"):
        text = client.post(path, json=question).text
        assert not any(words in text for words in PYDANTIC)


@pytest.mark.parametrize("question", [case[0] for case in BAD_QUESTIONS])
def test_near_names_are_few(question: Any, client: TestClient) -> None:  # noqa: ANN401
    if question is None or "\\ud800" in json.dumps(question):
        return
    problem = client.post("/v1/plan", json=question).json()
    assert len(problem.get("nearest", ())) <= 5


def test_a_query_is_described_as_a_body_is(client: TestClient) -> None:
    query = {"model": GEMMA["model"], "gpu_memory_utilization": "95", "max_num_seqs": "many"}
    problem = client.get("/v1/plan", params=query).json()
    assert {each["pointer"]: each["detail"] for each in problem["errors"]} == {
        "/serve/gpu_memory_utilization": "must be between 0 and 1 (got 95)",
        "/serve/max_num_seqs": "must be a whole number (got 'many')",
    }


def test_a_long_value_is_cut(client: TestClient) -> None:
    problem = client.post("/v1/plan", json={**GEMMA, "objective": "x" * 5000}).json()
    assert len(problem["detail"]) < 200


@pytest.mark.parametrize(
    ("pointer", "option"),
    [
        ("/serve/gpu_memory_utilization", "--gpu-memory-utilization"),
        ("/engine/version", "--engine-version"),
        ("/gpus/0", "--gpu"),
        ("/workload/prompt_tokens", "--prompt-tokens"),
        ("/model", "MODEL"),
        ("/max_model_len", "--max-model-len"),
        ("/serve/speculative_config/method", "--speculative-config.method"),
    ],
)
def test_a_pointer_has_an_option_name_the_command_line(pointer: str, option: str) -> None:
    assert option_name(pointer) == option


def test_every_input_has_a_schema_of_its_own_name() -> None:
    names = [schema.__name__ for schema in Input.__subclasses__()]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("line", "pointer", "detail"),
    [
        (b"{", "/1", "is not JSON: "),
        (b"[]", "/1", "must be an object"),
        (b"{}", "/1/", "is missing"),
    ],
)
def test_a_line_that_is_no_measurement_is_described(line: bytes, pointer: str, detail: str) -> None:
    with pytest.raises(InvalidRequest) as found:
        read_lines(line)
    (fault,) = found.value.errors
    assert fault.pointer.startswith(pointer)
    assert fault.detail.startswith(detail)
    assert not any(each in fault.detail for each in PYDANTIC)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (["serve", "--port", "abc"], "'--port': must be a whole number (got 'abc')"),
        (["token", "create", "--days", "x"], "'--days': must be a number (got 'x')"),
        (["plan", "--format", "yaml"], "'--format': 'yaml' is not one of 'json', 'table'"),
    ],
)
def test_a_bad_option_is_refused_in_the_same_words(line: list[str], words: str) -> None:
    found = CliRunner().invoke(cli, line)
    assert found.exit_code == 2
    assert words in found.stderr
    assert not any(each in found.stderr for each in PYDANTIC)
