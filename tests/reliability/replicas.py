"""Four replicas over PostgreSQL behind nginx, while processes and the database fail.

``make test-replicas``: plans and jobs go through the proxy all the time. Replicas are killed, upgraded to the
next revision of the tables and back; PostgreSQL is restarted, crashes, is frozen, and has no connection left.
Nothing may be answered with 500, no plan may fail or wait, a refusal says when to ask again and comes within
a time limit, and every job that was acknowledged must end once. ``--only frozen`` runs one disturbance.
"""

import argparse
import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import asyncpg
import httpx2
from rich.console import Console

from service.store.schema import HEAD
from service.store.token import Scope
from tests.bench.server import free_port, wait_until_ready
from tests.reliability.campaign import Process
from tests.store.postgresql import PostgresServer, binaries, new_database, postgres_server

REPLICAS, WORKERS = 4, 4
LEASE_SECONDS = 5
DOWN_SECONDS = 3
PATIENCE_SECONDS = 240.0
DATABASE_SECONDS = 5
PLAN_SECONDS = 5.0
"""Within which a plan is answered, unless the machine is busy with other work."""
LIGHT = {"model": "Qwen/Qwen3-8B", "gpus": ["h100-sxm-80gb"]}
ROOT = Path(__file__).parents[2]
NGINX = """\
daemon off; pid {folder}/nginx.pid; error_log {folder}/nginx.log warn; worker_processes 1;
events {{ worker_connections 1024; }}
http {{
  access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/a; uwsgi_temp_path {folder}/b; scgi_temp_path {folder}/c;
  upstream replicas {{ {servers} keepalive 32; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://replicas; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_set_header X-Forwarded-For $remote_addr; proxy_read_timeout 60s; proxy_connect_timeout 2s;
      # Plans change nothing and probes have a key, so that both may be sent again.
      proxy_next_upstream error timeout non_idempotent; proxy_next_upstream_tries 4;
    }}
  }}
}}
"""
NEXT_MIGRATION = '''\
"""Expands: a column that only the next version writes."""
import sqlalchemy as sa
from alembic import op
revision = "{revision}"
down_revision = "{before}"
def upgrade():
    op.add_column("jobs", sa.Column("of_the_next_version", sa.Text))
'''


@dataclass
class Traffic:
    """What callers saw."""

    plans: Counter[str] = field(default_factory=Counter)
    probes: Counter[str] = field(default_factory=Counter)
    jobs: list[str] = field(default_factory=list)
    """Ids of the jobs that were acknowledged."""
    slowest_plan: float = 0.0
    slowest_probe: float = 0.0

    def plan(self, reply: httpx2.Response, seconds: float) -> None:
        self.plans[str(reply.status_code)] += 1
        self.slowest_plan = max(self.slowest_plan, seconds)

    def probe(self, reply: httpx2.Response, seconds: float) -> None:
        # nginx itself answers 503 to nothing: it is always the service's own, which says when to ask again.
        hint = "" if reply.status_code != 503 or "Retry-After" in reply.headers else " without Retry-After"
        self.probes[f"{reply.status_code}{hint}"] += 1
        self.slowest_probe = max(self.slowest_probe, seconds)
        if reply.status_code == 202:
            self.jobs.append(reply.json()["id"])

    def faults(self, plan_seconds: float) -> list[str]:
        # docs/operations.md: twice the database's time limit if it accepts connections and does not answer.
        limits = {"plan": plan_seconds, "probe": plan_seconds + 2 * DATABASE_SECONDS}
        found = [f"a plan: {number} x {status}" for status, number in self.plans.items() if status != "200"]
        found += [f"a probe: {n} x {s}" for s, n in self.probes.items() if s not in {"202", "503"}]
        for what, slowest in (("plan", self.slowest_plan), ("probe", self.slowest_probe)):
            if slowest > limits[what]:
                found.append(f"a {what} took {slowest:.1f} s")
        return found

    def __str__(self) -> str:
        return (
            f"plans {dict(self.plans)}, slowest {self.slowest_plan:.2f} s; "
            f"probes {dict(self.probes)}, slowest {self.slowest_probe:.2f} s; {len(self.jobs)} jobs"
        )


class Cluster:
    """The replicas, and what disturbs them."""

    def __init__(self, server: PostgresServer, url: str, folder: Path) -> None:
        self.server, self.url, self.folder = server, url, folder
        self.ports = [free_port() for _ in range(REPLICAS)]
        self.edge = free_port()
        environment = {
            **os.environ,
            "DRYSERVE_DATABASE_URL": url,
            "DRYSERVE_DATABASE_POOL_SIZE": "4",
            "DRYSERVE_DATABASE_TIMEOUT_SECONDS": str(DATABASE_SECONDS),
            "DRYSERVE_PROBE_LEASE_SECONDS": str(LEASE_SECONDS),
            "DRYSERVE_PROBE_ATTEMPTS": "20",
            "DRYSERVE_LOG_LEVEL": "warning",
            "HF_HUB_OFFLINE": "1",
        }
        self.environment = environment
        self.replicas = [
            Process(
                [sys.executable, "-m", "service", "serve", "--port", str(port)],
                environment,
                folder / f"replica-{number}.log",
            )
            for number, port in enumerate(self.ports)
        ]

    @contextmanager
    def running(self, token: str) -> Iterator[None]:
        (self.folder / "token").write_text(token)
        servers = " ".join(f"server 127.0.0.1:{port} max_fails=0;" for port in self.ports)
        config = self.folder / "nginx.conf"
        config.write_text(NGINX.format(folder=self.folder, servers=servers, port=self.edge))
        nginx = shutil.which("nginx") or "/usr/sbin/nginx"
        processes = [
            *self.replicas,
            Process([nginx, "-c", str(config)], dict(os.environ), self.folder / "edge.log"),
        ]
        for number in range(WORKERS):
            command = [sys.executable, "-m", "tests.reliability.slow_worker", f"http://127.0.0.1:{self.edge}"]
            command += [str(self.folder / "token"), f"node-{number}", str(self.folder / f"state-{number}")]
            processes.append(Process(command, self.environment, self.folder / f"worker-{number}.log"))
        with ExitStack() as stack:
            for process in processes:
                process.start()
                stack.callback(process.kill, signal.SIGTERM)
            for port in (*self.ports, self.edge):
                _wait_until_ready(port)
            yield

    async def killed(self) -> None:
        """Kill each replica in turn, and start it again."""
        for process, port in zip(self.replicas, self.ports, strict=True):
            process.kill()
            await asyncio.sleep(0.5)
            process.start()
            await asyncio.to_thread(_wait_until_ready, port)

    async def rolled(self, program: Path) -> None:
        """Replace each replica in turn by a program of another version, in order."""
        for process, port in zip(self.replicas, self.ports, strict=True):
            process.kill(signal.SIGTERM)
            process.environment = {**self.environment, "PYTHONPATH": str(program)}
            process.cwd = program
            process.start()
            await asyncio.to_thread(_wait_until_ready, port)

    async def restarted_database(self, how: signal.Signals) -> None:
        """Stop PostgreSQL in one of its ways, and start it again after a while."""
        await asyncio.to_thread(self.server.stop, how)
        await asyncio.sleep(DOWN_SECONDS)
        await asyncio.to_thread(self.server.start)

    async def frozen_database(self, seconds: float) -> None:
        """Stop all processes of PostgreSQL, as a disk that hangs does."""
        self.server.signal_all(signal.SIGSTOP)
        await asyncio.sleep(seconds)
        self.server.signal_all(signal.SIGCONT)

    async def crowded_out(self, seconds: float) -> None:
        """Take every connection that PostgreSQL has left, and cut those of the replicas."""
        async with AsyncExitStack() as stack:
            held: list[asyncpg.Connection] = []
            stack.push_async_callback(self._let_go, held)
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                try:
                    held.append(await asyncpg.connect(self.url, server_settings={"application_name": "held"}))
                except asyncpg.PostgresError:
                    if held:
                        await held[0].execute(
                            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                            "WHERE application_name <> 'held' AND datname = current_database()"
                        )
                    await asyncio.sleep(0.5)

    @staticmethod
    async def _let_go(held: "list[asyncpg.Connection]") -> None:
        for each in held:
            await each.close()


def _wait_until_ready(port: int) -> None:
    """Wait for longer than for one service: eight processes start at once."""
    for _ in range(5):
        try:
            wait_until_ready(port)
        except TimeoutError:
            continue
        return
    raise TimeoutError(f"nothing was ready on port {port}")


async def traffic(cluster: Cluster, token: str, seen: Traffic, ended: asyncio.Event) -> None:
    """Ask for plans and probes through the proxy until the end."""
    headers, numbers = {"Authorization": f"Bearer {token}"}, count()

    async def plans(http: httpx2.AsyncClient) -> None:
        while not ended.is_set():
            body = {
                **LIGHT,
                "serve": {"tensor_parallel_size": 1, "max_model_len": 1024 + next(numbers) % 30_000},
            }
            began = time.monotonic()
            seen.plan(await http.post("/plan", json=body), time.monotonic() - began)
            await asyncio.sleep(0.05)

    async def probes(http: httpx2.AsyncClient) -> None:
        while not ended.is_set():
            key = {"Idempotency-Key": f"key-{next(numbers)}"}
            while not ended.is_set():
                began = time.monotonic()
                reply = await http.post("/probes", json={"kind": "inventory"}, headers={**headers, **key})
                seen.probe(reply, time.monotonic() - began)
                if reply.status_code == 202:
                    break
                await asyncio.sleep(0.2)
            await asyncio.sleep(0.2)

    address = f"http://127.0.0.1:{cluster.edge}"
    async with httpx2.AsyncClient(base_url=address, timeout=60) as http:
        await asyncio.gather(plans(http), plans(http), probes(http))


async def lost(cluster: Cluster, seen: Traffic) -> list[str]:
    """Wait for the end of the jobs; return those that did not succeed."""
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        connection = await asyncpg.connect(cluster.url)
        states = {row["id"]: row["state"] for row in await connection.fetch("SELECT id, state FROM jobs")}
        await connection.close()
        open_jobs = [job for job in seen.jobs if states.get(job) in {"queued", "leased", "running"}]
        if not open_jobs or time.monotonic() > until:
            return [f"{job}: {states.get(job)}" for job in seen.jobs if states.get(job) != "succeeded"]
        await asyncio.sleep(0.5)


def next_program(folder: Path) -> Path:
    """Return a copy of the program that needs one more revision of the tables."""
    program = folder / "next"
    shutil.copytree(ROOT / "service", program / "service", ignore=shutil.ignore_patterns("__pycache__"))
    revision = f"{int(HEAD) + 1:04}"
    migration = program / "service/store/migrations/versions" / f"v{revision}_next.py"
    migration.write_text(NEXT_MIGRATION.format(revision=revision, before=HEAD))
    return program


def disturbances(
    cluster: Cluster, program: Path, frozen: float
) -> dict[str, tuple[str, Callable[[], Awaitable[None]]]]:
    """Return each disturbance with its words, by name."""
    return {
        "kill": ("kill -9 of each replica", cluster.killed),
        "upgrade": ("upgrade to the next revision", lambda: cluster.rolled(program)),
        "back": ("back to this revision", lambda: cluster.rolled(ROOT)),
        "restart": ("PostgreSQL restarted", lambda: cluster.restarted_database(signal.SIGINT)),
        "crash": ("PostgreSQL crashes", lambda: cluster.restarted_database(signal.SIGQUIT)),
        "frozen": (f"PostgreSQL frozen for {frozen:g} s", lambda: cluster.frozen_database(frozen)),
        "crowded": ("PostgreSQL out of connections", lambda: cluster.crowded_out(10)),
    }


NAMES = ("kill", "upgrade", "back", "restart", "crash", "frozen", "crowded")


async def run(cluster: Cluster, options: argparse.Namespace, console: Console) -> list[str]:
    """Run the chosen disturbances; return what went wrong."""
    token, worker = _token(cluster.url, Scope.OPERATOR), _token(cluster.url, Scope.WORKER)
    faults: list[str] = []
    known = disturbances(cluster, next_program(cluster.folder), options.frozen)
    with cluster.running(worker):
        for name, disturb in (known[each] for each in options.only or NAMES):
            seen, ended = Traffic(), asyncio.Event()
            asking = asyncio.create_task(traffic(cluster, token, seen, ended))
            await asyncio.sleep(2)
            await disturb()
            await asyncio.sleep(3)
            ended.set()
            await asking
            found = seen.faults(options.plan_seconds) + await lost(cluster, seen)
            faults += [f"{name}: {each}" for each in found]
            console.print(f"{name}: {seen}; {len(found)} faults")
    return faults


def _token(url: str, scope: Scope) -> str:
    environment = {**os.environ, "DRYSERVE_DATABASE_URL": url}
    command = [sys.executable, "-m", "service", "token", "create", scope, "--scope", scope]
    made = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)  # noqa: S603
    return made.stdout.strip()


def main() -> None:
    """Run the campaign, and exit with 1 where anything went wrong."""
    parser = argparse.ArgumentParser(prog="tests.reliability.replicas", description=__doc__)
    parser.add_argument("--frozen", type=float, default=60, help="seconds for which PostgreSQL is frozen")
    parser.add_argument(
        "--plan-seconds", type=float, default=PLAN_SECONDS, help="most seconds for a plan; more if busy"
    )
    parser.add_argument("--only", action="append", choices=NAMES, help="run this disturbance; repeatable")
    options = parser.parse_args()
    programs, console = binaries(), Console(soft_wrap=True, highlight=False)
    if programs is None:
        sys.exit("PostgreSQL is not installed (Debian: apt-get install postgresql)")
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name,
        postgres_server(programs) as server,
    ):
        cluster = Cluster(server, new_database(server.url), Path(name))
        faults = asyncio.run(run(cluster, options, console))
    for fault in faults:
        console.print(f"  {fault}")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
