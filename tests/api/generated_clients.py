"""Full answers of every route that needs no worker, for clients that are generated from the contract."""

from collections.abc import Iterator
from typing import Any, Final

from starlette.testclient import TestClient

from service.api.examples import EXAMPLES
from tests.api.plan_bodies import GEMMA

PARTS: Final = ["details", "levers"]
WORKLOAD: Final = {"prompt_tokens": 8000, "output_tokens": 1000, "concurrent_requests": 4}
REFUSED: Final = {"model": "deepseek-ai/DeepSeek-V3", "gpus": ["rtx-4090-24gb"], "include": PARTS}


def answers(client: TestClient) -> Iterator[tuple[str, Any]]:
    """Yield the name of a schema with an answer that the service gave for it."""
    for question in (
        GEMMA,
        {**GEMMA, "include": PARTS, "workload": WORKLOAD},
        {**GEMMA, "engine": {"versions": ["0.20.2", "0.32.0"]}},
        {"model": GEMMA["model"], "workload": WORKLOAD},
        REFUSED,
    ):
        yield "PlanAnswer", _json(client.post("/v1/plan", json=question))
    yield "ExplanationAnswer", _json(client.post("/v1/explain", json=EXAMPLES["explain_log"].body))
    yield "ExplainedModel", _json(client.get("/v1/models/google/gemma-4-31B-it"))
    yield "ModelList", _json(client.get("/v1/models"))
    yield "GpuList", _json(client.get("/v1/gpus"))
    yield "GpuAnswer", _json(client.get("/v1/gpus/h100-sxm-80gb"))
    yield "EngineList", _json(client.get("/v1/engines"))
    yield "ProblemTypeList", _json(client.get("/v1/problems"))
    yield "Health", _json(client.get("/readyz"))
    yield "Problem", client.post("/v1/plan", json={**GEMMA, "gpus": ["rtx-9999"]}).json()


def _json(reply: Any) -> Any:  # noqa: ANN401 - the test client's response has no public type
    assert reply.status_code == 200, reply.text
    return reply.json()
