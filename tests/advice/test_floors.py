"""Recommendations unlike those of experts break the scoreboard."""

from service.advisor.candidates.advice import Step
from tests.advice.bounds import BOTH, Board, broken
from tests.advice.recommended import Compared, Comparison, Layout
from tests.advice.sweep import Sweep

THEIRS = (Layout(4, 1, 1, "auto", None),)


def _board(ours: Layout, *, usual: bool = True, unlike: int = 100) -> Board:
    """Return a board of 100 questions, of which so many have our own answer and the others the experts'."""
    like = Compared("like", THEIRS[0], THEIRS, step=Step.FULL_LENGTH)
    other = Compared("unlike", ours, THEIRS, step=Step.SHORTER_LENGTH, usual=usual)
    compared = (*[other] * unlike, *[like] * (100 - unlike))
    comparison = Comparison("without a workload", compared, {})
    return Board((), (comparison,), Sweep(0, 0, (), 0, ()), ())


def test_answers_of_experts_break_nothing() -> None:
    assert list(broken(_board(THEIRS[0]))) == []


def test_too_many_other_counts_of_gpus_break_it() -> None:
    most = 100 - BOTH["without a workload"]
    two = Layout(2, 1, 1, "auto", None)

    assert list(broken(_board(two, unlike=most))) == []
    assert any("GPUs and cache dtype both" in words for words in broken(_board(two, unlike=most + 1)))


def test_other_caches_and_caches_that_nobody_runs_break_it() -> None:
    dense = Layout(4, 1, 1, "int4_per_token_head", None)

    assert any("same cache dtype" in words for words in broken(_board(dense, unlike=15)))
    assert any("unusual caches" in words for words in broken(_board(dense, usual=False, unlike=2)))
    assert not any("unusual caches" in words for words in broken(_board(dense, usual=False, unlike=1)))


def test_steps_are_counted() -> None:
    (comparison,) = _board(THEIRS[0], unlike=30).comparisons

    assert comparison.steps() == {"full_length": 70, "shorter_length": 30}
    assert comparison.share("same GPUs") == 100
