"""Writes which config classes take no null for a field, as installed releases answer (``null_fields.toml``).

``python -m tests.oracle.null_fields 0.14.0=0.20.2 0.22.0=0.26.0 0.31.0=0.33.0`` asks 0.20.2, 0.26.0 and
0.33.0 (``null_fields_driver.py``) and dates what they say by the releases before the signs: the first ones
that came with such classes. Each is installed below ``.oracle`` as ``make oracle`` does it, unless
``--python 0.33.0=PATH`` names a Python that has it. Asked are the types of ``config_classes.toml``.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from packaging.version import Version

from service.architecture.readers.fields.config_classes import DATA as CONFIG_CLASSES
from service.architecture.text_part import CHECKED
from service.bundled_toml import read_toml
from service.engine_config.null_fields import DATA
from tests.oracle.arguments import listed
from tests.oracle.environment import InstallationFailed, prepare

DRIVER: Final = Path(__file__).with_name("null_fields_driver.py")
TARGET: Final = Path(__file__).parents[2] / "service" / "engine_config" / DATA
HEAD: Final = """\
# What config classes make of a field that is null, which most configs leave out instead.
# `typed`: types of configs of which the library refuses a null field, by the field, since a release; `taken`:
# what it refused before and no longer does.
# `key_heads`: types of which it leaves a null number of key heads as it is, which the engine refuses;
# `absent`: an absent one, too. An entry takes the place of the one before.
# Each class was made of its defaults with such a field. Written by tests/oracle/null_fields.py; do not edit.
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one release said, and since which release its classes are these."""

    since: Version
    asked: Version
    transformers: str
    typed: frozenset[tuple[str, str]]
    """Fields, and the types of configs that take no null there."""
    null_key_heads: tuple[str, ...]
    absent_key_heads: tuple[str, ...]

    @classmethod
    def parse(cls, since: Version, asked: Version, raw: Mapping[str, Any]) -> Self:
        """Read what the driver wrote."""
        typed = frozenset((field, name) for field, names in raw["typed"].items() for name in names)
        null, absent = (tuple(sorted(raw[f"{kind}_key_heads"])) for kind in ("null", "absent"))
        return cls(since, asked, raw["transformers"], typed, null, absent)

    @property
    def source(self) -> str:
        """Return where the answer is from."""
        return f'source = "vLLM {self.since} with transformers {self.transformers}; asked of {self.asked}"'


def ask(python: Path) -> Mapping[str, Any]:
    """Return what the release of a Python answers."""
    types = sorted(read_toml("service.architecture.readers.fields", CONFIG_CLASSES)["classes"])
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "question.json"), Path(folder, "answer.json")
        source.write_text(json.dumps({"types": types, "fields": sorted(CHECKED)}), "utf-8")
        subprocess.run((python, DRIVER, source, target), check=True)  # noqa: S603 - the environment we made
        found: Mapping[str, Any] = json.loads(target.read_text("utf-8"))
        return found


def write(answers: Sequence[Answer]) -> Iterator[str]:
    """Yield the lines of the table, oldest release first."""
    yield from HEAD.splitlines()
    before: frozenset[tuple[str, str]] = frozenset()
    for answer in answers:
        added, taken = answer.typed - before, before - answer.typed
        if added or taken:
            yield from ("", "[[typed]]", f'since = "{answer.since}"', answer.source)
            yield from _by_field("fields", added)
            yield from _by_field("taken", taken)
        before = answer.typed
    heads: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    for answer in answers:
        if (answer.null_key_heads, answer.absent_key_heads) != heads:
            yield from ("", "[[key_heads]]", f'since = "{answer.since}"', answer.source)
            yield from _array("types", answer.null_key_heads)
            if answer.absent_key_heads:
                yield from _array("absent", answer.absent_key_heads)
        heads = answer.null_key_heads, answer.absent_key_heads


def _by_field(table: str, pairs: frozenset[tuple[str, str]]) -> Iterator[str]:
    if pairs:
        yield f"[typed.{table}]"
    for field in sorted({field for field, _ in pairs}):
        yield from _array(field, sorted(name for of, name in pairs if of == field))


def _array(name: str, members: Sequence[str]) -> Iterator[str]:
    yield from (f"{name} = [", *listed(members), "]")


def pair(text: str) -> tuple[str, str]:
    """Return the two sides of an equals sign."""
    left, sign, right = text.partition("=")
    if not (left and sign and right):
        raise argparse.ArgumentTypeError(f"{text}: two parts with = between them are needed")
    return left, right


def main() -> None:
    """Ask the releases, and write the table."""
    parser = argparse.ArgumentParser(prog="tests.oracle.null_fields", description=__doc__)
    parser.add_argument("releases", type=pair, nargs="+", metavar="SINCE=ASKED")
    parser.add_argument("--python", type=pair, action="append", default=[], metavar="ASKED=PATH")
    options = parser.parse_args()
    named = dict(options.python)
    answers = []
    for since, asked in sorted(options.releases, key=lambda each: Version(each[0])):
        try:
            python = Path(named[asked]) if asked in named else prepare(Version(asked), print)
        except InstallationFailed as failure:
            sys.exit(str(failure))
        answers.append(Answer.parse(Version(since), Version(asked), ask(python)))
    TARGET.write_text("\n".join(write(answers)) + "\n", "utf-8")


if __name__ == "__main__":
    main()
