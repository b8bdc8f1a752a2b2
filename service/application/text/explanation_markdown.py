"""Writes the explanation of a log as a short report in Markdown, for an issue or a message."""

from collections.abc import Iterator
from typing import Final

from service.advisor.candidates.refusal import Fix
from service.application.text.compared_values import name_in_words, number_in_words
from service.application.text.headline import headline
from service.application.text.words import SHORT, basis_words, with_type
from service.explanation.explanation_types import Agreement, Diagnosis, Explanation
from service.startup_log.log import StartupLog

MOST: Final = 1200
"""Characters of the engine's message."""
MOST_DIFFERENCES: Final = 10
FENCE: Final = "```"


def render_markdown(explanation: Explanation) -> str:
    """Return an explanation as a report in Markdown."""
    return "".join(f"{line}\n" for line in _lines(explanation))


def _lines(explanation: Explanation) -> Iterator[str]:
    yield f"**{headline(explanation)}**"
    yield ""
    if explanation.ending is not None:
        yield from _ending(explanation.ending)
    yield from _facts(explanation)
    differing = [each for each in explanation.findings if each.agreement is Agreement.DIFFERS]
    if differing:
        yield ""
        yield "| Line | Value | Log | Plan |"
        yield "|---:|---|---:|---:|"
        for each in differing[:MOST_DIFFERENCES]:
            name, unit = name_in_words(each.name)
            logged, planned = number_in_words(each.logged), number_in_words(each.planned)
            yield f"| {each.line} | {name} | {_cell(logged)}{unit} | {_cell(planned)}{unit} |"


def _ending(ending: Diagnosis) -> Iterator[str]:
    message = with_type(ending.type, ending.message)
    yield f"{FENCE}text"
    yield message[:MOST].replace(FENCE, "` ` `")
    yield FENCE
    yield ""
    if ending.means:
        yield f"*Why:* {ending.means}"
        yield ""
    doing = [_planned(fix) for fix in ending.fixes]
    doing += [] if doing else list(ending.offers)
    doing += list(ending.notes)
    doing += [ending.remedy] if ending.remedy else []
    if doing:
        yield "*What to do:*"
        yield from (f"- {each}" for each in doing)
        yield ""


def _planned(fix: Fix) -> str:
    short = "" if fix.warning is None else f"{SHORT}, "
    return f"`{fix.words}` ({fix.verdict.replace('_', ' ')}, {short}{basis_words(fix)})"


def _facts(explanation: Explanation) -> Iterator[str]:
    log, request = explanation.log, explanation.request
    planned = None
    if request is not None:
        planned = f"vLLM {request.engine.version} on {request.gpus[0].id}: `{explanation.command}`"
    facts = {
        "vLLM": log.release or log.around.release,
        "Model": log.model,
        "GPU": _gpu(log),
        "Log": f"{log.lines:,} lines",
        "Planned beside it": planned,
    }
    yield "| | |"
    yield "|---|---|"
    yield from (f"| {name} | {_cell(value)} |" for name, value in facts.items() if value is not None)
    for each in explanation.assumptions:
        if not each.certain:
            yield f"| Assumed | {_cell(f'{each.field} = {each.taken}: {each.why}')} |"


def _gpu(log: StartupLog) -> str | None:
    """Return the GPU's name; the engine logs that of a file of tuned kernels."""
    named = log.word("gpu_name")
    return (
        next(iter(log.around.gpus), None) if named is None else named.removesuffix(".json").replace("_", " ")
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
