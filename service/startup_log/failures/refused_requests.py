"""Says of an exception with which the server refuses a request that it does, whatever else has its words."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from service.startup_log.catalogue.origins import NOWHERE
from service.startup_log.catalogue.phrases import CAUSES, FailureCause
from service.startup_log.catalogue.refused_answers import POSTED
from service.startup_log.failures.logged_failure import Failure
from service.startup_log.text.lines import LogLine

OF_VALIDATION: Final = "VLLMValidationError"
"""vLLM 0.14.0 to 0.33.0, exceptions.py: the class with which a request is refused."""
_REFUSED_WITH: Final[Mapping[str, str]] = {
    "feature_not_supported": "request_parameter_refused",
    "multimodal_input_not_processed": "request_parameter_refused",
    "tokenizer_not_loaded": "request_parameter_refused",
    "grammar_failed": "grammar_refused",
}
"""What replaces causes of a start, where an exception of this class has their words."""
_CHECKS: Final = (
    "vllm/sampling_params.py",
    "vllm/pooling_params.py",
    "vllm/v1/structured_output/",
    "vllm/renderers/",
)
"""Beginnings of the paths of files whose messages only refuse requests; vLLM 0.19.0 to 0.33.0."""
_BY_NAME: Final[Mapping[str, FailureCause]] = {cause.name: cause for cause in CAUSES}


def as_refused_request(failure: Failure) -> Failure:
    """Return what the server refuses a request with as that."""
    place = "" if failure.raised_in is None else failure.raised_in.path
    refuses = failure.type == OF_VALIDATION or (failure.type == "ValueError" and place.startswith(_CHECKS))
    if not refuses or failure.cause is None:
        return failure
    refused = _REFUSED_WITH.get(failure.cause.name)
    return failure if refused is None else replace(failure, cause=_BY_NAME[refused], origin=NOWHERE)


_STATUSES: Final = frozenset({"400", "401", "404", "422"})
"""Statuses of answers that say what is wrong with the request, which the log does not repeat."""


def refused_answers(lines: Sequence[LogLine]) -> Failure | None:
    """Return the first refused request of a server that answered none; ``None`` if it answered one."""
    found = [(line, answer[1]) for line in lines if (answer := POSTED.search(line.text)) is not None]
    if not found or any(status not in _STATUSES for _, status in found):
        return None
    line = found[0][0]
    return Failure("", line.text, line.number, _BY_NAME["request_refused"], {}, request=True)
