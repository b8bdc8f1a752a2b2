"""Serve requests with drafts by a release's own scheduler, and compare with what is stored.

``python -m tests.oracle.scheduling 0.33.0`` installs the release below ``.oracle`` as ``make oracle`` does,
serves the requests of ``tests/data/oracle/scheduled_drafts.json`` by it (``scheduler_driver.py``), and exits
with 1 where they hold other blocks; a release without rows is asked about those of the newest that has some.
``--draw N`` serves N random requests as well, ``--write`` stores what was answered, and ``--python`` names a
Python that has the release.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from random import Random
from typing import Final

from packaging.version import Version

from tests.oracle.environment import InstallationFailed, prepare

STORED: Final = Path(__file__).parents[1] / "data" / "oracle" / "scheduled_drafts.json"
DRIVER: Final = Path(__file__).with_name("scheduler_driver.py")
BATCHED_TOKENS: Final = 512
"""Tokens of a step in every row."""
DRAFTS: Final = (0, 1, 3, 5, 8)
BLOCKS: Final = (1, 16)
WINDOWS: Final = (0, 0, 32, 128)
PROMPTS: Final = (4, 20, 100, 300, 511, 512, 513)
ANSWERS: Final = (1, 2, 3, 4, 7, 41, 150)
LENGTHS: Final = (600, 1050, 1300, 8192)


@dataclass(frozen=True, slots=True)
class Played:
    """One request as a release's own Scheduler or AsyncScheduler played it, with made-up samples.

    No draft token was accepted. Where windows are told, the prompt is no longer than one.
    """

    release: str
    concurrent: bool
    draft_tokens: int
    lookahead: bool
    block: int
    window: int
    prompt: int
    answer: int
    length: int
    blocks: Sequence[int]
    """Most blocks of full attention, and of the window."""


def stored() -> tuple[Played, ...]:
    """Return the rows that are kept."""
    return tuple(Played(*row) for row in json.loads(STORED.read_text(encoding="utf-8")))


def drawn(release: Version, count: int, seed: int = 5) -> Iterator[Played]:
    """Yield random requests, which nobody has served yet."""
    random = Random(f"{release} {seed}")
    for _ in range(count):
        window, drafts = random.choice(WINDOWS), random.choice(DRAFTS)
        yield Played(
            release=str(release),
            concurrent=random.choice((True, False)),
            draft_tokens=drafts,
            lookahead=bool(drafts) and random.choice((True, False)),
            block=random.choice(BLOCKS),
            window=window,
            prompt=random.choice([prompt for prompt in PROMPTS if not window or prompt <= window]),
            answer=random.choice(ANSWERS),
            length=random.choice(LENGTHS),
            blocks=(),
        )


def serve(python: Path, requests: Iterable[Played]) -> Iterator[Played]:
    """Yield the requests with the blocks that the release's scheduler gave them."""
    kept = tuple(requests)
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "questions.jsonl"), Path(folder, "answers.jsonl")
        source.write_text("".join(_question(row) + "\n" for row in kept), "utf-8")
        subprocess.run((python, DRIVER, source, target), check=True)  # noqa: S603 - the environment we made
        answers = [json.loads(line)["blocks"] for line in target.read_text("utf-8").splitlines()]
    for row, blocks in zip(kept, answers, strict=True):
        yield replace(row, blocks=blocks)


def _question(row: Played) -> str:
    names = ("concurrent", "draft_tokens", "lookahead", "block", "window", "prompt", "answer", "length")
    return json.dumps({**{name: getattr(row, name) for name in names}, "batched_tokens": BATCHED_TOKENS})


def main() -> int:
    """Serve, print and compare; with ``--write`` store."""
    parser = argparse.ArgumentParser(prog="tests.oracle.scheduling", description=__doc__)
    parser.add_argument("release", type=Version)
    parser.add_argument("--draw", type=int, default=0, metavar="N", help="serve N random requests as well")
    parser.add_argument("--python", type=Path, help="a Python that has the release, instead of installing it")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    rows, release = stored(), str(options.release)
    newest = max((row.release for row in rows), key=Version)
    own = [row for row in rows if row.release == release]
    asked = own or [replace(row, release=release, blocks=()) for row in rows if row.release == newest]
    asked += drawn(options.release, options.draw)
    try:
        python = options.python or prepare(options.release, print)
    except InstallationFailed as failure:
        print(failure)  # noqa: T201 - a command
        return 2
    served = list(serve(python, asked))
    differing = [(old, new) for old, new in zip(own, served, strict=False) if old != new]
    for old, new in differing:
        print(f"DIFFERS: {old}: {new.blocks}")  # noqa: T201 - a command
    print(f"vLLM {release}: {len(own) - len(differing)} of {len(own)} rows as stored, {len(served)} served")  # noqa: T201
    if options.write:
        kept = [*(row for row in rows if row.release != release), *served]
        kept.sort(key=lambda row: Version(row.release))
        STORED.write_text("[\n" + ",\n".join(json.dumps(astuple(row)) for row in kept) + "\n]\n", "utf-8")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
