"""Says what a message means that misses flags which the start was given."""

from typing import Final

from service.startup_log.catalogue.phrases import FailureCause
from service.startup_log.log import StartupLog

MEANS: Final = (
    "The message says that {flags} {verb} not given, and the text has {them}: the process that raised it did "
    "not get what the text shows, or a part of it does not pass it on."
)
REMEDY: Final = (
    "See that the command in the text is the one that runs: an image's entry point, a service, a manifest or "
    "a config file may start another one, a line of a shell that does not end with a backslash ends the "
    "command, and a program passes arguments of its own. The line `non-default args` of the log shows what "
    "arrived; if it did, the release is at fault, and a newer one may pass it on."
)


def flags_given_all_the_same(cause: FailureCause, log: StartupLog) -> tuple[str, ...]:
    """Return the flags that a cause says are absent, where the start was given all of them; else none."""
    flags = tuple(f"--{name.replace('_', '-')}" for name in cause.absent)
    mended = any(flag in each.words for flag in flags for each in log.around.works)
    return () if mended or not all(_is_given(name, log) for name in cause.absent) else flags


def means_of_given(flags: tuple[str, ...]) -> str:
    """Return what a message means that says of these flags that they are not given."""
    several = len(flags) > 1
    return MEANS.format(
        flags=" and ".join(flags), verb="are" if several else "is", them="them" if several else "it"
    )


def _is_given(name: str, log: StartupLog) -> bool:
    if name in log.unmodelled:
        return True
    value = {**log.resolved, **log.flags}.get(name)
    return value is not None and value is not False
