"""Runs one child and ends every process that the child started before it exits itself.

``python keeper.py FOLDER`` reads ``child.json`` of the folder. The worker holds the other end of standard
input: when it closes, because the worker closed it or died, the keeper kills all its descendants. Only the
standard library is imported.
"""

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

INHERITED_VARIABLES = (
    "PATH",
    "LD_LIBRARY_PATH",
    "LANG",
    "TZ",
    "CUDA_HOME",
    "CUDA_PATH",
)
"""The only variables that a child inherits: no token, no proxy, no home."""
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
TERM_SECONDS = 2.0
KILL_SECONDS = 20.0
TICK_SECONDS = 0.1
TIMED_OUT = 124
STOPPED = 125
NOT_STARTED = 126


def main() -> None:
    """Run the child of a folder until it ends, its time is over, or standard input closes."""
    folder = Path(sys.argv[1])
    settings = json.loads((folder / "child.json").read_text("utf-8"))
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    with (folder / "log").open("wb") as log:
        try:
            child = subprocess.Popen(  # noqa: S603 - the worker wrote the command
                settings["command"],
                cwd=folder,
                env=_environment(folder, settings["environment"]),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - this process has one thread
            )
        except OSError as error:
            log.write(f"{type(error).__name__}: {error}\n".encode())
            sys.exit(NOT_STARTED)
        code = _wait(child, time.monotonic() + settings["wall_seconds"])
    _kill_everyone()
    sys.exit(code)


def _wait(child: "subprocess.Popen[bytes]", until: float) -> int:
    while child.poll() is None:
        if time.monotonic() >= until:
            return TIMED_OUT
        readable, _, _ = select.select([sys.stdin], [], [], TICK_SECONDS)
        if readable and not os.read(sys.stdin.fileno(), 64):
            return STOPPED
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def _environment(folder: Path, extra: dict[str, str]) -> dict[str, str]:
    inherited = {name: os.environ[name] for name in INHERITED_VARIABLES if name in os.environ}
    return {**inherited, "HOME": str(folder), "TMPDIR": str(folder), **extra}


def _kill_everyone() -> None:
    """End all descendants: SIGTERM first, SIGKILL later. Orphans have become this process's own children."""
    begun = time.monotonic()
    while below := _descendants():
        polite = time.monotonic() < begun + TERM_SECONDS
        for pid in below:
            _signal(pid, signal.SIGTERM if polite else signal.SIGKILL)
        _reap()
        if time.monotonic() > begun + KILL_SECONDS:
            return
        time.sleep(TICK_SECONDS)


def _descendants() -> list[int]:
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text("utf-8", "replace").rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] != "Z":
            parents[int(stat.parent.name)] = int(fields[1])
    below: set[int] = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= more
    return sorted(below - {os.getpid()})


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def _die_with_parent() -> None:
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    # Systems other than Linux do not have it; there the closed pipe still ends the child itself.
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    main()
