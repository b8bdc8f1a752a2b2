"""A failure is the same whatever wrote its log down: collectors, services, pagers, people."""

import json
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from service.startup_log.log import read_log
from tests.explanation.shared_logs import DATA

Form = Callable[[list[str]], Iterable[str]]


def _before(prefix: str) -> Form:
    return lambda lines: [f"{prefix}{line}" for line in lines]


def _as_json(member: str) -> Form:
    return lambda lines: [json.dumps({"time": 1747213807, member: line}) for line in lines]


FORMS: Final[dict[str, Form]] = {
    "compose": _before("my-vllm_server-1  | "),
    "journal": _before("May 14 09:10:07 gpu-node-3 vllm[12345]: "),
    "kubectl --prefix": _before("[pod/vllm-7d9f-abcde/vllm] "),
    "kubectl --timestamps": _before("2026-05-14T09:10:07.123456789Z "),
    "ray": _before("(RayWorkerWrapper pid=4711, ip=10.0.0.4) "),
    "srun --label": _before("0: "),
    "pm2": _before("0|vllm     | "),
    "citation": _before("> "),
    "indented": _before("    "),
    "windows": lambda lines: [f"{line}\r" for line in lines],
    "google cloud": _as_json("textPayload"),
    "docker's file": _as_json("log"),
    "cloudwatch": _as_json("message"),
    "logfmt": lambda lines: [
        f'time="2026-05-14T09:10:07Z" level=info msg={json.dumps(line)}' for line in lines
    ],
    "csv": lambda lines: ['1747213807123,"{}"'.format(line.replace('"', '""')) for line in lines],
    "cat -n": lambda lines: [f"{number:6}\t{line}" for number, line in enumerate(lines, 1)],
    "one line of json": lambda lines: [json.dumps({"log": "\n".join(lines)})],
    "newest first": lambda lines: [
        f"2026-05-14T09:{at // 60 % 60:02}:{at % 60:02}.000001Z {line}" for at, line in enumerate(lines)
    ][::-1],
    "three times": lambda lines: [*lines, *lines, *lines],
}


def _named(text: str) -> str | None:
    failure = read_log(text).failure
    return None if failure is None or failure.cause is None else failure.cause.name


@cache
def _texts() -> Sequence[tuple[str, str]]:
    """Return texts with the cause that is named in them.

    Headings of Markdown are none in other forms: texts that begin with one are left out.
    """
    rows = map(json.loads, (Path(DATA) / "gathered.jsonl").read_text("utf-8").splitlines())
    texts = [row["text"].rstrip() for row in rows if row["cause"] and not row["text"].startswith("#")]
    return [(text, cause) for text in texts if (cause := _named(text)) is not None]


@pytest.mark.parametrize("form", FORMS)
def test_the_cause_stays_in_another_form(form: str) -> None:
    known = _texts()
    other = [text for text, cause in known if _named("\n".join(FORMS[form](text.split("\n")))) != cause]
    assert len(known) > 30
    assert len(other) <= 1
