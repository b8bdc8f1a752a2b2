"""Why a start failed: from its log, or from its plan if the log does not say."""

from collections.abc import Iterator, Sequence
from typing import Final

from service.advisor.candidates.refusal import Fix, Refusal
from service.advisor.candidates.verdict import Verdict
from service.advisor.fixes.fix_notes import cost_notes
from service.engines.arguments.arguments import releases_with
from service.engines.refusal import Stage
from service.explanation.explanation_types import CauseBasis, Diagnosis, SaidCause
from service.explanation.failure_fixes import memory_fixes, other_fixes
from service.explanation.free_memory import free_beside_shortage
from service.explanation.given_flags import REMEDY as GIVEN_REMEDY
from service.explanation.given_flags import flags_given_all_the_same, means_of_given
from service.explanation.offers import offers
from service.explanation.planned_start import PlannedStart
from service.explanation.remedies.fitting_remedy import fitting_remedy
from service.explanation.taken_memory import BesideOthers, beside_others
from service.explanation.wanted_lines import wanted_lines
from service.startup_log.catalogue.origins import meaning_of, milestone_of, milestone_said
from service.startup_log.catalogue.phrases import FailureCause
from service.startup_log.environment.drivers import needed_for, words_of
from service.startup_log.failures.advice import AdvisedStart, advice_for
from service.startup_log.failures.failure import OF_OTHERS, find_failure
from service.startup_log.failures.logged_failure import Failure
from service.startup_log.failures.stated_rules import states_rule
from service.startup_log.failures.titles import FAULT
from service.startup_log.log import StartupLog
from service.startup_log.starts import SERVING
from service.startup_log.text.lines import read_lines

DRIVER: Final = "driver_too_old"
TAKEN: Final = "memory_taken_by_others"
TURNS_OFF: Final = "--no-"
SPECULATION: Final = "--speculative-config"
DRAFT_LOADED: Final = (
    "It failed while the draft of speculative decoding was loaded, after the model itself: what the message "
    f"names can be the draft's. A start without {SPECULATION} shows whether the model alone starts."
)
MANY: Final = 8
"""How many times the GPUs of a start are so many more that few have them: one host holds 8 (NVIDIA, HGX)."""
PART_ALONE: Final = (
    "These words say what failed, and not why. The nearest known cause, which they do not show:"
)
MOST_COMPARED: Final = 60
"""Characters of a reason by which it is found in the message."""
STAGES: Final = frozenset(stage.value for stage in Stage)


def diagnose(log: StartupLog, run: PlannedStart | None) -> Diagnosis | None:
    """Return why a start failed and what fixes it; ``None`` for a start that did not fail."""
    logged = log.failure or log.earlier
    if logged is None:
        return None
    planned = run.judged.error if run is not None and _is_comparable(run, run.judged.error) else None
    failure, basis = _known(logged, planned)
    cause = failure.cause
    stage = cause.stage if cause is not None else ""
    foreseen = _foreseen(failure, run, planned)
    beside = BesideOthers()
    if run is not None and not log.earlier and cause is not None and cause.name == TAKEN:
        beside = beside_others(run, log)
    fixes = beside.fixes or _fixes(failure, log, run, foreseen=foreseen is True)
    return Diagnosis(
        cause=None if cause is None else cause.name,
        basis=basis,
        stage=stage,
        type=logged.type,
        message=logged.message,
        line=logged.line,
        reached=log.failed_after,
        means=_means_of_class(logged) if cause is None else _means(log, logged, cause.means),
        remedy=fitting_remedy(_remedy(log, logged, cause), log),
        source=logged.source or ("" if cause is None else cause.source),
        planned=planned,
        foreseen=foreseen,
        fixes=fixes,
        offers=() if beside.is_planned else offers(log.at_failure, failure),
        notes=(
            *_claim_of_title(logged, log),
            *_said_reason(logged, log),
            *_of_titled_settings(logged, log),
            *_of_said_releases(log),
            *_of_draft(logged, cause),
            *beside.notes,
            *free_beside_shortage(logged),
            *_of_many_gpus(fixes, run),
            *cost_notes(fixes),
        ),
        serving=logged.serving,
        refused=logged.refused,
        answers=logged.answers,
        hangs=logged.hangs,
        start=log.failed_start if log.starts > 1 else None,
        earlier=log.earlier is not None,
        part=logged.origin.part,
        by_place=failure.by_place and not _says_its_rule(failure),
        of_start=bool(stage or log.milestone or log.release or log.failed_after) or logged.starting,
        said=_said(logged, log),
        works=() if log.earlier else log.around.works,
        wanted=wanted_lines(logged),
        part_alone=logged.part_alone,
        title="" if logged.form is None or cause is not logged.cause else logged.form.title,
    )


def _says_its_rule(failure: Failure) -> bool:
    """Whether a failure that only its place names has a message that says what the check asks for."""
    return failure.form is not None and states_rule(failure.message)


def _claim_of_title(logged: Failure, log: StartupLog) -> Iterator[str]:
    """Yield what the title says, where the text shows neither a cause nor an exception."""
    claim = log.around.claim
    unknown = logged.cause is None and not logged.type and not log.earlier
    if unknown and claim is not None and claim.line != logged.line:
        yield f"The title says, which no message here confirms: {claim.words}"


def _said_reason(logged: Failure, log: StartupLog) -> Iterator[str]:
    """Yield what a person says of the reason, beside the program's message, which may show none."""
    reason = log.around.reason
    if reason is None or log.earlier:
        return
    # Cells of one row are on one line of the text.
    repeats = reason.words[:MOST_COMPARED] in logged.message or logged.message in reason.words
    if reason.line != logged.line or not repeats:
        yield f"The text says on line {reason.line} why: {reason.words}"


def _of_titled_settings(logged: Failure, log: StartupLog) -> Iterator[str]:
    """Yield which settings of the title to leave out, where only the place of a fault is known."""
    cause = logged.cause
    vague = cause is None or cause.name == FAULT or logged.by_place or logged.paraphrased
    yield from _of_needed_settings(log)
    named = [each for each in log.around.titled if cause is None or each not in cause.remedy]
    if vague and named and not log.earlier:
        settings = " and ".join(named)
        each = "it" if len(named) == 1 else "each of them"
        yield f"The title names {settings}: a start without {each} shows whether that is the reason."
    elif vague and not log.earlier:
        yield from _of_titled_features(cause, log)


def _of_needed_settings(log: StartupLog) -> Iterator[str]:
    """Yield without which settings it fails, as the text says."""
    if log.around.needed and not log.earlier:
        settings = " and ".join(log.around.needed)
        yield f"By the text it fails without {settings}: start with what is missing."


def _of_titled_features(cause: FailureCause | None, log: StartupLog) -> Iterator[str]:
    """Yield which features of the title to start without, where neither flags nor the remedy name them."""
    for each in log.around.features:
        flag = each.without.removeprefix("no ").partition(" ")[0]
        if (cause is None or flag not in cause.remedy) and not _is_given(flag, log):
            start = f"a start with {each.without}{_where_it_is_there(flag, log)}"
            yield f"The title names {each.words}: {start} shows whether that is the reason."


def _is_given(flag: str, log: StartupLog) -> bool:
    """Whether the start of a log has a switch already."""
    name = flag.removeprefix("--").replace("-", "_")
    return log.flags.get(name) is True or log.flags.get(name.removeprefix("no_")) is False


def _where_it_is_there(flag: str, log: StartupLog) -> str:
    """Return the condition of a flag that turns a default off, which not every release is known to have."""
    known = bool(log.releases) and set(releases_with(flag)).issuperset(log.releases)
    return "" if known or not flag.startswith(TURNS_OFF) else ", where the release has this flag,"


def _of_said_releases(log: StartupLog) -> Iterator[str]:
    """Yield what a person says of two releases: with which it works, and where the reason lies."""
    said = log.around.releases
    if said is None or log.earlier:
        return
    words = f"The text says on line {said.line} that it works with {said.works} and not with {said.fails}"
    if said.is_regression:
        yield f"{words}: stay with {said.works} until a later one mends it; the reason can be what changed."
    else:
        yield f"{words}: use {said.works} or a later release."


def _of_draft(logged: Failure, cause: FailureCause | None) -> Iterator[str]:
    """Yield that the draft was being loaded, where what helps does not speak of it."""
    if logged.draft and (cause is None or SPECULATION not in cause.remedy):
        yield DRAFT_LOADED


def _of_many_gpus(fixes: Sequence[Fix], run: PlannedStart | None) -> Iterator[str]:
    """Yield what else helps where only many more GPUs of this type hold the model."""
    fewest = min((fix.gpus for fix in fixes), default=0)
    if run is not None and fewest >= MANY * run.free.gpus:
        yield (
            f"Of this model {fewest} GPUs of this type hold what one start needs. On fewer use a smaller "
            "model, or a checkpoint of this one with 4-bit weights (AWQ, GPTQ, NVFP4)."
        )


def _said(logged: Failure, log: StartupLog) -> SaidCause | None:
    """Return what a person says where the program's own message does not show its cause."""
    if logged.said is None or logged.said.cause is logged.cause:
        return None
    cause = logged.said.cause
    remedy = fitting_remedy(cause.remedy_after(log.failed_after), log)
    return SaidCause(cause.name, logged.said.words, logged.said.line, cause.means, remedy)


def _is_comparable(run: PlannedStart, planned: Refusal | None) -> bool:
    """Whether a plan can say how the logged start ends: it is of the same start, with known memory."""
    of_memory = planned is None or planned.stage == Stage.MEMORY
    return not run.doubt and (run.gpu_specified or run.pinned is not None or not of_memory)


def _means_of_class(failure: Failure) -> str:
    """Return what exceptions of a class mean in general; nothing of one that only repeats another."""
    return "" if failure.follows else meaning_of(failure.type)


def _means(log: StartupLog, failure: Failure, means: str) -> str:
    """Return what happened; the end of an engine that was asked to stop is not a failure of its own."""
    if failure.part_alone:
        return f"{PART_ALONE} {means}"
    if failure.form is None and failure.cause is not None:
        flags = flags_given_all_the_same(failure.cause, log)
        means = means_of_given(flags) if flags else means
    if failure.cause is not None and (own := failure.cause.platforms.get(log.around.platform or "")):
        means = own["means"]
    elif failure.form is not None:
        means = failure.form.means
    if failure.serving and failure.follows and log.stopped_on is not None and log.stopped_on < failure.line:
        return f"The server was asked to stop on line {log.stopped_on}, and its engine ended with it."
    return means


def _remedy(log: StartupLog, failure: Failure, cause: FailureCause | None) -> str:
    """Return what helps: first what the part that failed suggests, then what helps against the cause."""
    if cause is None or (failure.cut and cause.name in OF_OTHERS):
        return ""
    if failure.form is None and flags_given_all_the_same(cause, log):
        return GIVEN_REMEDY
    if own := cause.platforms.get(log.around.platform or ""):
        return own["remedy"]
    form = failure.form if failure.cause is cause else None
    if form is not None and not failure.by_place:
        return form.remedy
    reached = (
        SERVING
        if failure.serving
        else milestone_of(failure.frames) or log.failed_after or milestone_said(failure.message)
    )
    if cause.name == DRIVER and log.around.driver is not None:
        return f"{words_of(needed_for(failure.message, log.around.driver))} {cause.remedy}".strip()
    start = AdvisedStart(log.release, {**log.resolved, **log.flags}, reached)
    first = advice_for(cause.name, failure, start)
    return f"{first} {cause.remedy_after(reached) if form is None else form.remedy}".strip()


def _known(failure: Failure, planned: Refusal | None) -> tuple[Failure, CauseBasis]:
    """Return the failure with its cause: the cause in the log, else the cause of the plan's refusal."""
    if failure.cause is not None:
        return failure, _basis(failure)
    # A message of the engine itself has a cause that is not known: the plan's refusal must not replace it.
    if planned is not None and not failure.type:
        specified = find_failure(read_lines(f"{planned.type}: {planned.message}"))
        if specified is not None and specified.cause is not None and not specified.by_origin:
            return specified, CauseBasis.PLAN
    return failure, CauseBasis.PARAPHRASED if failure.paraphrased else CauseBasis.UNKNOWN


def _basis(failure: Failure) -> CauseBasis:
    if failure.paraphrased:
        return CauseBasis.PARAPHRASED
    return CauseBasis.ORIGIN if failure.by_origin else CauseBasis.LOG


def _foreseen(failure: Failure, run: PlannedStart | None, planned: Refusal | None) -> bool | None:
    """Whether the plan fails for the same cause; ``None`` for causes that a plan does not cover."""
    if run is None or failure.cause is None or failure.cause.stage not in STAGES:
        return None
    if planned is None and not _is_comparable(run, None):
        return None
    if run.judged.verdict is Verdict.STARTS or planned is None:
        return run.judged.verdict is Verdict.UNCERTAIN
    specified = find_failure(read_lines(f"{planned.type}: {planned.message}"))
    return planned.stage == failure.cause.stage or (
        specified is not None and specified.cause == failure.cause
    )


def _fixes(failure: Failure, log: StartupLog, run: PlannedStart | None, *, foreseen: bool) -> tuple[Fix, ...]:
    """Return the fixes; none if the plan does not have the refusal, because a dry run could not test them."""
    if run is None or log.earlier or (failure.cause is not None and failure.cause.name == TAKEN):
        return ()
    stage = failure.cause.stage if failure.cause is not None else ""
    if stage == Stage.MEMORY:
        return memory_fixes(run, log)
    return other_fixes(run, log) if foreseen else ()
