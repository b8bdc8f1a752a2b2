"""Whatever workers, clients and clocks do, a job ends once, and only by the table."""

from dataclasses import replace

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from service.probes import lifecycle
from service.probes.job_spec import Inventory, JobSpec
from service.probes.job_state import (
    ENDED,
    HELD,
    TRANSITIONS,
    State,
)
from service.probes.lifecycle import (
    Job,
    JobEnding,
    Lease,
    LeaseLost,
    ResultConflict,
)
from service.probes.limits import LEASE_SECONDS, MAX_ATTEMPTS

START = 1_000_000.0
JOB = Job("j1", JobSpec(Inventory()), State.QUEUED, START, START, START + lifecycle.QUEUE_SECONDS)
WORKERS = st.sampled_from(["red", "green", "blue"])
ENDINGS = st.builds(
    lambda state, text: JobEnding(state, text, f"digest of {state} {text}"),
    st.sampled_from([State.SUCCEEDED, State.FAILED, State.REFUSED, State.CANCELLED]),
    st.sampled_from(["a", "b"]),
)


class Lives(RuleBasedStateMachine):
    """One job among workers that die, come back, send twice and forge, under a clock that jumps."""

    @initialize()
    def begin(self) -> None:
        self.now = START
        self.job = JOB
        self.seen = [JOB]
        self.handed_out: list[Lease] = []
        self.acknowledged: list[tuple[Lease, JobEnding]] = []

    def _becomes(self, job: Job) -> None:
        if job.state is not self.job.state:
            assert job.state in TRANSITIONS[self.job.state]
        self.job = job
        self.seen.append(job)

    @rule(seconds=st.floats(min_value=-7200, max_value=7200))
    def clock_jumps(self, seconds: float) -> None:
        self.now += seconds

    @rule(worker=WORKERS)
    def lease(self, worker: str) -> None:
        if self.job.state is State.QUEUED:
            self._becomes(lifecycle.leased(self.job, worker, self.now))
            self.handed_out.append(Lease(worker, self.job.fence))

    @rule(data=st.data())
    def beat(self, data: st.DataObject) -> None:
        lease = self._any_lease(data)
        current = self._is_held_by(lease)
        try:
            self._becomes(lifecycle.heartbeat(self.job, lease, "measuring", self.now))
        except LeaseLost:
            assert not current
        else:
            assert current

    @rule(data=st.data(), ending=ENDINGS)
    def end(self, data: st.DataObject, ending: JobEnding) -> None:
        lease = self._any_lease(data)
        current = self._is_held_by(lease)
        specified = dict(self.acknowledged)
        try:
            self._becomes(lifecycle.finished(self.job, lease, ending, self.now))
        except LeaseLost:
            assert not current
            assert lease not in specified
        except ResultConflict:
            assert specified[lease] != ending
        else:
            assert current or specified.get(lease) == ending
            self.acknowledged.append((lease, ending))

    @rule()
    def cancel(self) -> None:
        self._becomes(lifecycle.cancelled(self.job, self.now))

    @rule()
    def sweep(self) -> None:
        self._becomes(lifecycle.after_expiry(self.job, self.now))

    def _any_lease(self, data: st.DataObject) -> Lease:
        forged = Lease("red", self.job.fence + 1), Lease("nobody", self.job.fence)
        return data.draw(st.sampled_from([*self.handed_out, *forged]))

    def _is_held_by(self, lease: Lease) -> bool:
        latest = self.handed_out[-1] if self.handed_out else None
        return lease == latest and self.job.state in HELD and self.now < self.job.expires_at

    @invariant()
    def an_end_is_final(self) -> None:
        ends = [job for job in self.seen if job.ended]
        assert all(job == ends[0] for job in ends)

    @invariant()
    def only_one_result_was_ever_acknowledged(self) -> None:
        assert len({ending.digest for _, ending in self.acknowledged}) <= 1
        assert all(ending.digest == self.job.result_digest for _, ending in self.acknowledged)

    @invariant()
    def fences_grow_with_every_lease(self) -> None:
        fences = [lease.fence for lease in self.handed_out]
        assert fences == list(range(1, len(fences) + 1))
        assert self.job.attempts <= MAX_ATTEMPTS


TestLives = Lives.TestCase


@pytest.mark.parametrize("before", State)
@pytest.mark.parametrize("after", State)
def test_only_the_table_moves_a_job(before: State, after: State) -> None:
    job = replace(JOB, state=before, worker="red", fence=1, expires_at=START + 10)
    allowed = after in TRANSITIONS[before]
    if after in {State.SUCCEEDED, State.FAILED, State.REFUSED}:
        ending = JobEnding(after, "{}", "d")
        if allowed:
            assert lifecycle.finished(job, Lease("red", 1), ending, START).state is after
        else:
            with pytest.raises(LeaseLost):
                lifecycle.finished(job, Lease("red", 1), ending, START)
    if after is State.LEASED and not allowed:
        with pytest.raises(ValueError, match="cannot go"):
            lifecycle.leased(job, "red", START)


def test_every_state_can_be_reached_and_left_or_is_an_end() -> None:
    reached = {State.QUEUED, *(after for many in TRANSITIONS.values() for after in many)}
    assert reached == set(State)
    assert {State.SUCCEEDED, State.FAILED, State.REFUSED, State.CANCELLED, State.EXPIRED} == ENDED


def test_a_lost_worker_gives_a_job_one_more_chance() -> None:
    first = lifecycle.leased(JOB, "red", START)
    again = lifecycle.after_expiry(first, START + LEASE_SECONDS)
    assert (again.state, again.attempts) == (State.QUEUED, 1)
    second = lifecycle.leased(again, "green", START + 70)
    assert lifecycle.after_expiry(second, START + 70 + LEASE_SECONDS).state is State.EXPIRED


def test_a_late_result_counts_for_nothing_even_before_it_is_swept() -> None:
    held = lifecycle.leased(JOB, "red", START)
    with pytest.raises(LeaseLost):
        lifecycle.finished(
            held, Lease("red", 1), JobEnding(State.SUCCEEDED, "{}", "d"), START + LEASE_SECONDS
        )


def test_a_cancelled_job_whose_worker_is_lost_is_not_run_again() -> None:
    held = lifecycle.cancelled(lifecycle.leased(JOB, "red", START), START + 1)
    assert (held.state, held.cancel_requested) == (State.LEASED, True)
    assert lifecycle.after_expiry(held, START + 100).state is State.CANCELLED


def test_a_job_in_the_hands_of_nobody_cannot_be() -> None:
    with pytest.raises(ValueError, match="has no worker"):
        replace(JOB, state=State.RUNNING)
