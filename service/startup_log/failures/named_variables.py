"""Says that a value which is no number is that of an environment variable, where the text names one."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from service.startup_log.catalogue.origins import OF_ENGINE
from service.startup_log.catalogue.phrases import CAUSES
from service.startup_log.failures.logged_failure import Failure
from service.startup_log.text.lines import LogLine

NO_VALUE: Final = ("invalid literal for int() with base", "could not convert string to float: ")
"""What Python says of a text that is no number, as the engine's envs.py reads its variables (vLLM 0.5.0 to
0.33.0: `int(os.getenv(...))`)."""
_VARIABLE: Final = re.compile(r"\bVLLM_[A-Z][A-Z0-9_]{2,80}\b")
"""A variable of the engine."""
_CAUSE: Final = next(cause for cause in CAUSES if cause.name == "environment_variable")


def with_variable(failure: Failure, lines: Sequence[LogLine]) -> Failure:
    """Return a value that is no number as that of the only variable of the engine that the text names."""
    if failure.cause is not None or not failure.message.startswith(NO_VALUE):
        return failure
    if failure.frames and OF_ENGINE not in failure.frames[0].path:
        # Another program's value.
        return failure
    named = {name for line in lines for name in _VARIABLE.findall(line.text)}
    return replace(failure, cause=_CAUSE) if len(named) == 1 else failure
