"""Jobs under `kill -9`: services and workers are killed and started again while jobs come in and go out."""

import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
from sqlalchemy import text

from service.probes.job_state import ENDED, State
from service.store.database import Database
from service.store.token import Scope
from service.store.tokens import TokenStore
from tests.bench.server import free_port

SERVICES, WORKERS = 2, 4
LEASE_SECONDS = 3
PATIENCE_SECONDS = 900
AUDIT = {
    "sqlite": """
        CREATE TABLE audit (id TEXT, before TEXT, after TEXT);
        CREATE TRIGGER audited AFTER UPDATE OF state ON jobs WHEN OLD.state <> NEW.state
        BEGIN INSERT INTO audit VALUES (NEW.id, OLD.state, NEW.state)/; END;
    """,
    "postgresql": """
        CREATE TABLE audit (id TEXT, before TEXT, after TEXT);
        CREATE FUNCTION audit_state() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN INSERT INTO audit VALUES (NEW.id, OLD.state, NEW.state)/; RETURN NULL/; END $$;
        CREATE TRIGGER audited AFTER UPDATE ON jobs FOR EACH ROW WHEN (OLD.state <> NEW.state)
        EXECUTE FUNCTION audit_state();
    """,
}
"""The database itself bears witness to every change of a state."""


@dataclass
class Process:
    """A service or a worker, which is started again whenever it is killed."""

    command: list[str]
    environment: dict[str, str]
    log: Path
    cwd: Path | None = None
    running: "subprocess.Popen[bytes] | None" = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.running = subprocess.Popen(  # noqa: S603 - our own
                self.command, env=self.environment, cwd=self.cwd, stdout=subprocess.DEVNULL, stderr=log
            )

    def kill(self, number: int = signal.SIGKILL) -> int | None:
        if self.running is None:
            return None
        self.running.send_signal(number)
        return self.running.wait(15)


@dataclass
class Account:
    """What came of a campaign."""

    acknowledged: dict[str, str] = field(default_factory=dict)
    """Job by the key that it was asked for with."""
    states: dict[str, State] = field(default_factory=dict)
    results: dict[str, str | None] = field(default_factory=dict)
    ends: Counter[str] = field(default_factory=Counter)
    """How often each job came to an end, by the database's own witness."""
    requeued: int = 0
    handed_in: Counter[str] = field(default_factory=Counter)
    """How often workers say that the service kept a result, by job."""
    kills: int = 0
    seconds: float = 0.0

    def faults(self) -> list[str]:
        """Return everything that is not as it must be."""
        found = []
        for key, job in self.acknowledged.items():
            if self.states.get(job) not in ENDED:
                found.append(f"{key}: job {job} is {self.states.get(job)}")
            if self.ends[job] != 1:
                found.append(f"{key}: job {job} ended {self.ends[job]} times")
        if len(set(self.acknowledged.values())) != len(self.acknowledged):
            found.append("two keys share a job")
        if extra := self.states.keys() - set(self.acknowledged.values()):
            found.append(f"{len(extra)} jobs that nobody was told of")
        for job, state in self.states.items():
            if (self.results[job] is not None) is not (state is State.SUCCEEDED):
                found.append(f"job {job} is {state}, with the result {self.results[job]}")
        found += [
            f"{job}: a result that was kept is lost"
            for job in self.handed_in
            if self.results.get(job) is None
        ]
        return found


async def campaign(url: str, folder: Path, *, jobs: int, kills: int, seed: int = 7) -> Account:
    """Run a campaign against an empty database."""
    account, chance, started = Account(), random.Random(seed), time.monotonic()
    database = Database(url)
    tokens = TokenStore(database)
    operator, worker = await tokens.create("op", Scope.OPERATOR), await tokens.create("pool", Scope.WORKER)
    async with database.writing() as connection:
        for statement in re.split(r"(?<!/);", AUDIT[database.url.get_backend_name()]):
            if statement.strip():
                await connection.exec_driver_sql(statement.replace("/;", ";"))
    ports = [free_port() for _ in range(SERVICES)]
    with _processes(url, folder, ports, worker) as processes:
        async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {operator}"}, timeout=10) as http:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_ask(http, ports, jobs, account))
                tasks.create_task(_kill(processes, jobs, kills, chance, account))
            await _all_ended(database, account)
        for process in processes[SERVICES:]:
            assert process.kill(signal.SIGTERM) == 0, "a worker that is told to end ends in order"
    await _audit(database, folder, account)
    await database.close()
    account.seconds = time.monotonic() - started
    return account


@contextmanager
def _processes(url: str, folder: Path, ports: list[int], token: str) -> Iterator[list[Process]]:
    (folder / "token").write_text(token)
    environment = {
        **os.environ,
        "DRYSERVE_DATABASE_URL": url,
        "DRYSERVE_PROBE_LEASE_SECONDS": str(LEASE_SECONDS),
        "HF_HUB_OFFLINE": "1",
    }
    program = [sys.executable, "-m", "service"]
    processes = [
        Process([*program, "serve", "--port", str(port)], environment, folder / f"service-{number}.log")
        for number, port in enumerate(ports)
    ]
    for number in range(WORKERS):
        server = f"http://127.0.0.1:{ports[number % len(ports)]}"
        state = str(folder / f"state-{number}")
        command = [sys.executable, "-m", "tests.reliability.slow_worker"]
        command += [server, str(folder / "token"), f"node-{number}", state]
        processes.append(Process(command, environment, folder / f"worker-{number}.log"))
    with ExitStack() as stack:
        for process in processes:
            process.start()
            stack.callback(process.kill)
        yield processes


async def _ask(http: httpx2.AsyncClient, ports: list[int], jobs: int, account: Account) -> None:
    """Ask for jobs one after another, each until it is acknowledged, by any of the services."""
    for number in range(jobs):
        key, tries = f"key-{number}", 0
        while key not in account.acknowledged:
            address = f"http://127.0.0.1:{ports[(number + tries) % len(ports)]}/probes"
            tries += 1
            try:
                reply = await http.post(address, json={"kind": "inventory"}, headers={"Idempotency-Key": key})
            except httpx2.HTTPError:
                await asyncio.sleep(0.1)
                continue
            if reply.status_code == 202:
                account.acknowledged[key] = reply.json()["id"]
            else:
                assert reply.status_code >= 500, reply.text
                await asyncio.sleep(0.1)


async def _kill(
    processes: list[Process], jobs: int, kills: int, chance: random.Random, account: Account
) -> None:
    """Kill processes while jobs come in, evenly over all of them, and start each again."""
    for number in range(kills):
        while len(account.acknowledged) < jobs * (number + 1) / (kills + 1):  # noqa: ASYNC110 - others ask
            await asyncio.sleep(0.02)
        process = chance.choice(processes)
        process.kill()
        account.kills += 1
        await asyncio.sleep(chance.uniform(0, 0.5))
        process.start()


async def _all_ended(database: Database, account: Account) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    open_states = ", ".join(f"'{state}'" for state in State if state not in ENDED)
    while time.monotonic() < until:
        async with database.reading() as connection:
            left = await connection.scalar(text(f"SELECT count(*) FROM jobs WHERE state IN ({open_states})"))  # noqa: S608
        if not left:
            return
        await asyncio.sleep(0.5)
    raise TimeoutError(f"{len(account.acknowledged)} jobs did not end in {PATIENCE_SECONDS} s")


async def _audit(database: Database, folder: Path, account: Account) -> None:
    async with database.reading() as connection:
        for row in await connection.execute(text("SELECT id, state, result FROM jobs")):
            account.states[row.id], account.results[row.id] = State(row.state), row.result
        for row in await connection.execute(text("SELECT id, after FROM audit")):
            if State(row.after) in ENDED:
                account.ends[row.id] += 1
            account.requeued += row.after == State.QUEUED
    account.handed_in.update(_handed_in(folder))


def _handed_in(folder: Path) -> Iterator[str]:
    for log in folder.glob("worker-*.log"):
        for line in log.read_text("utf-8", "replace").splitlines():
            if '"job done"' in line:
                yield json.loads(line)["probe"]
