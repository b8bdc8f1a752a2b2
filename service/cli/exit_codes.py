"""Exit codes of every command."""

from enum import IntEnum


class ExitCode(IntEnum):
    """What a command's exit code means."""

    OK = 0
    """The command did what was asked; for `plan`: at least one candidate starts."""
    NOT_ALL = 1
    """`models`: some of the models were not fetched, could not be read or were damaged."""
    BAD_INPUT = 2
    """An argument, a file, a token or a setting is at fault; standard error says which."""
    FAILED = 3
    """`plan`: no candidate starts; `probe --wait`: nothing was measured; `serve`: it could not start."""
    UNCERTAIN = 4
    """`plan`: no candidate starts for certain, but at least one may start."""
