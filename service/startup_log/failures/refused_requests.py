"""Says of an exception with which the server refuses a request that it does, whatever else has its words."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from service.startup_log.catalogue.origins import NOWHERE
from service.startup_log.catalogue.phrases import CAUSES, FailureCause
from service.startup_log.failures.logged_failure import Failure

OF_VALIDATION: Final = "VLLMValidationError"
"""vLLM 0.14.0 to 0.33.0, exceptions.py: the class with which a request is refused."""
_REFUSED_WITH: Final[Mapping[str, str]] = {
    "feature_not_supported": "request_parameter_refused",
    "multimodal_input_not_processed": "request_parameter_refused",
    "tokenizer_not_loaded": "request_parameter_refused",
    "grammar_failed": "grammar_refused",
}
"""What replaces causes of a start, where an exception of this class has their words."""
_BY_NAME: Final[Mapping[str, FailureCause]] = {cause.name: cause for cause in CAUSES}


def as_refused_request(failure: Failure) -> Failure:
    """Return what the server refuses a request with as that."""
    if failure.type != OF_VALIDATION or failure.cause is None:
        return failure
    refused = _REFUSED_WITH.get(failure.cause.name)
    return failure if refused is None else replace(failure, cause=_BY_NAME[refused], origin=NOWHERE)
