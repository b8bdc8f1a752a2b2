"""The same question asked again gets the bytes that would be made again, and only those."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from service.advisor.candidates.plan_types import Plan
from service.advisor.request.plan_request import PlanRequest
from service.api.app import create_app
from service.api.dependencies import HUB_TOKEN
from service.api.written_answers import ENTRY_BYTES, QuestionAsked, WrittenAnswer, WrittenAnswers
from service.application.recent_models import BELIEVED_SECONDS, ModelKey, RecentModels
from service.application.services import Services
from service.engines.releases import RELEASES, rules_for
from service.memory.calibration import NOTHING_LEARNED
from tests.api.plan_bodies import LLAMA_CONFIG

QUESTION: dict[str, Any] = {
    "model": "Qwen/Qwen3-8B",
    "gpus": ["h100-sxm-80gb"],
    "serve": {"tensor_parallel_size": 1, "kv_cache_dtype": "auto"},
}


class Asked:
    """The application with a clock of its own, counting the plans that are made."""

    def __init__(self, services: Services) -> None:
        self.planned = 0
        self.now = 0.0
        recent = RecentModels(lambda: self.now)

        def plan(request: PlanRequest) -> Plan:
            self.planned += 1
            return services.plan(request)

        self.app: FastAPI = create_app(replace(services, plan=plan, recent_models=recent))
        self.client = TestClient(self.app, base_url="http://dryserve.test")


@pytest.fixture
def asked(services: Services) -> Iterator[Asked]:
    asked = Asked(services)
    with asked.client:
        yield asked


def test_it_is_planned_once(asked: Asked) -> None:
    first, second = (asked.client.post("/plan", json=QUESTION) for _ in range(2))
    assert first.status_code == 200
    assert first.content == second.content
    assert dict(first.headers) | {"x-request-id": ""} == dict(second.headers) | {"x-request-id": ""}
    assert asked.planned == 1
    metrics = asked.client.get("/metrics").text
    assert 'dryserve_candidates_total{verdict="starts"} 2.0' in metrics


def test_a_query_too_and_its_tag_is_compared(asked: Asked) -> None:
    query = {"model": QUESTION["model"], "gpu": QUESTION["gpus"], **QUESTION["serve"]}
    first = asked.client.get("/plan", params=query)
    again = asked.client.get("/plan", params=query, headers={"If-None-Match": first.headers["etag"]})
    assert (first.status_code, again.status_code, again.content) == (200, 304, b"")
    assert asked.planned == 1


@pytest.mark.parametrize(
    "headers", [{"Accept": "text/plain"}, {HUB_TOKEN: "hf_" + "a" * 34}], ids=["text", "token"]
)
def test_another_form_or_a_callers_own_token_is_another_question(
    asked: Asked, headers: dict[str, str]
) -> None:
    asked.client.post("/plan", json=QUESTION)
    for _ in range(2):
        asked.client.post("/plan", json=QUESTION, headers=headers)
    assert asked.planned == 2 if HUB_TOKEN not in headers else asked.planned == 3


def test_a_model_that_must_be_looked_at_again_or_a_new_calibration_is_planned_anew(
    asked: Asked, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = asked.client.post("/plan", json=QUESTION)
    asked.now = BELIEVED_SECONDS
    assert asked.client.post("/plan", json=QUESTION).content == first.content
    assert asked.planned == 2
    monkeypatch.setattr(services.probes.learned, "current", replace(NOTHING_LEARNED))
    assert asked.client.post("/plan", json=QUESTION).content == first.content
    assert asked.planned == 3


def test_errors_and_configs_in_the_question_are_not_stored(asked: Asked) -> None:
    unknown = {**QUESTION, "serve": {"tensor_parallel_size": "two"}}
    assert [asked.client.post("/plan", json=unknown).status_code for _ in range(2)] == [422, 422]
    inline = {**QUESTION, "model": "./own", "config": LLAMA_CONFIG}
    assert [asked.client.post("/plan", json=inline).status_code for _ in range(2)] == [200, 200]
    assert asked.planned == 2


async def test_the_bytes_of_all_answers_are_bounded(services: Services) -> None:
    fetched_key = ModelKey.of("acme/a", None, rules_for(RELEASES[-1]).checkpoints)
    asked = Asked(services)
    asked.client.post("/plan", json=QUESTION)
    (stored,) = asked.app.state.answers._answers.values()  # noqa: SLF001 - an answer as it is stored
    answer = WrittenAnswer(stored.key, stored.model, stored.calibration, b"x" * 1000, "text/plain", {})
    assert fetched_key != stored.key
    answers = WrittenAnswers(3 * (1000 + ENTRY_BYTES + 1))
    questions = [QuestionAsked("POST", b"", bytes([65 + number]), "") for number in range(4)]
    for question in questions:
        answers.store(question, answer)
    held = asked.app.state.services
    assert [answers.find(question, held) is not None for question in questions] == [False, True, True, True]
    answers.store(questions[0], replace(answer, content=b"x" * 9000))
    assert answers.find(questions[0], held) is None
