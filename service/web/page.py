"""Whole pages as HTML."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from service import __version__
from service.advisor.candidates.plan_types import Plan
from service.application.schemas.answers.problem import Problem
from service.application.schemas.probes.probe import ProbeAnswer
from service.explanation.explanation_types import Explanation
from service.units import gib_text
from service.web.assets import asset_link
from service.web.figures import plain, plain_lines
from service.web.plan_screens import SCREENS, Screen
from service.web.questions.examples import EXAMPLES
from service.web.questions.page_question import PageQuestion
from service.web.questions.question_form import QuestionForm, parameter_at
from service.web.screens.log_screen import log_screen
from service.web.screens.probes_screen import probes_screen
from service.web.unbroken_flags import unbroken_flags

PAGES: Final = (("Plan", "."), ("Log", "log"), ("Probes", "probes"))
"""Pages that every page links to."""


@dataclass(frozen=True, slots=True)
class ScreenLink:
    """A tab."""

    name: str
    label: str
    link: str
    """Empty where the plan has no such screen."""
    why: str = ""


@dataclass(frozen=True, slots=True)
class Export:
    """A way to take what is shown elsewhere."""

    name: str
    link: str
    file: str = ""
    css: str = ""


@dataclass(frozen=True, slots=True)
class ProblemText:
    """What is wrong with a question."""

    title: str
    detail: str
    faults: tuple[tuple[str, str], ...]
    """Parameters at fault, each with what is wrong."""
    nearest: tuple[tuple[str, str], ...]
    """Nearest valid names, each with the question that has it; empty where that is not known."""


def start_page(form: QuestionForm) -> str:
    """Return the page with the form alone."""
    return _render("start.html", title="dryserve", page="Plan", form=form, examples=EXAMPLES)


def plan_page(plan: Plan, screen: Screen, question: PageQuestion, form: QuestionForm) -> str:
    """Return the page of a plan."""
    view = screen.view(plan, question)
    return _render(
        "plan.html",
        title=f"{plain(plan.model.id)} · {screen.label} · dryserve",
        page="Plan",
        form=form,
        heading=plain(plan.verdict),
        subject=_subject(plan),
        doubts=[each for each in (plan.engine.doubt, plan.model.note) if each],
        screens=tuple(_tabs(plan, question)),
        screen=screen.name,
        template=screen.template,
        view=view,
        question=question,
        pages_link=question.changed(view="pages").link() if "pages" in SCREENS else "",
        exports=tuple(_exports(screen, question)),
    )


def log_page(beside: PageQuestion, text: str = "", explanation: Explanation | None = None) -> str:
    """Return the page of a log: the form alone, or with the explanation of a text."""
    view = None if explanation is None else log_screen(explanation, text)
    title = "Log · dryserve" if view is None else f"{view.headline} · dryserve"
    return _render(
        "log.html", title=title, page="Log", beside=beside, text=plain_lines(text), view=view, problem=None
    )


def log_problem_page(problem: Problem, beside: PageQuestion, text: str) -> str:
    """Return the page that says why a log cannot be explained."""
    title = f"{problem.title} · dryserve"
    return _render(
        "log.html", title=title, page="Log", beside=beside, text=plain_lines(text), view=None, problem=problem
    )


def probes_page(probes: Sequence[ProbeAnswer] | None) -> str:
    """Return the page of probes, the newest first; ``None`` where the caller may not see them."""
    view = None if probes is None else probes_screen(probes)
    return _render("probes.html", title="Probes · dryserve", page="Probes", view=view)


def problem_page(problem: Problem, question: PageQuestion, form: QuestionForm) -> str:
    """Return the page that says what is wrong with a question."""
    errors = [(parameter_at(each.pointer), each) for each in problem.errors or ()]
    faults = tuple((name, each.detail) for name, each in errors)
    places = [(name, near) for name, each in errors for near in each.nearest or ()]
    # What a repository of the Hub lacks has no place in the body.
    named = next((name for name, _ in errors), "model")
    alike = places or [(named, near) for near in problem.nearest or ()]
    nearest = tuple((near, _with(question, name, near)) for name, near in alike)
    text = ProblemText(problem.title, problem.detail, faults, nearest)
    return _render("problem.html", title=f"{problem.title} · dryserve", page="Plan", form=form, problem=text)


def _with(question: PageQuestion, name: str, value: str) -> str:
    return question.changed(**{name: value}).link() if question.value(name) else ""


def _subject(plan: Plan) -> str:
    gpu = plan.plans[0].gpu
    where = (
        f"{gpu.name}, {gib_text(gpu.memory_bytes)} GiB"
        if len(plan.plans) == 1
        else f"{len(plan.plans)} GPU types"
    )
    patches = f" with {', '.join(plan.engine.patches)}" if plan.engine.patches else ""
    return plain(f"{plan.model.id} ({plan.model.source}) on vLLM {plan.engine.version}{patches}, {where}")


def _tabs(plan: Plan, question: PageQuestion) -> Iterator[ScreenLink]:
    one = len(plan.plans) == 1
    for screen in SCREENS.values():
        if screen.suits(len(plan.plans)):
            yield ScreenLink(screen.name, screen.label, question.changed(view=screen.name).link())
        elif one:
            everywhere = question.planned.changed(gpu=None, view=screen.name)
            yield ScreenLink(screen.name, screen.label, everywhere.link())
        else:
            yield ScreenLink(screen.name, screen.label, "", "follow a cell of the table to one GPU type")


def _exports(screen: Screen, question: PageQuestion) -> Iterator[Export]:
    named = question.changed(view=screen.name)
    yield Export("Copy link", named.link(), css="copy-link")
    if screen.drawing is not None:
        yield Export("SVG", named.link("plan.svg"), "dryserve.svg")
        yield Export("PNG", named.link("plan.svg"), css="png")
    if screen.rows is not None:
        yield Export("CSV", named.link("plan.csv"), "dryserve.csv")
    yield Export("JSON", question.planned.changed(format="json", include="details").link())
    yield Export("Command", question.planned.changed(format="command").link())


@cache
def _environment() -> Environment:
    found = Environment(
        loader=PackageLoader("service.web"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    found.filters["unbroken_flags"] = unbroken_flags
    found.globals |= {"asset": asset_link, "version": __version__, "pages": PAGES}
    return found


def _render(name: str, /, **values: Any) -> str:  # noqa: ANN401 - what the template shows
    return _environment().get_template(name).render(values)
