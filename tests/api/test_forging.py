"""A worker whose token is right and whose measurements are made up: how far it gets, over HTTP."""

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from service.api.examples import H100
from service.store.token import Scope
from tests.api.conftest import Client
from tests.api.test_probes import (
    GIB,
    LEASE,
    MEASUREMENT,
    PLAN,
    PROBE,
)

Bearer = Callable[..., Any]
MIB = 1 << 20
TERMS = ("weights", "activation", "non_torch", "cuda_graphs")
QUESTION = {**PLAN, "serve": {**PLAN["serve"], "kv_cache_dtype": "auto"}}
OTHER = {**PLAN, "model": "Qwen/Qwen3-32B", "serve": {"tensor_parallel_size": 1, "max_model_len": 4096}}
HONEST = {"driver": "580.65.06", "cuda": "13.0", "torch": "2.13.0"}
MADE_UP = {"driver": "999.1", "cuda": "99.0", "torch": "99.0.0"}
FAR_FUTURE = 99_999_999_999.0
LONE_REACH = 3 * GIB // 2
"""README: how far one token alone moves a term whose own interval is narrower."""


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """Stand in for both kinds of databases, as for all probes."""
    return f"sqlite:///{tmp_path}/probes.db"


async def memory(client: Client, question: Mapping[str, Any]) -> dict[str, Any]:
    reply = await client.post("/plan", json={**question, "include": ["details"]})
    found: dict[str, Any] = reply.json()["plans"][0]["candidates"][0]["memory"]
    return found


class Lab:
    """An operator, and what is computed before anything is measured."""

    def __init__(self, operator: Client, computed: Mapping[str, Any]) -> None:
        self.operator = operator
        self.computed = computed

    async def measured(
        self,
        worker: Client,
        more: Mapping[str, int],
        *,
        node: str = "node-1",
        stack: Mapping[str, str] = HONEST,
        measured_at: float | None = None,
    ) -> None:
        """Have a worker hand in terms that differ by so many bytes from what is computed."""
        requested = await self.operator.post("/probes", json=PROBE)
        assert requested.status_code == 202, requested.text
        lease = (await worker.post("/leases", json={**LEASE, "node": node})).json()
        sizes = {name: self.computed[name]["bytes"] + more.get(name, 0) for name in TERMS}
        left = self.computed["available_kv"]["bytes"] - sum(more.values())
        rank = {**sizes, "graphs_estimated": sizes.pop("cuda_graphs"), "available_kv": left}
        rank.pop("cuda_graphs", None)
        measurement = {
            **MEASUREMENT,
            "measured_at": measured_at or time.time(),
            "ranks": [{name: {"bytes": size, "how": "measured"} for name, size in rank.items()}],
            "utilization": 0.92,  # the release's own
            "stack": stack,
        }
        result = {"outcome": "measured", "measurement": measurement}
        body = {"node": node, "fence": lease["fence"], "result": result}
        kept = await worker.put(f"/probes/{lease['probe_id']}/result", json=body)
        assert kept.status_code == 200, kept.text

    async def learned(self, term: str = "non_torch") -> dict[str, Any]:
        listed = (await self.operator.get("/calibrations")).json()["calibrations"]
        return {each["level"]: each for each in listed if each["term"] == term}


@pytest.fixture
async def lab(bearer: Bearer) -> Lab:
    operator = await bearer(Scope.OPERATOR)
    return Lab(operator, await memory(operator, QUESTION))


FORGERIES: dict[str, list[dict[str, Any]]] = {
    "far future": [{"more": {"non_torch": 9 * GIB}, "measured_at": FAR_FUTURE}],
    "long ago": [
        {"more": {"non_torch": 9 * GIB}, "measured_at": time.time() - 86_400 * days} for days in range(6)
    ],
    "made-up stack": [{"more": {"non_torch": 9 * GIB}, "stack": MADE_UP, "node": "other"}],
    "the honest node's name": [{"more": {"non_torch": 9 * GIB}, "stack": MADE_UP, "node": "node-1"}],
    "many nodes": [{"more": {"non_torch": 9 * GIB}, "node": f"made-up-{number}"} for number in range(6)],
    "many stacks": [
        {"more": {"non_torch": -GIB // 8}, "node": f"n{number}", "stack": {**MADE_UP, "torch": f"9.{number}"}}
        for number in range(6)
    ],
    "all terms": [{"more": dict.fromkeys(TERMS, 4 * GIB), "stack": MADE_UP, "measured_at": FAR_FUTURE}],
    "more than there is": [{"more": {"non_torch": 10_000 * GIB}}],
    "less than nothing": [{"more": {"non_torch": -10_000 * GIB}}],
    "no room": [{"more": {"non_torch": 46 * GIB}}],
}


@pytest.mark.parametrize("forgery", FORGERIES)
@pytest.mark.parametrize("reporters", [1, 3])
async def test_what_others_measured_stands(bearer: Bearer, lab: Lab, forgery: str, reporters: int) -> None:
    """At the very start honest ones differ by 50 MiB, on one type of GPU by 100 MiB: that is all it moves."""
    for number in range(reporters):
        honest = await bearer(Scope.WORKER)
        await lab.measured(honest, {"non_torch": GIB // 2 + 10 * number * MIB}, node=f"node-{number + 1}")
    before = {
        name: await memory(lab.operator, requested)
        for name, requested in (("own", QUESTION), ("other", OTHER))
    }
    forger = await bearer(Scope.WORKER)
    for forged in FORGERIES[forgery]:
        await lab.measured(forger, **forged)

    learned = await lab.learned()
    assert {each["count"] >= reporters for each in learned.values()} == {True}
    assert {each["age_days"] for each in learned.values()} == {0}
    for name, requested, honest_spread in (("own", QUESTION, 50 * MIB), ("other", OTHER, 100 * MIB)):
        after = await memory(lab.operator, requested)
        for term in TERMS:
            moved = abs(after[term]["bytes"] - before[name][term]["bytes"])
            # Of terms that only the forger moves, as honest starts agreed on what is computed.
            assert moved <= honest_spread, (name, term)
        assert after["non_torch"]["evidence"]["count"] >= reporters


@pytest.mark.parametrize("forgery", FORGERIES)
async def test_alone_it_moves_no_term_beyond_its_reach(bearer: Bearer, lab: Lab, forgery: str) -> None:
    forger = await bearer(Scope.WORKER)
    unmoved = {"own": lab.computed, "other": await memory(lab.operator, OTHER)}
    for forged in FORGERIES[forgery]:
        await lab.measured(forger, **forged)
    for name, requested in (("own", QUESTION), ("other", OTHER)):
        after = await memory(lab.operator, requested)
        for term in TERMS:
            was = unmoved[name][term]
            reach = max(LONE_REACH, was["high"] - was["bytes"], was["bytes"] - was["low"])
            assert abs(after[term]["bytes"] - was["bytes"]) <= reach, (name, term)
            if after[term]["basis"] == "measured":
                assert abs(after[term]["bytes"] - was["bytes"]) < reach


async def test_two_honest_workers_set_right_what_came_before_them(bearer: Bearer, lab: Lab) -> None:
    await lab.measured(await bearer(Scope.WORKER), {"non_torch": 9 * GIB})
    for number in range(2):
        await lab.measured(await bearer(Scope.WORKER), {"non_torch": GIB // 2 + 10 * number * MIB})
    after = await memory(lab.operator, QUESTION)
    assert after["non_torch"]["bytes"] - lab.computed["non_torch"]["bytes"] == GIB // 2 + 5 * MIB
    assert after["non_torch"]["basis"] == "measured"


async def test_revoking_its_token_gives_the_word_to_others(bearer: Bearer, lab: Lab) -> None:
    forger = await bearer(Scope.WORKER)
    await lab.measured(forger, {"non_torch": 9 * GIB})
    await lab.measured(await bearer(Scope.WORKER), {"non_torch": GIB // 2})
    tokens = forger._transport.app.state.services.probes.tokens  # noqa: SLF001 - the application it asks
    await tokens.revoke(forger.headers["authorization"].split("_")[1])
    await lab.learned()
    after = await memory(lab.operator, QUESTION)
    assert after["non_torch"]["bytes"] - lab.computed["non_torch"]["bytes"] == GIB // 2


async def test_the_service_writes_down_when_and_by_whose_token(bearer: Bearer, lab: Lab) -> None:
    worker = await bearer(Scope.WORKER)
    started = time.time()
    await lab.measured(worker, {}, measured_at=FAR_FUTURE)
    (line,) = (await lab.operator.get("/measurements")).text.splitlines()
    kept = json.loads(line)
    assert started <= kept["measured_at"] <= time.time()
    assert kept["reporter"] == worker.headers["authorization"].split("_")[1]
    assert kept["device"]["name"] == H100


async def test_an_import_from_the_future_is_refused(bearer: Bearer, lab: Lab) -> None:
    await lab.measured(await bearer(Scope.WORKER), {})
    line = json.loads((await lab.operator.get("/measurements")).text)
    for ahead, status in ((200, 200), (400, 422)):
        body = json.dumps({**line, "node": "n", "measured_at": time.time() + ahead})
        assert (await lab.operator.post("/measurements", content=body)).status_code == status
