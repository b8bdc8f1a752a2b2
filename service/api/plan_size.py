"""The size of the work that a plan takes, which decides in which lane it waits."""

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from service.advisor.request.plan_request import PlanRequest
from service.api.work_lanes import WorkSize
from service.application.plans.plan_cost import expected_seconds
from service.engines_compared.engine_choice import EnginesQuestion
from service.engines_compared.gguf_plan import GgufQuestion

MOST_SMALL_SECONDS: Final = 0.05
"""Expected processor time of small work."""
MOST_MEDIUM_SECONDS: Final = 0.5


def work_size(request: PlanRequest, include: Collection[str] = ()) -> WorkSize:
    """Return the size of a plan's work; ``include``: parts of the answer."""
    seconds = expected_seconds(request, include)
    if seconds <= MOST_SMALL_SECONDS:
        return WorkSize.SMALL
    return WorkSize.MEDIUM if seconds <= MOST_MEDIUM_SECONDS else WorkSize.LARGE


def engines_work_size(question: EnginesQuestion | GgufQuestion) -> WorkSize:
    """Return the size of the work of other engines; llama.cpp alone has GGUF weights."""
    if isinstance(question, GgufQuestion):
        return WorkSize.SMALL if len(question.gpus) == 1 else WorkSize.MEDIUM
    return work_size(replace(question.request, search=False))
