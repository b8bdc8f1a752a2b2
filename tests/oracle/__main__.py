"""Ask a release of vLLM itself, and compare with what we say.

``make oracle RELEASE=0.32.0`` installs the release into an environment of its own below ``.oracle``, builds
its spec classes from our layers of every bundled model, and lets its own functions plan the cache. It exits
with 1 where an answer differs from ours. It takes for granted what comes before there are specs: flags,
attention backends and block sizes, which ``make accuracy`` replays. With ``--admission N`` it asks the
release's own block pool about N random workloads instead: what each prompt must find free, what it holds,
and how many are let in.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from packaging.version import Version
from rich.console import Console
from rich.table import Table

from service.engines.releases import UnknownRelease, find_release
from tests.oracle.admission import admission_questions, row_of
from tests.oracle.comparison import Verdict, compare
from tests.oracle.environment import InstallationFailed, prepare
from tests.oracle.questions import Question, questions

DRIVER: Final = Path(__file__).with_name("driver.py")
ADMISSION_DRIVER: Final = Path(__file__).with_name("admission_driver.py")


def modelled(text: str) -> Version:
    """Return the release that an argument names."""
    try:
        return find_release(text)
    except UnknownRelease as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def ask(python: Path, requested: Sequence[Question], driver: Path = DRIVER) -> Iterator[Mapping[str, Any]]:
    """Yield what the release whose Python is given answers to each question."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "questions.jsonl"), Path(folder, "answers.jsonl")
        source.write_text("".join(json.dumps(question.requested) + "\n" for question in requested), "utf-8")
        subprocess.run((python, driver, source, target), check=True)  # noqa: S603 - the environment we made
        with target.open(encoding="utf-8") as answers:
            yield from map(json.loads, answers)


def table(title: str, verdicts: Sequence[Verdict], key: Callable[[Verdict], str]) -> Table:
    """Return questions and agreements by some key."""
    counts: dict[str, Counter[bool]] = defaultdict(Counter)
    for verdict in verdicts:
        counts[key(verdict)][verdict.difference is None] += 1
    grid = Table(title=title, title_justify="left")
    for heading in (title, "asked", "agree", "differ"):
        grid.add_column(heading, justify="left" if heading == title else "right")
    for name, count in sorted(counts.items()):
        grid.add_row(name, str(count.total()), str(count[True]), str(count[False]))
    return grid


def report(console: Console, release: Version, verdicts: Sequence[Verdict], unasked: int) -> bool:
    """Print what was found; return whether something was asked and all of it agrees."""
    console.print(table("cache dtype", verdicts, lambda v: str(v.question.case.flags.kv_cache_dtype)))
    console.print(table("the engine", verdicts, lambda v: v.outcome))
    differing = [verdict for verdict in verdicts if verdict.difference is not None]
    for verdict in differing:
        console.print(
            f"{verdict.question.title}: {verdict.difference}", markup=False, highlight=False, soft_wrap=True
        )
    console.print(
        f"vLLM {release}: {len(verdicts) - len(differing)} of {len(verdicts)} answers agree in every field; "
        f"{unasked} more questions end before there are layers, or are not modelled"
    )
    return bool(verdicts) and not differing


def main() -> None:
    """Ask, compare and print."""
    parser = argparse.ArgumentParser(prog="tests.oracle", description=__doc__)
    parser.add_argument("release", type=modelled, help="a release that is modelled")
    parser.add_argument("--models", default="", metavar="TEXT", help="only models whose name holds TEXT")
    parser.add_argument("--admission", type=int, default=0, metavar="N", help="ask about N random workloads")
    parser.add_argument("--python", type=Path, help="a Python that has the release, instead of installing it")
    parser.add_argument(
        "--write", type=Path, metavar="FILE", help="store questions and answers, one row a line"
    )
    options = parser.parse_args()
    console = Console(width=160)
    try:
        python = options.python or prepare(options.release, console.print)
    except InstallationFailed as failure:
        sys.exit(str(failure))
    if options.admission:
        found, driver = list(admission_questions(options.release, options.admission)), ADMISSION_DRIVER
    else:
        found, driver = list(questions(options.release, options.models)), DRIVER
    requested = [question for question in found if question is not None]
    answers = ask(python, requested, driver)
    verdicts = [compare(question, theirs) for question, theirs in zip(requested, answers, strict=True)]
    if options.write is not None:
        kept = (row_of(verdict) if options.admission else verdict.row for verdict in verdicts)
        rows = ({"engine_version": str(options.release), **row} for row in kept)
        options.write.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    sys.exit(not report(console, options.release, verdicts, len(found) - len(requested)))


if __name__ == "__main__":
    main()
