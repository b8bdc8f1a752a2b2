"""Explanations of whole logs and excerpts from public places, held against what a person found in each."""

import json
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests.explanation.shared_logs import DATA, Scored, explained, read_shared

SILENT = {"i17337": "the pasted text stops before the exception"}
"""Texts that do not hold the reason of their failure, and why."""
GATHERED = {"gathered.jsonl": 48, "threads.jsonl": 77, "messages.jsonl": 62}
"""Texts of public threads, each with the cause that a person found before the text was explained."""


@cache
def scored(name: str) -> tuple[Scored, ...]:
    return tuple(explained(log) for log in read_shared(Path(DATA) / name))


@pytest.mark.parametrize("name", ["shared.jsonl.gz", "gathered.jsonl", "threads.jsonl"])
def test_every_failure_is_shown(name: str) -> None:
    wrong = {each.log.id: each.verdict for each in scored(name) if each.verdict in {"silent", "wrong cause"}}
    assert wrong == {}


def test_every_catalogued_cause_is_named() -> None:
    shown = {each.log.id for each in scored("shared.jsonl.gz") if each.verdict == "shown"}
    assert shown == SILENT.keys()


def test_no_good_start_is_called_a_failure() -> None:
    good = [each for each in scored("shared.jsonl.gz") if each.log.outcome == "ok"]
    assert len(good) >= 15
    assert [each.log.id for each in good if each.verdict != "good"] == []


def test_nothing_is_called_different_that_is_not() -> None:
    assert {each.log.id: each.disagreements for each in scored("shared.jsonl.gz") if each.disagreements} == {}


def test_most_texts_that_name_a_model_are_planned_as_pasted() -> None:
    named = [each for each in scored("shared.jsonl.gz") if each.log.model]
    assert len(named) >= 40
    assert sum(each.planned for each in named) >= 0.6 * len(named)


@pytest.mark.parametrize(("name", "count"), GATHERED.items())
def test_nine_in_ten_of_the_gathered_causes_are_right(name: str, count: int) -> None:
    named = [each for each in scored(name) if each.verdict == "named"]
    assert len(scored(name)) == count
    assert len(named) >= 0.9 * count


def test_a_text_comes_from_a_thread_of_its_own() -> None:
    rows = [json.loads(line) for name in GATHERED for line in (DATA / name).read_text("utf-8").splitlines()]
    sources = Counter(row["source"] for row in rows)
    assert [source for source, count in sources.items() if count > 1] == []


def test_a_failed_start_between_two_good_ones_is_found() -> None:
    text = next(each for each in scored("shared.jsonl.gz") if each.log.id == "i16141")
    ending = text.explanation.ending

    assert text.explanation.log.starts == 3
    assert ending is not None
    assert (ending.start, ending.line, ending.earlier) == (2, 172, True)


def test_an_engine_that_died_later_had_started() -> None:
    died = [each for each in scored("shared.jsonl.gz") if each.log.outcome == "ok-then-died"]
    endings = {each.log.id: each.explanation.ending for each in died}

    assert len(endings) >= 4
    assert {name for name, ending in endings.items() if ending is None or ending.cause is None} == set()
    assert {name for name in ("p03", "p14", "p25") if not endings[name].serving} == set()  # type: ignore[union-attr]


def test_memory_that_is_short_while_loading_is_not_cured_by_a_lower_utilization() -> None:
    ending = next(each for each in scored("shared.jsonl.gz") if each.log.id == "p44").explanation.ending

    assert ending is not None
    assert (ending.cause, ending.reached) == ("out_of_memory", "loading")
    assert "changes nothing here" in ending.remedy
