"""The size of the work that a plan takes, which decides in which lane it waits."""

from collections.abc import Collection
from typing import Final

from service.advisor.plan_request import PlanRequest
from service.api.work_lanes import WorkSize
from service.application.plan_cost import expected_seconds

MOST_SMALL_SECONDS: Final = 0.05
"""Expected processor time of small work."""
MOST_MEDIUM_SECONDS: Final = 0.5


def work_size(request: PlanRequest, include: Collection[str] = ()) -> WorkSize:
    """Return the size of a plan's work; ``include``: parts of the answer."""
    seconds = expected_seconds(request, include)
    if seconds <= MOST_SMALL_SECONDS:
        return WorkSize.SMALL
    return WorkSize.MEDIUM if seconds <= MOST_MEDIUM_SECONDS else WorkSize.LARGE
