"""Tells that a start failed while the draft of speculative decoding was loaded, after the model itself."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from service.startup_log.catalogue.phrases import DRAFT, MILESTONES
from service.startup_log.failures.logged_failure import Failure
from service.startup_log.text.lines import LogLine

_LOADED: Final = next(each.says for each in MILESTONES if each.name == "profiling")
"""What says that all weights are loaded, those of the draft too."""


def with_draft(failure: Failure, lines: Sequence[LogLine]) -> Failure:
    """Return a failure with whether the draft was being loaded: by its calls, or by the last step logged."""
    if failure.serving or failure.paraphrased or failure.refused:
        return failure
    passed = any(
        folder in f"/{frame.path}" and frame.function in DRAFT.functions
        for frame in failure.frames
        for folder in DRAFT.folders
    )
    return replace(failure, draft=True) if passed or _is_begun(failure, lines) else failure


def _is_begun(failure: Failure, lines: Sequence[LogLine]) -> bool:
    begun = False
    for line in lines:
        if line.number > failure.line:
            break
        if any(map(line.text.__contains__, DRAFT.says)):
            begun = True
        elif begun and any(map(line.text.__contains__, _LOADED)):
            begun = False
    return begun
