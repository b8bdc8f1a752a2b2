"""Writes the explanation of a log as a short report in Markdown, for an issue or a message."""

from collections.abc import Iterator
from typing import Final

from service.application.text.explanation import headline, number_in_words
from service.explanation.explanation_types import Agreement, Diagnosis, Explanation

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
            name, logged = each.name.replace("_", " "), number_in_words(each.logged)
            yield f"| {each.line} | {name} | {_cell(logged)} | {_cell(number_in_words(each.planned))} |"


def _ending(ending: Diagnosis) -> Iterator[str]:
    message = f"{ending.type}: {ending.message}" if ending.type else ending.message
    yield f"{FENCE}text"
    yield message[:MOST].replace(FENCE, "` ` `")
    yield FENCE
    yield ""
    if ending.means:
        yield f"*Why:* {ending.means}"
        yield ""
    doing = [f"`{fix.words}` ({fix.verdict.replace('_', ' ')}, planned)" for fix in ending.fixes]
    doing += [] if doing else list(ending.offers)
    doing += [ending.remedy] if ending.remedy else []
    if doing:
        yield "*What to do:*"
        yield from (f"- {each}" for each in doing)
        yield ""


def _facts(explanation: Explanation) -> Iterator[str]:
    log, request = explanation.log, explanation.request
    planned = None
    if request is not None:
        planned = f"vLLM {request.engine.version} on {request.gpus[0].id}: `{explanation.command}`"
    facts = {
        "vLLM": log.release or log.around.release,
        "Model": log.model,
        "GPU": log.word("gpu_name") or next(iter(log.around.gpus), None),
        "Log": f"{log.lines:,} lines",
        "Planned beside it": planned,
    }
    yield "| | |"
    yield "|---|---|"
    yield from (f"| {name} | {_cell(value)} |" for name, value in facts.items() if value is not None)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
