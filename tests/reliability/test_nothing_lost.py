"""Every job that was acknowledged ends exactly once, and no result is lost or doubled."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from service.probes.job_state import State
from tests.reliability.campaign import Account, campaign

pytestmark = pytest.mark.slow


async def test_nothing_is_lost_when_services_and_workers_are_killed(
    database_url: str, tmp_path: Path
) -> None:
    account = await campaign(database_url, tmp_path, jobs=300, kills=10)
    assert account.faults() == []
    assert len(account.acknowledged) == 300
    assert account.kills == 10
    assert account.requeued > 0, "no kill found a worker at work"
    assert Counter(account.states.values())[State.SUCCEEDED] >= 290


WHOLE = Account({"k": "j"}, {"j": State.SUCCEEDED}, {"j": "{}"}, Counter({"j": 1}), 0, Counter({"j": 1}))


@pytest.mark.parametrize(
    "broken",
    [
        replace(WHOLE, states={"j": State.RUNNING}),
        replace(WHOLE, states={}, results={}),
        replace(WHOLE, ends=Counter({"j": 2})),
        replace(WHOLE, results={"j": None}),
        replace(WHOLE, acknowledged={"k": "j", "l": "j"}),
        replace(WHOLE, acknowledged={}),
        replace(WHOLE, states={"j": State.EXPIRED}),
    ],
)
def test_the_account_finds_faults(broken: Account) -> None:
    assert WHOLE.faults() == []
    assert broken.faults()
