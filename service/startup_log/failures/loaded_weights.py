"""Tells shapes that do not fit in a step of a running engine from weights that do not fit its class."""

from dataclasses import replace
from typing import Final

from service.startup_log.catalogue.origins import milestone_of
from service.startup_log.catalogue.phrases import CAUSES, SERVING_CALLS
from service.startup_log.errors.tracebacks import Frame
from service.startup_log.failures.logged_failure import Failure

OF_WEIGHTS: Final = "weights_do_not_fit_the_class"
"""The cause that words of tensors mostly have, while a start loads them."""
OF_SHAPES: Final = ("The size of tensor", "must match the size of tensor")
"""PyTorch, aten/src/ATen/ExpandUtils.cpp: what an operation on two tensors says, whatever they hold."""
_OF_STEP: Final = next(cause for cause in CAUSES if cause.name == "tensors_do_not_fit")


def with_loaded_weights(failure: Failure) -> Failure:
    """Return a failure as one of a step, where its calls show that the weights had been loaded before."""
    of_weights = failure.cause is not None and failure.cause.name == OF_WEIGHTS
    if not of_weights or not any(map(failure.message.__contains__, OF_SHAPES)):
        return failure
    return replace(failure, cause=_OF_STEP) if any(map(_is_after_loading, failure.frames)) else failure


def _is_after_loading(frame: Frame) -> bool:
    path = f"/{frame.path}"
    called = (path.endswith(file) and frame.function in names for file, names in SERVING_CALLS.items())
    return any(called) or milestone_of((frame,)) not in {"", "loading"}
