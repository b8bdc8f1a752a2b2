"""What a plan costs: processor time that a request is expected to take, before anything is calculated.

The figures are means over the bundled models on one core of a server (2026); a request is only put into a
class of size by them, so they need not be exact.
"""

from collections.abc import Collection
from typing import Final

from service.advisor.request.plan_request import PlanRequest

START_SECONDS: Final = 0.003
"""One start on one GPU type, with its fixes."""
SEARCH_SECONDS: Final = 0.025
"""All candidates on one GPU type."""
LEVERS_SECONDS: Final = 0.04
DETAILS_SECONDS: Final = 0.005
"""Writing all parts of all candidates of one GPU type."""
UPGRADE_SECONDS: Final = 0.1
"""Comparing two releases on one GPU type."""


def expected_seconds(request: PlanRequest, include: Collection[str]) -> float:
    """Return the processor time that a plan and its answer should take; ``include``: parts of the answer."""
    flags = request.serve
    pinned = flags.tensor_parallel_size is not None and flags.kv_cache_dtype is not None
    each = SEARCH_SECONDS if request.search and not pinned else START_SECONDS
    each += LEVERS_SECONDS if request.with_levers else 0
    each += DETAILS_SECONDS if {"details", "candidates", "cache", "memory"} & set(include) else 0
    each += UPGRADE_SECONDS * max(0, len(request.engine.compared) - 1)
    return len(request.gpus) * each
