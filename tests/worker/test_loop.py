"""The worker's loop against a service that fails in every way."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from structlog.testing import capture_logs
from typer.testing import CliRunner

from service.cli.main import cli
from service.probes.job_spec import Inventory, JobSpec
from service.serialization import SPEC
from service.worker import loop
from service.worker.devices import DeviceState
from service.worker.loop import Worker
from service.worker.probe_run import ProbeRun
from service.worker.service_client import Denied, ServiceClient, Unreachable
from service.worker.spool import Spool, Spooled
from tests.worker.simulation import SimulatedGpu

JOB = "0" * 32
LEASE = {
    "probe_id": JOB,
    "fence": 3,
    "ttl_seconds": 0.4,
    "heartbeat_seconds": 0.1,
    "spec": SPEC.dump_python(JobSpec(Inventory()), mode="json"),
}
Answer = Callable[[str, dict[str, Any]], httpx2.Response]


class Service:
    """Hands one job out, and answers the rest as a test says."""

    def __init__(self, answer: Answer | None = None, lease: dict[str, Any] = LEASE) -> None:
        self._lease = lease
        self.heard: list[tuple[str, dict[str, Any]]] = []
        self._answer = answer or (lambda _, __: httpx2.Response(200, json={"cancel": False}))
        self._leased = False

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        path, body = request.url.path.rpartition("/")[2], json.loads(request.content)
        self.heard.append((path, body))
        if path == "leases" and not self._leased:
            self._leased = True
            return httpx2.Response(200, json=self._lease)
        return httpx2.Response(204) if path == "leases" else self._answer(path, body)

    def of(self, path: str) -> list[dict[str, Any]]:
        return [body for heard, body in self.heard if heard == path]


class Patient(ProbeRun):
    """Runs until it is stopped, or for two seconds."""

    async def result(self) -> dict[str, Any]:
        for _ in range(40):
            if self.stopped:
                return {"outcome": "failed", "detail": self._stopped}
            await asyncio.sleep(0.05)
        return {"outcome": "measured"}


def replied(status: int) -> httpx2.Response:
    return httpx2.Response(status, json={"cancel": False})


def worker(service: Service, folder: Path, run_of: type[ProbeRun] = ProbeRun) -> Worker:
    gpu = SimulatedGpu(folder / "gpu")
    http = httpx2.AsyncClient(transport=httpx2.MockTransport(service), base_url="http://service")
    return Worker(gpu.node, gpu, ServiceClient(http, "node-1"), run_of)


async def test_a_job_is_run_and_handed_in_under_its_fence(tmp_path: Path) -> None:
    service = Service()
    await worker(service, tmp_path).work(once=True)
    (handed,) = service.of("result")
    assert (handed["fence"], handed["node"], handed["result"]["outcome"]) == (3, "node-1", "measured")
    assert not list(Spool(tmp_path / "gpu" / "results"))


async def test_a_service_that_fails_for_a_while_gets_the_result_all_the_same(tmp_path: Path) -> None:
    failures = iter([500, 503, 502])
    service = Service(
        lambda path, _: httpx2.Response(
            next(failures, 200) if path == "result" else 200, json={"cancel": False}
        )
    )
    await worker(service, tmp_path).work(once=True)
    results = service.of("result")
    assert len(results) == 4
    assert all(result == results[0] for result in results)


async def test_a_result_that_is_refused_for_good_is_forgotten(tmp_path: Path) -> None:
    service = Service(
        lambda path, _: httpx2.Response(409 if path == "result" else 200, json={"cancel": False})
    )
    await worker(service, tmp_path).work(once=True)
    assert len(service.of("result")) == 1
    assert not list(Spool(tmp_path / "gpu" / "results"))


async def test_a_result_on_disk_is_handed_in_first(tmp_path: Path) -> None:
    service = Service()
    busy = worker(service, tmp_path)
    Spool(tmp_path / "gpu" / "results").put(Spooled("1" * 32, 9, {"outcome": "failed", "detail": "x"}))
    await busy.work(once=True)
    assert service.heard[0] == (
        "result",
        {"node": "node-1", "fence": 9, "result": {"outcome": "failed", "detail": "x"}},
    )


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (
            httpx2.Response(409, json={"detail": "another worker's"}),
            "the lease is lost: 409: another worker's",
        ),
        (httpx2.Response(200, json={"cancel": True}), "cancelled"),
        (httpx2.Response(500, json={}), "the service could not be reached before the lease ended"),
    ],
)
async def test_a_job_stops_when_its_lease_is_lost_or_cannot_be_known(
    answer: httpx2.Response, why: str, tmp_path: Path
) -> None:
    ok = httpx2.Response(200, json={})
    service = Service(lambda path, _: answer if path == "heartbeat" else ok)
    started = asyncio.get_running_loop().time()
    await worker(service, tmp_path, Patient).work(once=True)
    (handed,) = service.of("result")
    assert handed["result"]["detail"] == why
    assert asyncio.get_running_loop().time() - started < 1.9


async def test_what_a_job_does_is_told_at_once(tmp_path: Path) -> None:
    """A quarter of a lease would be 15 s."""

    class Busy(Patient):
        async def result(self) -> dict[str, Any]:
            for self.phase in ("weights", "kv_tensors"):
                await asyncio.sleep(0.8)
            return {"outcome": "measured"}

    service = Service(lease={**LEASE, "ttl_seconds": 60, "heartbeat_seconds": 15})
    await worker(service, tmp_path, Busy).work(once=True)
    assert [beat["phase"] for beat in service.of("heartbeat") if beat["phase"]] == ["weights", "kv_tensors"]


async def test_a_worker_that_is_told_to_end_leaves_its_job_to_others(tmp_path: Path) -> None:
    service = Service()
    specified = worker(service, tmp_path, Patient)
    working = asyncio.create_task(specified.work())
    while not service.of("heartbeat"):  # noqa: ASYNC110 - a test's own service
        await asyncio.sleep(0.02)
    specified.stop()
    await asyncio.wait_for(working, 5)
    assert service.of("result") == []


async def test_a_job_that_breaks_the_worker_is_a_failed_job(tmp_path: Path) -> None:
    class Broken(ProbeRun):
        async def result(self) -> dict[str, Any]:
            raise RuntimeError("x" * 5000)

    service = Service()
    await worker(service, tmp_path, Broken).work(once=True)
    (handed,) = service.of("result")
    assert handed["result"]["outcome"] == "failed"
    assert len(handed["result"]["detail"]) == 2000


async def test_a_token_that_is_not_accepted_ends_the_worker(tmp_path: Path) -> None:
    http = httpx2.AsyncClient(
        transport=httpx2.MockTransport(lambda _: httpx2.Response(401, json={})), base_url="http://service"
    )
    gpu = SimulatedGpu(tmp_path / "gpu")
    with pytest.raises(Denied):
        await Worker(gpu.node, gpu, ServiceClient(http, "n")).work()


async def test_a_service_that_is_not_there_is_given_up_by_a_worker_of_one_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("Connection refused", request=request)

    monkeypatch.setattr(loop, "ONCE_SECONDS", 0.3)
    gpu = SimulatedGpu(tmp_path / "gpu")
    http = httpx2.AsyncClient(transport=httpx2.MockTransport(gone), base_url="http://service:1")
    with pytest.raises(Unreachable, match=r"^http://service:1.* cannot be reached: Connection refused$"):
        await Worker(gpu.node, gpu, ServiceClient(http, "node-1")).work(once=True)


async def test_a_result_that_cannot_be_handed_in_stays_when_a_worker_of_one_job_gives_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "ONCE_SECONDS", 0.3)
    service = Service(lambda _, __: httpx2.Response(503, json={}))
    Spool(tmp_path / "gpu" / "results").put(Spooled("1" * 32, 9, {"outcome": "failed", "detail": "x"}))
    with pytest.raises(Unreachable):
        await worker(service, tmp_path).work(once=True)
    assert len(list(Spool(tmp_path / "gpu" / "results"))) == 1


class NoGpu(SimulatedGpu):
    """A node on which the driver lists nothing."""

    def states(self) -> tuple[DeviceState, ...]:
        return ()


async def test_a_worker_without_a_gpu_says_so_as_a_warning(tmp_path: Path) -> None:
    gpu = NoGpu(tmp_path / "gpu")
    http = httpx2.AsyncClient(transport=httpx2.MockTransport(Service()), base_url="http://service")
    with capture_logs() as logged:
        await Worker(gpu.node, gpu, ServiceClient(http, "node-1")).work(once=True)
    warning = next(line for line in logged if line["log_level"] == "warning")
    assert warning["reason"] == "no GPU is visible: it can only take inventories"


async def test_a_python_without_torch_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(_: Path) -> dict[str, str]:
        return {}

    monkeypatch.setattr(loop, "installed", nothing)
    gpu = SimulatedGpu(tmp_path / "gpu")
    http = httpx2.AsyncClient(transport=httpx2.MockTransport(Service()), base_url="http://service")
    with capture_logs() as logged:
        await Worker(gpu.node, gpu, ServiceClient(http, "node-1")).work(once=True)
    warning = next(line for line in logged if line["log_level"] == "warning")
    assert warning["reason"] == f"{gpu.node.python} has no torch and no vllm: choose another with --python"


@pytest.mark.parametrize("server", ["127.0.0.1:8066", "dryserve", "ftp://host", "http://", "http://[::1"])
def test_an_address_that_is_none_ends_the_worker_at_once(server: str, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("x")
    ended = CliRunner().invoke(cli, ["worker", "--server", server, "--token-file", str(token)])
    assert ended.exit_code == 2
    assert f"--server: {server!r} is not an address" in ended.stderr
