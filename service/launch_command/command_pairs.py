"""Reads the starts that a log shows, as far as they can be read: their words, or a text that holds one."""

from collections.abc import Iterator, Sequence

from packaging.version import Version

from service.engines.arguments.arguments import arguments_of
from service.engines.releases import RELEASES
from service.launch_command.flags.sorting import sort_flags
from service.launch_command.launch import (
    Invocation,
    LaunchForm,
    UnreadableCommand,
    Value,
    Word,
)
from service.launch_command.launches import ReadLaunch, launch_of, read_launch
from service.launch_command.releases import NOT_SAID


def command_pairs(words: Sequence[str], release: Version | None = None) -> Iterator[tuple[str, Value]]:
    """Yield the model, as ``model``, and the flags of the words behind ``vllm serve`` by their own names.

    Flags that a plan takes come with their values, by the fields of ``ServeFlags``; of all others the name
    comes with ``True``, since their values may be private. Words that cannot be read are left out: a log
    shows what was typed, and the engine has judged it.

    Args:
        words: what stands behind the program's name, split as a shell splits it.
        release: the release whose parser read them; ``None`` for the newest.
    """
    plain = [word.strip("`") for word in words]
    named = tuple(Word(word) for word in (plain[1:] if plain[:1] == ["serve"] else plain) if word)
    start = Invocation(LaunchForm.SHELL, 1, named)
    yield from _pairs(launch_of(start, NOT_SAID, arguments_of(release or RELEASES[-1])))


def text_pairs(text: str) -> tuple[tuple[str, Value], ...]:
    """Return the same of the first start in a text of any form; nothing where it has none."""
    try:
        return tuple(_pairs(read_launch(text)))
    except UnreadableCommand:
        return ()


def _pairs(read: ReadLaunch) -> Iterator[tuple[str, Value]]:
    if read.launch.model is not None:
        yield "model", read.launch.model
    sorted_flags = sort_flags(read.launch, read.read_as)
    yield from sorted_flags.serve.items()
    for flag in (*sorted_flags.no_effect, *sorted_flags.not_modelled):
        yield flag.name.partition(".")[0], True
