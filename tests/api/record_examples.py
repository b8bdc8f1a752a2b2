"""Asks the examples of the contract and writes down the answers: python -m tests.api.record_examples."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import httpx2
from starlette.testclient import TestClient

from service.api.app import create_app
from service.api.examples import EXAMPLES
from service.bootstrap import build_services
from service.settings import Settings

RECORDED: Final = Path(__file__).parents[2] / "service" / "api" / "recorded_answers.json"
REQUESTS: Final[Mapping[str, tuple[str, str]]] = {
    "create_plan": ("POST", "/v1/plan"),
    "get_plan": ("GET", "/v1/plan"),
    "explain_log": ("POST", "/v1/explain"),
    "list_models": ("GET", "/v1/models"),
    "get_model": ("GET", "/v1/models/{org}/{name}"),
    "list_gpus": ("GET", "/v1/gpus"),
    "get_gpu": ("GET", "/v1/gpus/{gpu_id}"),
    "list_problems": ("GET", "/v1/problems"),
    "get_problem": ("GET", "/v1/problems/{slug}"),
}
"""Operations whose answer to their example is recorded; those about probes need a worker."""


def ask(client: TestClient, operation: str) -> Any:  # noqa: ANN401 - any JSON value
    """Return the answer to the example of an operation."""
    (method, path), example = REQUESTS[operation], EXAMPLES[operation]
    query = {name: value for name, value in example.parameters.items() if f"{{{name}}}" not in path}
    body = None if example.body is None else dict(example.body)
    reply = client.request(method, path.format(**example.parameters), params=query, json=body)
    assert reply.status_code == 200, reply.text
    return reply.json()


def main() -> None:
    """Record every answer."""
    services = build_services(Settings(HF_HUB_OFFLINE=True), httpx2.AsyncClient())
    with TestClient(create_app(services)) as client:
        recorded = {operation: ask(client, operation) for operation in REQUESTS}
    RECORDED.write_text(json.dumps(recorded, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
