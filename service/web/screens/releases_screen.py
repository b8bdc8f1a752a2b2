"""Releases: what each known release makes of the same start with the same bytes for its cache."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from service.advisor.candidates.plan_types import Candidate, ComparedStart, Plan, Upgrade, UpgradeOutcome
from service.advisor.candidates.verdict import Verdict
from service.advisor.dry_runs.plan_cache import CachedSteps
from service.advisor.request.plan_request import EngineChoice, PlanRequest
from service.advisor.upgrade import AskedStart, upgrades
from service.application.text.upgrades import change_words
from service.application.text.words import verdict_words
from service.engines.flags import ServeFlags
from service.engines.releases import RELEASES
from service.web.drawings.releases_drawing import ReleaseColumn, releases_drawing
from service.web.figures import plain, times
from service.web.questions.page_question import PageQuestion
from service.web.questions.starts import start_question
from service.web.screens.answer_screen import shown_candidate


@dataclass(frozen=True, slots=True)
class ReleaseStep:
    """A step between two releases that changes something."""

    number: int
    """Links it to its mark on the drawing."""
    before: str
    after: str
    link: str
    """The question for the later release."""
    changes: tuple[str, ...]
    causes: tuple[tuple[str, str, str], ...]
    """Rule, what it decides, source."""


@dataclass(frozen=True, slots=True)
class ReleasesScreen:
    """Everything that the screen shows."""

    words: str
    drawing: Markup
    steps: tuple[ReleaseStep, ...]
    outcomes: tuple[UpgradeOutcome, ...]

    @property
    def table(self) -> list[list[str]]:
        """Each release as a row."""
        head = ["release", "verdict", "tokens", "requests of the maximum length", "block", "error"]
        return [
            head,
            *(
                [
                    each.version,
                    verdict_words(each.verdict),
                    str(each.tokens or ""),
                    times(each.max_concurrency),
                    str(each.block_size or ""),
                    plain(each.error or ""),
                ]
                for each in self.outcomes
            ),
        ]


def releases_screen(plan: Plan, question: PageQuestion) -> ReleasesScreen:
    """Return the screen for the plan of one GPU type."""
    gpu_plan = plan.plans[0]
    shown = shown_candidate(gpu_plan)
    compared = [str(release) for release in RELEASES]
    flags = _with_equal_bytes(shown)
    engine = EngineChoice.of(plan.engine.version, plan.engine.patches, compared)
    compared_start = ComparedStart(replace(shown, flags=flags), gpu_plan.recommended is not None)
    asked = AskedStart(PlanRequest(plan.model, (gpu_plan.gpu,), engine, flags), compared_start, gpu_plan.gpu)
    steps = tuple(upgrades((asked,), CachedSteps(plan.model, engine.rules)))
    outcomes = (steps[0].before, *(step.after for step in steps))
    changed = [step for step in steps if step.changed]
    places = {step.after.version: number for number, step in enumerate(changed, start=1)}
    start = start_question(question, shown, gpu_plan.gpu).changed(view="releases")
    given = flags.kv_cache_memory_bytes
    memory = "" if given is None else f", each with {given:,} bytes for the cache of a rank"
    return ReleasesScreen(
        words=f"The same start on every known release{memory}.",
        drawing=releases_drawing(_columns(outcomes, places, plan.engine.version)),
        steps=tuple(_steps(changed, start)),
        outcomes=outcomes,
    )


def _with_equal_bytes(shown: Candidate) -> ServeFlags:
    flags = replace(
        shown.flags, kv_cache_dtype=shown.kv_cache_dtype, tensor_parallel_size=shown.tensor_parallel_size
    )
    if shown.kv_cache is None or flags.num_gpu_blocks_override is not None:
        return flags
    return replace(flags, kv_cache_memory_bytes=shown.kv_cache.available_bytes)


def _columns(
    outcomes: Sequence[UpgradeOutcome], places: dict[str, int], planned: str
) -> tuple[ReleaseColumn, ...]:
    return tuple(
        ReleaseColumn(
            release=each.version,
            tokens=each.tokens,
            requests=each.max_concurrency,
            starts=each.verdict is not Verdict.REFUSED,
            mark=places.get(each.version, 0),
            is_planned=each.version == planned,
        )
        for each in outcomes
    )


def _steps(changed: Sequence[Upgrade], start: PageQuestion) -> Iterator[ReleaseStep]:
    for number, step in enumerate(changed, start=1):
        yield ReleaseStep(
            number=number,
            before=step.before.version,
            after=step.after.version,
            link=start.changed(engine_version=step.after.version).link(),
            changes=tuple(_change(step, field) for field in step.changed),
            causes=tuple((cause.rule, cause.summary, cause.source) for cause in step.causes),
        )


def _change(step: Upgrade, field: str) -> str:
    return plain(change_words(step, field))
