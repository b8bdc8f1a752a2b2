"""The last results are found again, and no more are stored than is said, whatever threads ask."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from random import Random

from service.advisor.dry_runs.memo import LastResults

MOST = 40


@dataclass(frozen=True)
class Key:
    """Compared by Python, so that threads take turns within a look-up."""

    number: int


def test_at_least_half_of_the_last_results_are_found_again() -> None:
    last, made = LastResults[int](MOST), []

    def calculate(number: int) -> int:
        made.append(number)
        return number

    for _ in range(10):
        for number in range(MOST // 2):
            assert last.of(number, partial(calculate, number)) == number
    assert made == list(range(MOST // 2))


def test_a_result_that_is_asked_for_stays_while_others_come_and_go() -> None:
    last = LastResults[object](MOST)
    kept = last.of("kept", object)
    for number in range(10 * MOST):
        last.of(number, object)
        assert last.get("kept") is kept
        assert len(last) <= MOST
    assert last.get(0) is None


def test_threads_get_the_result_of_their_key() -> None:
    last = LastResults[int](MOST)

    def ask(seed: int) -> bool:
        random = Random(seed)
        numbers = (random.randrange(3 * MOST) for _ in range(20_000))
        return all(last.of(Key(each), partial(int, each)) == each for each in numbers)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(ask, range(4)))
    assert len(last) <= MOST + 4
