"""Children and their keeper: nothing is left of a child once it is over, however it is over."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from service.worker.child import STOPPED, TIMED_OUT, Child
from service.worker.excerpt import excerpt, last_error

TREE = """
import os, subprocess, sys, time
code = "import os, signal, time; {stubborn}; open('pid-' + str(os.getpid()), 'w'); time.sleep(300)"
stubborn = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"
for alone in (False, True):
    subprocess.Popen([sys.executable, "-c", code.format(stubborn=stubborn)], start_new_session=alone)
middle = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', sys.argv[1]])"
subprocess.run([sys.executable, "-c", middle, code.format(stubborn="pass")])
open("phase", "w").write("three below")
{ending}
"""
"""Starts a child in our session, one in its own, and an orphan; two of them do not heed SIGTERM."""


async def started(folder: Path, program: str, wall_seconds: float = 60) -> Child:
    command = (sys.executable, "-c", program)
    return await Child.start(folder, command, {}, wall_seconds=wall_seconds, environment={"MINE": "1"})


def pids(folder: Path) -> list[int]:
    until = time.monotonic() + 20
    while len(found := list(folder.glob("pid-*"))) < 3:
        assert time.monotonic() < until, (folder / "log").read_text()
        time.sleep(0.05)
    return [int(path.name.partition("-")[2]) for path in found]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(found: list[int], seconds: float = 10) -> bool:
    until = time.monotonic() + seconds
    while any(map(alive, found)):
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


async def test_a_program_that_is_not_there_is_told(tmp_path: Path) -> None:
    child = await Child.start(tmp_path, ("/nowhere/python",), {}, wall_seconds=9, environment={})
    assert await child.ended(20)
    end = child.end()
    assert (end.code, end.result) == (126, None)
    assert last_error(end.log).startswith("FileNotFoundError: ")


async def test_a_child_that_is_stopped_leaves_nobody(tmp_path: Path) -> None:
    child = await started(tmp_path, TREE.replace("{ending}", "time.sleep(300)"))
    found = pids(tmp_path)
    assert child.phase == "three below"
    await child.stop()
    assert child.end().code == STOPPED
    assert gone(found, 1)


@pytest.mark.slow
async def test_a_child_that_ends_leaves_nobody(tmp_path: Path) -> None:
    child = await started(tmp_path, TREE.replace("{ending}", "time.sleep(1); sys.exit(3)"))
    found = pids(tmp_path)
    assert await child.ended(20)
    assert child.end().code == 3
    assert gone(found, 1)


async def test_a_child_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    child = await started(tmp_path, "import time; time.sleep(300)", wall_seconds=0.5)
    assert await child.ended(20)
    assert child.end().code == TIMED_OUT


def test_a_worker_that_is_killed_leaves_nobody(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from service.worker.child import Child\n"
        "async def main():\n"
        "    command = (sys.executable, '-c', Path('tree.py').read_text())\n"
        "    await Child.start(Path.cwd(), command, {}, wall_seconds=60, environment={})\n"
        "    await asyncio.sleep(300)\n"
        "asyncio.run(main())\n"
    )
    (tmp_path / "tree.py").write_text(TREE.replace("{ending}", "time.sleep(300)"))
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYTHONPATH": root}
    with subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path, env=environment) as worker:  # noqa: S603
        found = pids(tmp_path)
        worker.kill()
    assert gone(found)


async def test_a_child_sees_no_secrets_and_its_result_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_very_secret_token")
    program = "import json, os; json.dump(dict(os.environ), open('result.json', 'w'))"
    child = await started(tmp_path, program)
    assert await child.ended(20)
    seen = child.end().result
    assert seen is not None
    assert seen["MINE"] == "1"
    assert seen["HOME"] == str(tmp_path)
    assert "hf_very_secret_token" not in str(seen)
    assert seen.keys() <= {"PATH", "LD_LIBRARY_PATH", "LANG", "TZ", "HOME", "TMPDIR", "MINE", "LC_CTYPE"}


async def test_a_child_that_writes_nonsense_has_no_result(tmp_path: Path) -> None:
    child = await started(tmp_path, "open('result.json', 'w').write('[1'); print('ValueError: bad')")
    assert await child.ended(20)
    end = child.end()
    assert (end.code, end.result) == (0, None)
    assert last_error(end.log) == "ValueError: bad"


def test_an_excerpt_leaves_secrets_out(tmp_path: Path) -> None:
    log = (
        "x" * 10_000 + f"\nHF token hf_abcdefgh12 in {tmp_path}/model\n"
        "Authorization: Bearer abc.def\npassword=hunter2 at /home/jane/x and /root/y\nlast line"
    )
    text = excerpt(log, tmp_path)
    assert len(text) <= 8192
    for secret in ("hf_abcdefgh12", "abc.def", "hunter2", "jane", "/root", str(tmp_path)):
        assert secret not in text
    assert text.endswith("last line")
