"""Exit codes of every command."""

from enum import IntEnum


class ExitCode(IntEnum):
    """What a command's exit code means."""

    OK = 0
    """The command did what was asked.

    `check` and `plan`: it starts on every GPU type that is named. With `--any`, or where none is named, on at
    least one. With a workload it also serves all of it there.
    """
    NOT_ALL = 1
    """`models`: some of the models were not fetched, could not be read or were damaged."""
    BAD_INPUT = 2
    """An argument, a file, a token or a setting is at fault; standard error says which."""
    FAILED = 3
    """`check` and `plan`: it does not start, its parser refuses the command, or no command can be printed.

    `probe --wait`: nothing was measured. `serve`: it could not start. `explain`: the log shows a failure, and
    it is explained.
    """
    UNCERTAIN = 4
    """`check` and `plan`: it may start: that depends on memory that only a real start can measure."""
    NOT_SERVED = 5
    """`check` and `plan`: it starts, but some requests of the workload wait or are preempted."""
    NOT_UNDERSTOOD = 5
    """`explain`: nothing in the text is of a log of the engine, or says what happened."""
    SERVICE_FAILED = 7
    """`probe`, `probes`: the service answers with an error of its own (status 500 to 599)."""
    HUB_FAILED = 7
    """The Hub could not be asked for a model that is neither bundled, stored, nor a mistyped name of one."""
    PORT_TAKEN = 6
    """`serve`: the address cannot be listened on, mostly because another program listens there."""
