"""Routes that explain the types of problems."""

from typing import Annotated

from fastapi import Path

from service.api.errors import ProblemTypeNotFound
from service.api.paging import After, Limit, page_of
from service.api.problems.http_problem_types import PROBLEM_TYPES
from service.api.routes.route_list import RouteList
from service.application.problems.problem_type import ProblemType
from service.application.schemas.answers.problem import ProblemTypeAnswer, ProblemTypeList

router = RouteList(tags=["operations"])


@router.get("/problems", summary="List the problem types")
async def list_problems(limit: Limit = None, after: After = None) -> ProblemTypeList:
    """List every problem type with its explanation."""
    page = page_of(PROBLEM_TYPES, lambda kind: kind.slug, limit, after)
    return ProblemTypeList(problems=[_described(kind) for kind in page.items], next=page.next)


@router.get("/problems/{slug}", summary="Explain a problem type")
async def get_problem(
    slug: Annotated[str, Path(max_length=64, description="Name of the problem type")],
) -> ProblemTypeAnswer:
    """Explain the problem type that a problem's `type` names."""
    for kind in PROBLEM_TYPES:
        if kind.slug == slug:
            return _described(kind)
    raise ProblemTypeNotFound(slug)


def _described(kind: ProblemType) -> ProblemTypeAnswer:
    return ProblemTypeAnswer(
        type=kind.type, title=kind.title, status=kind.status, explanation=kind.explanation
    )
