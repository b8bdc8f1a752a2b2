"""Finds requests that a server did not answer as asked, in the lines in which uvicorn logs each answer."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from service.startup_log.catalogue.phrases import CAUSES, FailureCause
from service.startup_log.text.lines import LogLine

_ANSWER: Final = re.compile(
    r'"(?:GET|POST|PUT|PATCH|DELETE) (/[^\s"?]{1,200})(?:\?[^\s"]{0,400})? HTTP/\d(?:\.\d)?" ([45]\d\d)\b'
)
"""uvicorn, protocols/http/httptools_impl.py: the line of one answer in its access log."""
POSTED: Final = re.compile(r'"POST /\S{1,200} HTTP/[\d.]{1,4}" (\d{3})\b')
"""The same of any answer to a request for tokens, vectors or scores, with its status."""
_MESSAGE: Final = re.compile(r'"message"\s?:\s?".')
_CODE: Final = re.compile(r'"code"\s?:\s?4\d\d\b')
"""vLLM 0.8.5 to 0.33.0, entrypoints/openai/engine/protocol.py ErrorResponse: the reason why a request was
refused, and behind it the status."""
_ASKED_BY_CHANCE: Final = re.compile(
    r"/(?:favicon\.ico|robots\.txt|health|ping|metrics|live\w*|ready\w*|v1/?|v1/models/?)?$"
)
"""Routes that browsers, monitors and probes ask for."""
_CAUSES: Final[Mapping[str, FailureCause]] = {cause.name: cause for cause in CAUSES}
_MEANT: Final[Mapping[str, str]] = {
    "401": "not_authorized",
    "403": "not_authorized",
    "405": "route_not_found",
    "400": "request_refused",
    "413": "request_refused",
    "422": "request_refused",
}
"""What a status says: vLLM 0.10.2 to 0.33.0, entrypoints/openai; 404 is of a route or of a model."""


def is_refusal(text: str) -> bool:
    """Whether a line is the answer with which the server refuses a request."""
    message = _MESSAGE.search(text) if '"code"' in text else None
    return message is not None and _CODE.search(text, message.end()) is not None


def refused_answer(lines: Sequence[LogLine]) -> tuple[int, FailureCause] | None:
    """Return the position of the first answer with an error's status, and what this says.

    A text of nothing but such answers is about them, so that a route which is not there counts too.
    """
    answers = {at: found for at, line in enumerate(lines) if (found := _ANSWER.search(line.text))}
    alone = len(answers) == sum(bool(line.text.strip()) for line in lines)
    for at, found in answers.items():
        if _ASKED_BY_CHANCE.match(found[1]):
            continue
        name = "request_failed" if found[2].startswith("5") else _MEANT.get(found[2])
        name = "route_not_found" if alone and found[2] == "404" else name
        if name is not None:
            return at, _CAUSES[name]
    return None


def are_refusals(lines: Sequence[LogLine]) -> bool:
    """Whether a text has nothing but answers with the status of an error."""
    filled = [line for line in lines if line.text.strip()]
    return bool(filled) and all(_ANSWER.search(line.text) for line in filled)
