"""What people publish bounds what we may say about it."""

import pytest

from tests.advice.__main__ import score
from tests.advice.bounds import (
    FALSE_REFUSALS,
    FALSE_STARTS,
    MISTAKEN_CACHES,
    Board,
)
from tests.advice.judging import Judgement
from tests.advice.report import figures
from tests.advice.wrong import read_wrong
from tests.launch_command.test_rows import AHEAD

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def board() -> Board:
    return score(with_comparisons=False)


def test_every_command_is_judged(board: Board) -> None:
    ids = [each.row["id"] for each in board.judged]

    assert len(ids) == len(set(ids)) == 1279
    assert len([each for each in board.judged if each.judgement is not Judgement.NO_CONFIG]) >= 850


def test_no_command_that_somebody_ran_is_refused(board: Board) -> None:
    refused = {each.row["id"]: each.words for each in board.of(Judgement.FALSE_REFUSAL, good=True)}

    assert len(refused) <= FALSE_REFUSALS, refused


def test_no_published_failure_starts(board: Board) -> None:
    started = [each.row["id"] for each in board.of(Judgement.FALSE_START)]

    assert len(started) <= FALSE_STARTS, started


def test_published_failures_are_foreseen_and_not_only_doubted(board: Board) -> None:
    foreseen = {each.row["id"] for each in board.of(Judgement.FORESEEN)}

    # Two that do not fit, two whose experts cannot be cut: each by another check.
    assert {"r2574", "r2575", "r2576", "r2577"} <= foreseen


def test_no_other_16_bit_cache_is_recommended(board: Board) -> None:
    assert board.sweep.recommendations >= 230
    assert len(board.sweep.mistaken) <= MISTAKEN_CACHES, board.sweep.mistaken


def test_every_flag_is_sorted(board: Board) -> None:
    assert board.unknown_flags == ()
    assert {each.row["id"] for each in board.judged if each.command.faults} <= AHEAD


def test_every_excuse_is_needed(board: Board) -> None:
    assert board.unused == ()


def test_the_figures_count_every_row(board: Board) -> None:
    tiers = figures(board)["tiers"]

    assert sum(sum(counts.values()) for counts in tiers.values()) == len(board.judged)


def test_bytes_that_prove_a_recipe_wrong_exceed_the_budget() -> None:
    proven = [entry for entry in read_wrong() if entry.bytes]

    assert len(proven) >= 15
    for entry in proven:
        needed = sum(entry.bytes.get(term, 0) for term in ("weights", "cache", "other"))
        assert needed > entry.bytes["total"] * entry.bytes["share"], entry.reason


def test_every_excuse_has_a_proof_and_a_source() -> None:
    entries = read_wrong()
    ids = [name for entry in entries for name in entry.ids]

    assert len(ids) == len(set(ids))
    assert all(entry.reason and entry.proof and entry.source for entry in entries)
