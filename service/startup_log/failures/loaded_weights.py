"""Tells shapes that do not fit in a step of a running engine from weights that do not fit its class."""

import re
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
_SIZES: Final = re.compile(
    r"size of tensor a \((\d{1,9})\) must match the size of tensor b \((\d{1,9})\)", re.ASCII
)
WIDTHS: Final = 64
"""What widths of layers are multiples of, and numbers of tokens and requests mostly are not."""
VOCABULARY: Final = 20_000
"""Rows of an embedding at least, whose number can be any."""
_OF_STEP: Final = next(cause for cause in CAUSES if cause.name == "tensors_do_not_fit")


def with_loaded_weights(failure: Failure) -> Failure:
    """Return a failure as one of a step, where its calls show that the weights had been loaded before."""
    of_weights = failure.cause is not None and failure.cause.name == OF_WEIGHTS
    if not of_weights or not any(map(failure.message.__contains__, OF_SHAPES)):
        return failure
    by_sizes = not failure.frames and _are_of_step(failure.message)
    of_step = by_sizes or any(map(_is_after_loading, failure.frames))
    return replace(failure, cause=_OF_STEP) if of_step else failure


def _are_of_step(message: str) -> bool:
    """Whether the sizes in a message are numbers of tokens: no widths of layers, and no vocabularies."""
    found = _SIZES.search(message)
    if found is None:
        return False
    less, more = sorted(map(int, found.groups()))
    widths = less % WIDTHS == 0 and (more % WIDTHS == 0 or more % less == 0)
    return not (widths or less >= VOCABULARY)


def _is_after_loading(frame: Frame) -> bool:
    path = f"/{frame.path}"
    called = (path.endswith(file) and frame.function in names for file, names in SERVING_CALLS.items())
    return any(called) or milestone_of((frame,)) not in {"", "loading"}
