"""Probes over HTTP: who may do what, and a job's way from a question to a measurement."""

import asyncio
import json
import re
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI

from service.api.app import create_app
from service.api.app_options import AppOptions
from service.api.examples import (
    EXAMPLES,
    H100,
    NODE,
    PROBE_ID,
)
from service.bootstrap import build_services
from service.probes.limits import QueueLimits
from service.serialization import SPEC
from service.settings import Settings
from service.store.database import Database
from service.store.token import Scope
from service.store.tokens import TokenStore
from tests.api.conftest import Client

PROBE: dict[str, Any] = json.loads(json.dumps(EXAMPLES["create_probe"].body))
LEASE: dict[str, Any] = json.loads(json.dumps(EXAMPLES["create_lease"].body))
GIB = 1 << 30
RANK = {
    "weights": {"bytes": 16 * GIB, "how": "measured"},
    "available_kv": {"bytes": 50 * GIB, "how": "measured"},
}
MEASUREMENT = {
    "measured_at": time.time(),
    "device": {"name": H100, "compute_capability": "9.0", "total_bytes": 85_028_896_768},
    "utilization": 0.9,
    "ranks": [RANK],
    "stack": {"driver": "580.65.06", "cuda": "13.0", "torch": "2.13.0"},
}
MEASURED = {"outcome": "measured", "measurement": MEASUREMENT}


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """Stand in for both kinds of databases: that they behave alike is the stores' own test."""
    return f"sqlite:///{tmp_path}/probes.db"


async def queued(operator: Client, body: dict[str, Any] = PROBE, key: str | None = None) -> dict[str, Any]:
    headers = {} if key is None else {"Idempotency-Key": key}
    reply = await operator.post("/probes", json=body, headers=headers)
    assert reply.status_code == 202, reply.text
    answer: dict[str, Any] = reply.json()
    assert reply.headers["location"] == f"/probes/{answer['id']}"
    return answer


async def test_the_way_of_a_probe(bearer: Callable[..., Any]) -> None:
    operator, worker = await bearer(Scope.OPERATOR), await bearer(Scope.WORKER)
    probe = await queued(operator)
    assert (probe["state"], probe["gpu_name"], probe["engine_release"]) == ("queued", H100, "0.32.0")
    assert probe["predicted"]["memory"]["weights"]["bytes"] > 15 * GIB

    lease = (await worker.post("/leases", json=LEASE)).json()
    assert (lease["probe_id"], lease["fence"]) == (probe["id"], 1)
    work = lease["spec"]["work"]
    assert work["model"]["config"]["architectures"] == ["Qwen3ForCausalLM"]
    assert work["flags"] == {"tensor_parallel_size": 1, "max_model_len": 8192, "kv_cache_dtype": "auto"}
    # 8,192 tokens in blocks of 16, the null block and one to spare.
    assert work["blocks"] == 8192 // 16 + 2

    path = f"/probes/{probe['id']}"
    beat = await worker.post(f"{path}/heartbeat", json=EXAMPLES["heartbeat"].body)
    assert beat.json() == {"ttl_seconds": 60, "cancel": False}
    assert (await operator.get(path)).json()["phase"] == "the engine starts"

    body = {"node": NODE, "fence": 1, "result": MEASURED}
    kept = await worker.put(f"{path}/result", json=body)
    assert kept.json()["state"] == "succeeded"
    assert (await worker.put(f"{path}/result", json=body)).json() == kept.json()
    other = await worker.put(f"{path}/result", json=EXAMPLES["put_result"].body)
    assert (other.status_code, other.json()["type"]) == (409, "/problems/result-conflict")

    result = (await operator.get(path)).json()["result"]
    # What was started is told by the service, whatever a worker sends.
    assert result["measurement"]["release"] == "0.32.0"
    assert result["measurement"]["node"] == NODE
    assert result["measurement"]["model"]["id"] == "Qwen/Qwen3-8B"


async def test_the_same_key_asks_once(bearer: Callable[..., Any]) -> None:
    operator = await bearer(Scope.OPERATOR)
    first = await queued(operator, key="k1")
    assert await queued(operator, key="k1") == first
    other = {**PROBE, "limits": {"wall_seconds": 5}}
    reply = await operator.post("/probes", json=other, headers={"Idempotency-Key": "k1"})
    assert (reply.status_code, reply.json()["type"]) == (422, "/problems/idempotency-key-reused")
    assert len((await operator.get("/probes")).json()["probes"]) == 1


ALLOWED = {
    ("POST", "/probes"): {Scope.OPERATOR},
    ("DELETE", "/probes/{id}"): {Scope.OPERATOR},
    ("GET", "/probes"): {Scope.OPERATOR, Scope.READER},
    ("GET", "/probes/{id}"): {Scope.OPERATOR, Scope.READER},
    ("GET", "/probes/{id}/events"): {Scope.OPERATOR, Scope.READER},
    ("GET", "/workers"): {Scope.OPERATOR, Scope.READER},
    ("GET", "/calibrations"): {Scope.OPERATOR, Scope.READER},
    ("GET", "/measurements"): {Scope.OPERATOR, Scope.READER},
    ("POST", "/measurements"): {Scope.OPERATOR},
    ("POST", "/leases"): {Scope.WORKER},
    ("POST", "/probes/{id}/heartbeat"): {Scope.WORKER},
    ("PUT", "/probes/{id}/result"): {Scope.WORKER},
}
BODIES = {
    "/probes": PROBE,
    "/leases": LEASE,
    "/probes/{id}/heartbeat": EXAMPLES["heartbeat"].body,
    "/probes/{id}/result": EXAMPLES["put_result"].body,
}


@pytest.mark.parametrize("scope", [None, *Scope])
@pytest.mark.parametrize(("method", "path"), ALLOWED)
async def test_only_the_right_tokens_open(
    method: str, path: str, scope: Scope | None, bearer: Callable[..., Any]
) -> None:
    probe = await queued(await bearer(Scope.OPERATOR))
    await (await bearer(Scope.OPERATOR)).delete(f"/probes/{probe['id']}")
    body = BODIES.get(path) if method in {"POST", "PUT"} else None
    reply = await (await bearer(scope)).request(method, path.format(**probe), json=body)
    if scope is None:
        assert (reply.status_code, reply.headers["www-authenticate"]) == (401, "Bearer")
    elif scope in ALLOWED[method, path]:
        # The lease of a cancelled probe is lost, which only a worker gets to hear.
        assert reply.status_code in ({409} if "{id}/" in path and scope is Scope.WORKER else {200, 202, 204})
    else:
        assert (reply.status_code, reply.json()["type"]) == (403, "/problems/forbidden")


def test_every_operation_of_probes_is_in_the_table(served: tuple[FastAPI, TokenStore]) -> None:
    paths = served[0].openapi()["paths"]
    specified = {
        (method.upper(), path.removeprefix("/v1").replace("probe_id", "id"))
        for path, methods in paths.items()
        for method, operation in methods.items()
        if not {"probes", "workers", "calibrations"}.isdisjoint(operation["tags"])
    }
    assert specified == set(ALLOWED)


@pytest.mark.parametrize(
    ("peer", "host", "header", "status"),
    [
        ("127.0.0.1", "localhost:8000", {}, 200),
        ("127.0.0.1", "127.0.0.1", {}, 200),
        ("::1", "[::1]:8000", {}, 200),
        ("127.0.0.1", "evil.example", {}, 401),
        ("127.0.0.1", "localhost", {"X-Forwarded-For": "10.0.0.1"}, 401),
        ("10.0.0.1", "localhost", {}, 401),
        ("127.0.0.1", "localhost", {"Authorization": "Bearer dry_0_0"}, 401),
    ],
)
async def test_reading_on_loopback_needs_no_token(
    peer: str, host: str, header: dict[str, str], status: int, bearer: Callable[..., Any]
) -> None:
    client = await bearer(None, peer=peer, host=host)
    assert (await client.get("/probes", headers=header)).status_code == status
    assert (await client.post("/probes", json=PROBE, headers=header)).status_code == 401


async def test_following_a_probe_to_its_end(bearer: Callable[..., Any]) -> None:
    operator, worker = await bearer(Scope.OPERATOR), await bearer(Scope.WORKER)
    probe = await queued(operator)

    async def work() -> None:
        await asyncio.sleep(0.2)
        lease = (await worker.post("/leases", json=LEASE)).json()
        path = f"/probes/{lease['probe_id']}"
        await worker.post(f"{path}/heartbeat", json={"node": NODE, "fence": 1, "phase": "loading"})
        await asyncio.sleep(0.2)
        await worker.put(f"{path}/result", json={"node": NODE, "fence": 1, "result": MEASURED})

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(work())
        followed = tasks.create_task(operator.get(f"/probes/{probe['id']}/events"))
    lines = followed.result().text.splitlines()
    states = [json.loads(line.removeprefix("data: "))["state"] for line in lines if line.startswith("data: ")]
    assert states[0] == "queued"
    assert states[-1] == "succeeded"
    assert "running" in states


async def test_a_worker_waits_for_a_job(bearer: Callable[..., Any]) -> None:
    operator, worker = await bearer(Scope.OPERATOR), await bearer(Scope.WORKER)
    assert (await worker.post("/leases", json={**LEASE, "wait_seconds": 0.1})).status_code == 204
    waiting = asyncio.create_task(worker.post("/leases", json={**LEASE, "wait_seconds": 20}))
    await asyncio.sleep(0.1)
    probe = await queued(operator)
    assert (await asyncio.wait_for(waiting, 5)).json()["probe_id"] == probe["id"]


async def test_a_worker_that_hung_up_gets_no_job(
    bearer: Callable[..., Any], served: tuple[FastAPI, TokenStore]
) -> None:
    operator, worker = await bearer(Scope.OPERATOR), await bearer(Scope.WORKER)
    body = json.dumps({**LEASE, "wait_seconds": 20}).encode()
    heard: list[Any] = [
        {"type": "http.request", "body": body, "more_body": False},
        {"type": "http.disconnect"},
    ]
    sent: list[dict[str, Any]] = []
    headers = [(b"authorization", worker.headers["authorization"].encode())]
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/leases",
        "raw_path": b"/leases",
        "query_string": b"",
        "headers": [*headers, (b"content-type", b"application/json")],
        "client": ("10.0.0.9", 1),
        "server": ("dryserve.test", 80),
        "scheme": "http",
        "root_path": "",
    }

    async def receive() -> Any:  # noqa: ANN401 - the server's own
        return heard.pop(0) if len(heard) > 1 else heard[0]

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    polling = asyncio.create_task(served[0](scope, receive, send))  # type: ignore[arg-type]
    await asyncio.sleep(0.2)
    probe = await queued(operator)
    await asyncio.wait_for(polling, 5)
    assert sent[0]["status"] == 204
    assert (await operator.get(f"/probes/{probe['id']}")).json()["state"] == "queued"


async def test_cancelling_is_told_to_the_worker(bearer: Callable[..., Any]) -> None:
    operator, worker = await bearer(Scope.OPERATOR), await bearer(Scope.WORKER)
    path = f"/probes/{(await queued(operator))['id']}"
    await worker.post("/leases", json=LEASE)
    assert (await operator.delete(path)).json()["cancel_requested"]
    beat = await worker.post(f"{path}/heartbeat", json={"node": NODE, "fence": 1})
    assert beat.json()["cancel"]
    body = {"node": NODE, "fence": 1, "result": {"outcome": "cancelled"}}
    assert (await worker.put(f"{path}/result", json=body)).json()["state"] == "cancelled"


@pytest.mark.parametrize(
    ("body", "fence", "status"),
    [
        ({"outcome": "measured"}, 1, 422),
        ({"outcome": "failed", "measurement": MEASUREMENT}, 1, 422),
        ({"outcome": "won"}, 1, 422),
        ({**MEASURED, "measurement": {**MEASUREMENT, "release": "9"}}, 1, 422),
        ({**MEASURED, "measurement": {**MEASUREMENT, "ranks": []}}, 1, 422),
        (MEASURED, 2, 409),
    ],
)
async def test_what_is_no_result_of_this_lease_is_refused(
    body: dict[str, Any], fence: int, status: int, bearer: Callable[..., Any]
) -> None:
    operator, worker = await bearer(Scope.OPERATOR), await bearer(Scope.WORKER)
    path = f"/probes/{(await queued(operator))['id']}"
    await worker.post("/leases", json=LEASE)
    reply = await worker.put(f"{path}/result", json={"node": NODE, "fence": fence, "result": body})
    assert reply.status_code == status, reply.text
    other = {"node": "node-2", "fence": 1, "result": MEASURED}
    assert (await worker.put(f"{path}/result", json=other)).status_code == 409
    assert (await operator.get(path)).json()["state"] == "leased"


async def test_a_full_queue_is_told_with_the_time_to_ask_again(
    bearer: Callable[..., Any], served: tuple[FastAPI, TokenStore]
) -> None:
    served[0].state.services.probes.jobs._limits = QueueLimits(waiting=1)  # noqa: SLF001 - in place of a thousand
    operator = await bearer(Scope.OPERATOR)
    probe = await queued(operator, key="k")
    reply = await operator.post("/probes", json=PROBE)
    assert (reply.status_code, reply.json()["type"]) == (503, "/problems/queue-full")
    assert int(reply.headers["retry-after"]) == reply.json()["retry_after"] > 0
    assert await queued(operator, key="k") == probe
    await operator.delete(f"/probes/{probe['id']}")
    await queued(operator)


PLAN = PROBE["plan"]


@pytest.mark.parametrize(
    ("body", "slug", "pointer"),
    [
        ({"kind": "engine"}, "invalid-request", "/plan/gpus"),
        ({"kind": "shell"}, "invalid-request", "/kind"),
        ({**PROBE, "argv": ["sh"]}, "invalid-request", "/argv"),
        ({**PROBE, "plan": {**PLAN, "gpus": ["t4-16gb", "l4-24gb"]}}, "invalid-request", "/plan/gpus"),
        ({**PROBE, "plan": {**PLAN, "gpus": ["t5"]}}, "unknown-gpu", "/plan/gpus/0"),
        (
            {**PROBE, "plan": {**PLAN, "engine": {"version": "0.34.0"}}},
            "unknown-release",
            "/plan/engine/version",
        ),
        ({**PROBE, "plan": {**PLAN, "serve": {"x": True}}}, "invalid-request", "/plan/serve/x"),
        ({**PROBE, "plan": {**PLAN, "command": "vllm serve a/b"}}, "not-probeable", "/plan/command"),
        (
            {**PROBE, "plan": {**PLAN, "serve": {"kv_cache_memory_bytes": 1 << 30}}},
            "not-probeable",
            "/plan/serve/kv_cache_memory_bytes",
        ),
        ({**PROBE, "plan": {**PLAN, "serve": {"block_size": 7}}}, "not-probeable", "/plan"),
    ],
)
async def test_what_cannot_be_probed(
    body: dict[str, Any], slug: str, pointer: str, bearer: Callable[..., Any]
) -> None:
    reply = await (await bearer(Scope.OPERATOR)).post("/probes", json=body)
    problem = reply.json()
    assert (reply.status_code, problem["type"]) == (422, f"/problems/{slug}"), problem
    assert pointer in [error["pointer"] for error in problem["errors"]]


async def test_an_allocation_probe_has_the_planned_bytes(bearer: Callable[..., Any]) -> None:
    operator, worker = await bearer(Scope.OPERATOR), await bearer(Scope.WORKER)
    probe = await queued(operator, {**PROBE, "kind": "alloc"})
    lease = (await worker.post("/leases", json={**LEASE, "kinds": ["alloc"]})).json()
    work, predicted = lease["spec"]["work"], probe["predicted"]
    assert sum(work["weights"]) == predicted["memory"]["weights"]["bytes"]
    # Qwen3-8B has 36 layers of one cache tensor each.
    assert len(work["kv_tensors"]) == 36
    cache = predicted["kv_cache"]
    assert sum(work["kv_tensors"]) == cache["num_blocks"] * cache["bytes_per_block"]


async def test_plans_do_without_a_database(tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("none") / "file"
    file.write_text("no folder")
    database = Database(f"sqlite:///{file}/x.db")
    nobody = httpx2.AsyncClient(transport=httpx2.MockTransport(lambda _: httpx2.Response(500)))
    app = create_app(
        build_services(Settings(HF_HUB_OFFLINE=True), nobody, database), AppOptions(open_reads=True)
    )
    transport = httpx2.ASGITransport(app=app, client=("127.0.0.1", 1))
    async with Client(transport=transport, base_url="http://localhost") as client:
        assert (await client.post("/plan", json=PROBE["plan"])).status_code == 200
        assert (await client.get("/probes")).json() == {"probes": [], "next": None}
        reply = await client.get(f"/probes/{PROBE_ID}")
        assert (reply.status_code, reply.json()["type"]) == (503, "/problems/store-unavailable")


DETAILS = {"include": ["details"]}


async def test_a_measurement_moves_later_plans(bearer: Callable[..., Any]) -> None:
    operator, worker = await bearer(Scope.OPERATOR), await bearer(Scope.WORKER)
    plan = {**PLAN, "serve": {**PLAN["serve"], "kv_cache_dtype": "auto"}}
    before = (await operator.post("/plan", json={**plan, **DETAILS})).json()["plans"][0]["candidates"][0][
        "memory"
    ]
    assert "evidence" not in before["non_torch"]

    await queued(operator)
    lease = (await worker.post("/leases", json=LEASE)).json()
    computed = before["non_torch"]["bytes"]
    names = ("weights", "activation", "cuda_graphs")
    rank = {name.replace("cuda_graphs", "graphs_estimated"): before[name]["bytes"] for name in names}
    rank |= {"non_torch": computed + GIB, "available_kv": before["available_kv"]["bytes"] - GIB}
    specified = {name: {"bytes": size, "how": "measured"} for name, size in rank.items()}
    result = {
        "outcome": "measured",
        "measurement": {
            **MEASUREMENT,
            "measured_at": time.time(),
            "ranks": [specified],
            "utilization": 0.92,  # the release's own
        },
    }
    body = {"node": NODE, "fence": lease["fence"], "result": result}
    assert (await worker.put(f"/probes/{lease['probe_id']}/result", json=body)).status_code == 200

    after = (await operator.post("/plan", json={**plan, **DETAILS})).json()["plans"][0]["candidates"][0][
        "memory"
    ]
    assert after["non_torch"]["bytes"] == computed + GIB
    assert after["non_torch"]["basis"] == "measured"
    assert after["available_kv"]["bytes"] == before["available_kv"]["bytes"] - GIB
    evidence = after["available_kv"]["evidence"]
    assert (evidence["level"], evidence["count"], evidence["age_days"]) == ("exact", 1, 0)

    other = {**PLAN, "model": "Qwen/Qwen3-32B", "serve": {"tensor_parallel_size": 1, "max_model_len": 4096}}
    memory = (await operator.post("/plan", json={**other, **DETAILS})).json()["plans"][0]["candidates"][0][
        "memory"
    ]
    assert memory["non_torch"]["evidence"]["level"] == "gpu_and_release"
    assert "evidence" not in memory["weights"]

    listed = (await operator.get("/calibrations")).json()["calibrations"]
    terms = {each["level"]: each for each in listed if each["term"] == "non_torch"}
    assert set(terms) == {"exact", "gpu_and_release"}
    assert terms["gpu_and_release"]["residual_bytes"] == GIB
    assert terms["exact"]["model"] == "Qwen3ForCausalLM"


async def test_measurements_are_carried_from_one_service_to_another(
    bearer: Callable[..., Any], tmp_path: Path
) -> None:
    operator, worker = await bearer(Scope.OPERATOR), await bearer(Scope.WORKER)
    await queued(operator)
    lease = (await worker.post("/leases", json=LEASE)).json()
    body = {"node": NODE, "fence": 1, "result": MEASURED}
    await worker.put(f"/probes/{lease['probe_id']}/result", json=body)
    exported = await operator.get("/measurements")
    assert exported.headers["content-type"] == "application/x-ndjson"

    database = Database(f"sqlite:///{tmp_path}/other.db")
    app = create_app(build_services(Settings(HF_HUB_OFFLINE=True), httpx2.AsyncClient(), database))
    token = await TokenStore(database).create("op", Scope.OPERATOR)
    headers = {"Authorization": f"Bearer {token}"}
    async with Client(transport=httpx2.ASGITransport(app=app), base_url="http://o", headers=headers) as other:
        for new in (1, 0):
            reply = await other.post("/measurements", content=exported.content)
            assert reply.json() == {"measurements": 1, "new": new}
        assert (await other.get("/measurements")).content == exported.content
        assert (await other.get("/calibrations")).json()["calibrations"]
        late = re.sub(rb'"measured_at":[0-9.]+', b'"measured_at":99999999999.0', exported.content)
        bad = await other.post("/measurements", content=late + b"\n{}\nnonsense")
        assert bad.status_code == 422
        assert [error["pointer"] for error in bad.json()["errors"]] == ["/1", "/3/measured_at", "/4"]
    await database.close()


async def test_a_bad_parameter_is_told_by_its_own_name(bearer: Callable[..., Any]) -> None:
    reply = await (await bearer(Scope.READER)).get("/probes", params={"state": "asleep"})
    assert (reply.status_code, reply.json()["errors"][0]["pointer"]) == (422, "/state")


@pytest.mark.parametrize(
    ("member", "value", "words"),
    [
        ("flags", {"max_model_len": "long"}, "flags.max_model_len"),
        ("flags", {"worker_cls": "os.system"}, "flags.worker_cls"),
        ("utilization", 7.0, "utilization"),
        ("ranks", [{"weights": {"bytes": 1 << 60, "how": "measured"}}], "ranks.0.weights.bytes"),
        ("release", 19, "release"),
        ("origin", "hearsay", "origin"),
        ("schema_version", 2, "schema_version"),
        ("model", {"id": "a/b"}, "model.config"),
    ],
)
async def test_what_is_imported_is_read_by_a_closed_schema(
    member: str, value: object, words: str, bearer: Callable[..., Any]
) -> None:
    operator = await bearer(Scope.OPERATOR)
    line = {**MEASUREMENT, **STARTED, member: value}
    reply = await operator.post("/measurements", content=json.dumps(line))
    assert reply.status_code == 422
    (fault,) = reply.json()["errors"]
    assert fault["pointer"] == f"/1/{words.replace('.', '/')}"
    assert fault["detail"]


STARTED: dict[str, Any] = {
    "schema_version": 1,
    "node": "node-1",
    "release": "0.32.0",
    "flags": {"max_model_len": 8192},
    "model": {"id": "a/b", "config": {"architectures": ["X"]}},
    "origin": "probe",
}


async def test_a_start_that_no_plan_knows_is_kept_and_keeps_nobody_from_learning(
    bearer: Callable[..., Any],
) -> None:
    operator = await bearer(Scope.OPERATOR)
    starts: list[dict[str, Any]] = [
        {},
        {"release": "9.9.9"},
        {"flags": {"attention_backend": "NOBODYS"}},
        {"flags": {"speculative_config": {"method": "ngram", "num_speculative_tokens": 3}}},
        {"model": {"id": "a/b", "config": {"architectures": ["LlamaForCausalLM"], "hidden_size": "x"}}},
    ]
    lines = "\n".join(json.dumps({**MEASUREMENT, **STARTED, **start}) for start in starts)
    assert (await operator.post("/measurements", content=lines)).json() == {"measurements": 5, "new": 5}
    assert (await operator.get("/calibrations")).json() == {"calibrations": [], "next": None}


async def test_a_probe_carries_its_question_for_people(bearer: Callable[..., Any]) -> None:
    operator = await bearer(Scope.OPERATOR)
    probe = await queued(operator, {**PROBE, "target": {"label": "rack-3"}})
    assert probe["question"] == {
        "model": "Qwen/Qwen3-8B",
        "revision": None,
        "gpu": "h100-sxm-80gb",
        "engine_release": "0.32.0",
        "serve": PROBE["plan"]["serve"],
        "label": "rack-3",
        "requester": "pool",
    }
    assert datetime.fromisoformat(probe["created"]).timestamp() == pytest.approx(
        probe["created_at"], abs=1e-3
    )
    assert probe["created"].endswith("Z")


async def test_the_question_is_not_sent_to_workers(bearer: Callable[..., Any]) -> None:
    operator, worker = await bearer(Scope.OPERATOR), await bearer(Scope.WORKER)
    await queued(operator)
    assert "question" not in (await worker.post("/leases", json=LEASE)).json()["spec"]


async def test_a_waiting_probe_says_which_workers_could_take_it(bearer: Callable[..., Any]) -> None:
    operator, worker = await bearer(Scope.OPERATOR), await bearer(Scope.WORKER)
    probe = await queued(operator)
    assert probe["able_workers"] == 0
    assert re.fullmatch(
        rf"no worker with GPU {H100}, vLLM 0\.32\.0 was seen since \S+Z, when this service started",
        probe["waiting"],
    )
    other = {**LEASE, "node": "other", "gpu_names": ["NVIDIA L4"]}
    assert (await worker.post("/leases", json=other)).status_code == 204
    path = f"/probes/{probe['id']}"
    assert (await operator.get(path)).json()["able_workers"] == 0

    lease = (await worker.post("/leases", json=LEASE)).json()
    taken = (await operator.get(path)).json()
    assert (lease["probe_id"], taken["able_workers"], taken["waiting"]) == (probe["id"], None, None)
    second = await queued(operator)
    assert (second["able_workers"], second["waiting"]) == (1, "1 worker could take it")


async def test_workers_are_listed_with_what_they_lack(bearer: Callable[..., Any]) -> None:
    operator, worker = await bearer(Scope.OPERATOR), await bearer(Scope.WORKER)
    assert (await operator.get("/workers")).json()["workers"] == []
    await queued(operator)
    lease = (await worker.post("/leases", json=LEASE)).json()
    await worker.post("/leases", json={"node": "blind", "kinds": ["inventory"]})

    blind, able = (await operator.get("/workers")).json()["workers"]
    assert (blind["name"], blind["gpus"], blind["probe_id"]) == ("pool/blind", 0, None)
    assert "no GPU" in blind["warnings"][0]
    assert (able["name"], able["active"], able["probe_id"]) == (f"pool/{NODE}", True, lease["probe_id"])
    assert (able["gpu_names"], able["releases"], able["kinds"]) == ([H100], ["0.32.0"], ["engine"])


async def test_a_stream_ends_with_an_event_and_a_browser_that_returns_is_sent_away(
    bearer: Callable[..., Any],
) -> None:
    operator = await bearer(Scope.OPERATOR)
    path = f"/probes/{(await queued(operator))['id']}"
    await operator.delete(path)

    lines = (await operator.get(f"{path}/events")).text.splitlines()
    assert [line for line in lines if line.startswith("event:")] == ["event: probe", "event: end"]
    last = [line.removeprefix("id: ") for line in lines if line.startswith("id:")][-1]
    again = await operator.get(f"{path}/events", headers={"Last-Event-ID": last})
    assert (again.status_code, again.content) == (204, b"")


async def test_a_job_of_an_older_version_is_shown_without_what_it_does_not_hold(
    bearer: Callable[..., Any], served: tuple[FastAPI, TokenStore], database_url: str
) -> None:
    operator = await bearer(Scope.OPERATOR)
    probe = await queued(operator)
    jobs = served[0].state.services.probes.jobs
    spec = json.loads(SPEC.dump_json((await jobs.get(probe["id"])).spec))
    del spec["question"]
    spec["predicted"]["memory"] = {"weights": 5}
    with closing(sqlite3.connect(database_url.removeprefix("sqlite:///"))) as connection, connection:
        connection.execute("UPDATE jobs SET spec = ?", [json.dumps(spec)])

    shown = (await operator.get(f"/probes/{probe['id']}")).json()
    assert shown["question"]["model"] is None
    assert shown["predicted"] == {"memory": None, "kv_cache": None, "block_size": None, "steps": []}


async def test_head_of_a_stream_ends_at_once(bearer: Callable[..., Any]) -> None:
    operator = await bearer(Scope.OPERATOR)
    queued = await operator.post("/v1/probes", json={"kind": "inventory"})
    assert queued.headers["location"] == f"/v1/probes/{queued.json()['id']}"
    async with asyncio.timeout(5):
        reply = await operator.head(f"{queued.headers['location']}/events")
    assert (reply.status_code, reply.content) == (200, b"")
    assert reply.headers["content-type"].startswith("text/event-stream")


async def test_probes_are_listed_in_pages(bearer: Callable[..., Any]) -> None:
    operator = await bearer(Scope.OPERATOR)
    ids = [(await operator.post("/v1/probes", json={"kind": "inventory"})).json()["id"] for _ in range(5)]
    found: list[str] = []
    after: dict[str, str] = {}
    while True:
        page = (await operator.get("/v1/probes", params={"limit": 2, **after})).json()
        found += [probe["id"] for probe in page["probes"]]
        if page["next"] is None:
            break
        after = {"after": page["next"]}
    assert sorted(found) == sorted(ids)
