"""The screens of a plan: what each needs of the plan, and what shows it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from markupsafe import Markup

from service.advisor.candidates.plan_types import Plan
from service.advisor.request.plan_request import PlanRequest
from service.web.questions.page_question import PageQuestion
from service.web.screens.answer_screen import answer_screen
from service.web.screens.context_screen import context_screen
from service.web.screens.heat_map import gpus_screen
from service.web.screens.model_screen import model_screen
from service.web.screens.pages_screen import pages_screen
from service.web.screens.releases_screen import releases_screen
from service.web.screens.speed_screen import speed_screen
from service.web.standalone import stacked

Prepare: TypeAlias = Callable[[PlanRequest], PlanRequest]
View: TypeAlias = Callable[[Plan, PageQuestion], Any]


@dataclass(frozen=True, slots=True)
class Screen:
    """One screen."""

    name: str
    label: str
    view: View
    """Returns the values that its template shows."""
    one_gpu: bool | None = True
    """Whether it shows the plan of one GPU type, or of several; ``None`` where that does not matter."""
    prepare: Prepare = lambda request: request
    """Adds to a request what the screen needs."""
    drawing: Callable[[Any], Markup] | None = None
    """Returns the drawing that can be exported, from the view."""
    rows: Callable[[Any], list[list[str]]] | None = None
    """Returns the table that can be exported, from the view; the first row has the names of columns."""

    def suits(self, gpus: int) -> bool:
        """Whether it can show the plan of so many GPU types."""
        return self.one_gpu is None or self.one_gpu == (gpus == 1)

    @property
    def template(self) -> str:
        """Name of its template."""
        return f"{self.name}.html"


def _with_levers(request: PlanRequest) -> PlanRequest:
    return replace(request, with_levers=True)


ANSWER: Final = Screen(
    "answer",
    "Answer",
    answer_screen,
    prepare=_with_levers,
    drawing=lambda view: view.bar,
    rows=lambda view: view.table,
)
PAGES: Final = Screen(
    "pages",
    "Pages and groups",
    pages_screen,
    drawing=lambda view: stacked(view.blocks, view.request),
    rows=lambda view: view.table,
)
CONTEXT: Final = Screen(
    "context",
    "Context",
    context_screen,
    drawing=lambda view: view.drawing,
    rows=lambda view: view.table,
)
SPEED: Final = Screen(
    "speed",
    "Speed and cost",
    speed_screen,
    drawing=lambda view: stacked(view.speeds, view.costs),
    rows=lambda view: view.table,
)
RELEASES: Final = Screen(
    "releases",
    "Releases",
    releases_screen,
    drawing=lambda view: view.drawing,
    rows=lambda view: view.table,
)
MODEL: Final = Screen(
    "model",
    "Model",
    model_screen,
    one_gpu=None,
    drawing=lambda view: view.drawing,
    rows=lambda view: view.table,
)
GPUS: Final = Screen("gpus", "GPU types", gpus_screen, one_gpu=False, rows=lambda view: view.table)
SCREENS: Final[Mapping[str, Screen]] = {
    each.name: each for each in (GPUS, ANSWER, PAGES, CONTEXT, SPEED, RELEASES, MODEL)
}


def screen_for(question: PageQuestion, gpus: int) -> Screen:
    """Return the screen that a question names, or the first that suits a number of GPU types."""
    fitting = [each for each in SCREENS.values() if each.suits(gpus)]
    named = SCREENS.get(question.value("view"))
    return named if named in fitting else (fitting or [ANSWER])[0]
