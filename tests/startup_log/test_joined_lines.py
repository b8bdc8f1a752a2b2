"""Lines whose ends were lost are read as if they had them."""

import json
from pathlib import Path
from typing import Any, Final

import pytest

from service.startup_log.log import read_log
from service.startup_log.text.joined_lines import separated, separated_alone
from tests.explanation.shared_logs import DATA

FILES: Final = ("gathered.jsonl", "threads.jsonl", "messages.jsonl")
LINE: Final = "(EngineCore pid=7) ERROR 06-23 06:27:21 [core.py:1229]"


def _rows() -> list[dict[str, Any]]:
    return [
        json.loads(line) for name in FILES for line in (Path(DATA) / name).read_text("utf-8").splitlines()
    ]


def _named(text: str) -> str | None:
    failure = read_log(text).failure
    return None if failure is None or failure.cause is None else failure.cause.name


def test_a_text_whose_line_ends_became_blanks_keeps_its_cause() -> None:
    """A heading of Markdown is one by its line alone, and texts that begin with one are left out."""
    texts = [row["text"] for row in _rows() if row["cause"] and not row["text"].startswith("#")]
    known = [(text, cause) for text in texts if (cause := _named(text)) is not None]
    other = [text for text, cause in known if _named(" ".join(map(str.strip, text.split("\n")))) != cause]
    assert len(known) > 100
    assert len(other) <= len(known) // 25


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        (
            f'{LINE} Traceback (most recent call last): {LINE}   File "/x/a.py", line 3, in run {LINE} go()',
            [
                f"{LINE} Traceback (most recent call last):",
                f'{LINE}   File "/x/a.py", line 3, in run',
                f"{LINE} go()",
            ],
        ),
        (
            'Traceback (most recent call last): File "/x/a.py", line 3, in f g() ValueError: no room',
            [
                "Traceback (most recent call last):",
                'File "/x/a.py", line 3, in f',
                "g()",
                "ValueError: no room",
            ],
        ),
        (
            "vllm-1  | INFO 10-28 03:08:35 [a.py:776] Waiting vllm-1  | (EngineCore pid=80) KeyError: 'x'",
            [
                "vllm-1  | INFO 10-28 03:08:35 [a.py:776] Waiting",
                "vllm-1  | (EngineCore pid=80) KeyError: 'x'",
            ],
        ),
    ],
)
def test_each_line_begins_with_what_a_log_puts_before_it(line: str, parts: list[str]) -> None:
    assert separated(line) == parts


@pytest.mark.parametrize(
    "line",
    [
        f"{LINE} RuntimeError: Worker failed with error 'ValueError: no room', see above",
        f"2026-06-23T06:27:21.123Z vllm-1  | (Worker pid=9) {LINE} EngineCore failed to start.",
        'WARNING 06-23 06:27:21 [a.py:1] Failed to import vllm._C: ImportError("libcuda.so.1: not found")',
        '  File "/x/site-packages/vllm/v1/engine/core.py", line 1229, in run_engine_core',
        "",
    ],
)
def test_a_line_of_its_own_stays_one(line: str) -> None:
    assert separated(line) == [line]


def test_in_a_text_of_one_line_an_exception_begins_a_line() -> None:
    command = "docker run --gpus all vllm/vllm-openai:latest --model /m --trust-remote-code -tp 2 --seed 0"
    assert separated_alone(f"{command}  RuntimeError: Error 804") == [command, "RuntimeError: Error 804"]
    refused = "vllm: error: unrecognized arguments: --x"
    assert separated_alone(f"{command} but it says: {refused}") == [f"{command} but it says:", refused]
    said = "RuntimeError: Engine core initialization failed: ValueError: no room for the cache of one request"
    assert separated_alone(said) == [said]
