"""Speed probes over HTTP: what a worker is given to time, and what it hands in beside the plan."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from service.api.examples import NODE
from service.probes.job_spec import Engine, JobSpec, TimingPoint
from service.serialization import SPEC
from service.store.token import Scope
from tests.api.test_probes import GIB, LEASE, MEASURED, PROBE, queued

SPEED: dict[str, Any] = {**PROBE, "kind": "speed"}


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/probes.db"


async def test_the_way_of_a_speed_probe(bearer: Callable[..., Any]) -> None:
    operator, worker = await bearer(Scope.OPERATOR), await bearer(Scope.WORKER)
    probe = await queued(operator, SPEED)
    assert probe["kind"] == "speed"
    work = (await worker.post("/leases", json=LEASE)).json()["spec"]["work"]
    # A worker runs it as an engine probe, with points to time.
    assert work["kind"] == "engine"
    asked = [(each["batch"], each["context"], each["prefill"]) for each in work["points"]]
    planned = [(each["batch"], each["context"], each["prefill"]) for each in probe["predicted"]["steps"]]
    assert asked == planned
    # 8,192 tokens of context are too long for the maximum length of 8,192 with an answer.
    assert set(asked) == {
        *((batch, context, 0) for batch in (1, 8, 32, 128) for context in (256, 2048)),
        (0, 0, 512),
        (0, 0, 2048),
    }
    # 128 requests of 2,048 tokens and their answers hold so many blocks of 16.
    assert work["blocks"] >= 128 * (2048 + 256) // 16
    assert work["bytes"] > 16 * GIB

    for each in probe["predicted"]["steps"]:
        assert 0 < each["low"] <= each["milliseconds"] <= each["high"]
    steps = [{**point, "milliseconds": 10.0, "timed": 16} for point in work["points"]]
    body = {"node": NODE, "fence": 1, "result": {**MEASURED, "steps": steps}}
    path = f"/probes/{probe['id']}"
    handed = await worker.put(f"{path}/result", json=body)
    assert handed.json()["state"] == "succeeded", handed.text
    end = (await operator.get(path)).json()
    assert end["result"]["steps"] == steps
    assert end["result"]["measurement"]["ranks"]


async def test_an_engine_probe_times_nothing(bearer: Callable[..., Any]) -> None:
    operator, worker = await bearer(Scope.OPERATOR), await bearer(Scope.WORKER)
    probe = await queued(operator)
    assert (probe["kind"], probe["predicted"]["steps"]) == ("engine", [])
    assert (await worker.post("/leases", json=LEASE)).json()["spec"]["work"]["points"] == []


async def test_times_that_cannot_be(bearer: Callable[..., Any]) -> None:
    operator, worker = await bearer(Scope.OPERATOR), await bearer(Scope.WORKER)
    probe = await queued(operator, SPEED)
    await worker.post("/leases", json=LEASE)
    step = {"batch": 1, "context": 256, "prefill": 0, "milliseconds": 0.0, "timed": 16}
    body = {"node": NODE, "fence": 1, "result": {**MEASURED, "steps": [step]}}
    refused = await worker.put(f"/probes/{probe['id']}/result", json=body)
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["pointer"] == "/result/steps/0/milliseconds"


def test_jobs_of_older_services_have_no_points() -> None:
    old = {
        "work": {
            "kind": "engine",
            "model": {"id": "m", "config": {}},
            "flags": {},
            "release": "0.32.0",
            "tensor_parallel_size": 1,
            "pipeline_parallel_size": 1,
            "blocks": 4,
            "bytes": 1,
        }
    }
    spec: JobSpec = SPEC.validate_python(old)
    assert spec.asked_kind == "engine"
    assert isinstance(spec.work, Engine)
    timed = replace(spec, work=replace(spec.work, points=(TimingPoint(batch=1, context=256),)))
    assert timed.asked_kind == "speed"
    assert SPEC.validate_json(SPEC.dump_json(timed)) == timed
