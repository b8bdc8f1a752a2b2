"""Finds the words of known causes in the lines of a log."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, pairwise
from typing import Final

from service.startup_log.catalogue.device_errors import device_error
from service.startup_log.catalogue.exit_codes import cause_of_exit
from service.startup_log.catalogue.missing_modules import cause_of_module
from service.startup_log.catalogue.phrases import CAUSES, DEATHS, FailureCause
from service.startup_log.catalogue.templates import SentenceIndex, without_backticks
from service.startup_log.errors.exceptions import FRAME, QUIET
from service.startup_log.errors.harmless_errors import is_harmless
from service.startup_log.errors.tracebacks import is_source
from service.startup_log.text.lines import LogLine

_SENTENCES: Final = tuple(
    (cause, spelling) for cause in CAUSES for template in cause.templates for spelling in template.spellings
)
_FIGURES: Final = tuple((cause, template) for cause in CAUSES for template in cause.none_left)
_FIGURE_STARTS: Final = SentenceIndex([template.start for _, template in _FIGURES])
_STARTS: Final = SentenceIndex([template.start for _, template in _SENTENCES])
_WHOLE: Final[Mapping[str, FailureCause]] = {line: cause for cause in CAUSES for line in cause.lines}
_BY_NAME: Final[Mapping[str, FailureCause]] = {cause.name: cause for cause in CAUSES}
GENERAL: Final = frozenset({"cuda_error", "cuda_call_refused", "feature_not_supported", "nccl", "rocm_fault"})
"""Causes that say less than one error of a device in the same line."""
_SIGNALS: Final = ("exit", "died", "dying", "dies", "signal", "killed", "dead", "status", "code")
_OF_DEVICE: Final = ("Cuda", "cuda", "CUDA", "HIP", "hipError")
ESCAPED: Final = "\\'"
QUOTED: Final = '\\"'
"""Quotes inside of a quoted text."""
MISSING: Final = "No module named"
"""What Python says of a module that it does not find."""
MOST_WRAPPED: Final = 3 << 15
"""Characters of a text in which sentences over two lines are looked for: a terminal's copy is shorter."""


@dataclass(frozen=True, slots=True)
class KnownWords:
    """The words of a known cause on one line."""

    at: int
    cause: FailureCause
    values: Mapping[str, float | str]


class SearchedLines(tuple[LogLine, ...]):  # noqa: SLOT001 - what was found is kept in its dictionary
    """Lines of which the known words are found once, though several questions about a failure need them."""

    @cached_property
    def known(self) -> Sequence[KnownWords]:
        """The known words of lines that report a failure."""
        return _known_words(self, quiet=False)

    @cached_property
    def of_all(self) -> Sequence[KnownWords]:
        """The known words of all lines: a line's depend on no other line, so only the quiet ones are new."""
        quiet = [at for at, line in enumerate(self) if _is_silent(line)]
        found = {each.at: each for each in self.known}
        for at in quiet:
            found.pop(at, None)
        for each in _known_words([self[at] for at in quiet], quiet=True):
            found[quiet[each.at]] = replace(each, at=quiet[each.at])
        return [found[at] for at in sorted(found)]


def known_words(lines: Sequence[LogLine], *, quiet: bool = False) -> Iterator[KnownWords]:
    """Yield the first known cause of each line that has one, with the values of all its templates.

    ``quiet``: warnings and messages of the engine that report no failure count too.
    """
    if isinstance(lines, SearchedLines):
        return iter(lines.of_all if quiet else lines.known)
    return iter(_known_words(lines, quiet=quiet))


def _known_words(lines: Sequence[LogLine], *, quiet: bool) -> Sequence[KnownWords]:
    said = [(line.text, not quiet and _is_silent(line)) for line in lines]
    # Ranks and restarts repeat lines, which are searched once.
    once = list(dict.fromkeys(said))
    known = {once[each.at]: each for each in _known([text for text, _ in once], [mute for _, mute in once])}
    found = ((at, known.get(each)) for at, each in enumerate(said))
    return [KnownWords(at, each.cause, each.values) for at, each in found if each is not None]


def _known(texts: Sequence[str], silent: Sequence[bool]) -> Iterable[KnownWords]:
    """Return the first known cause of each text that has one; ``silent``: texts that report no failure."""
    found: dict[int, KnownWords] = {}
    # Who writes a message down often marks other words of it than the engine does, or escapes its quotes.
    unmarked = [_unmarked(text) for text in texts]
    for at, which, text in chain(_said(texts), _said(unmarked)):
        cause, template = _SENTENCES[which]
        before = _unless_weaker(found.get(at), cause)
        if before is not None and (before.cause is not cause or not template.kinds):
            continue
        if before is None and (silent[at] or _is_denied(cause, texts[at], text)):
            continue
        for values in template.find(text):
            known = {} if before is None else before.values
            before = found[at] = KnownWords(at, cause, {**known, **values})
    for at, cause in _by_form(texts):
        if not silent[at] and _says_more(cause, found.get(at)):
            found[at] = KnownWords(at, cause, {})
    for at, cause in _none_left(texts):
        found.setdefault(at, KnownWords(at, cause, {}))
    for at, text in enumerate(texts):
        if text in _WHOLE and at not in found:
            found[at] = KnownWords(at, _WHOLE[text], {})
    return found.values()


def _is_silent(line: LogLine) -> bool:
    return line.level in QUIET or is_harmless(line)


def _unless_weaker(before: KnownWords | None, cause: FailureCause) -> KnownWords | None:
    """Return the known words of a line, unless they follow from another failure and a cause is definite."""
    if before is None or not before.cause.weak or cause.weak or cause.raised or cause.name in GENERAL:
        return before
    return before if cause.of_request and not before.cause.of_request else None


def _unmarked(text: str) -> str:
    """Return a text without marks of code and escapes of quotes; empty for one that has none."""
    if "`" not in text and ESCAPED not in text and QUOTED not in text:
        return ""
    return without_backticks(text).replace(ESCAPED, "'").replace(QUOTED, '"')


def _says_more(cause: FailureCause, before: KnownWords | None) -> bool:
    if before is None:
        return True
    return (before.cause.weak or before.cause.name in GENERAL) and cause.name not in GENERAL


def _is_denied(cause: FailureCause, *texts: str) -> bool:
    return bool(cause.unless) and any(any(map(text.__contains__, cause.unless)) for text in {*texts})


def _by_form(texts: Sequence[str]) -> Iterator[tuple[int, FailureCause]]:
    """Yield which text holds an error of a device, the end of a process by a signal, or a missing module."""
    for at, text in enumerate(texts):
        name = device_error(text) if any(map(text.__contains__, _OF_DEVICE)) else None
        name = name or (cause_of_exit(text) if any(map(text.lower().__contains__, _SIGNALS)) else None)
        name = name or (cause_of_module(text) if MISSING in text else None)
        if name is not None:
            yield at, _BY_NAME[name]


def _none_left(texts: Sequence[str]) -> Iterator[tuple[int, FailureCause]]:
    """Yield which text states a figure of 0 or less with which no start goes on, with what it shows."""
    for at, which in _FIGURE_STARTS.pairs(texts):
        cause, template = _FIGURES[which]
        if any(
            value <= 0
            for values in template.find(texts[at])
            for value in values.values()
            if isinstance(value, float)
        ):
            yield at, cause


def _said(texts: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """Yield which text holds the beginning of which sentence, with the text."""
    return ((at, which, texts[at]) for at, which in _STARTS.pairs(texts)) if any(texts) else iter(())


def over_two_lines(lines: Sequence[LogLine], other: AbstractSet[int]) -> Iterator[KnownWords]:
    """Yield the known causes whose words are wrapped over two lines, between words or inside of one.

    ``other``: positions of lines that are not the engine's.
    """
    if sum(len(line.text) for line in lines) > MOST_WRAPPED:
        return
    for between in (" ", ""):
        pairs = [
            replace(line, text=f"{line.text}{between}{below.text}", level=line.level or below.level)
            for line, below in pairwise(lines)
        ]
        yield from (
            each
            for each in known_words(pairs)
            if not (each.cause.weak or each.cause.raised or each.cause.of_request)
            and not (FRAME in lines[each.at].text or is_source(each.at, lines))
            and other.isdisjoint((each.at, each.at + 1))
        )


def requests_beside_failures(known: Sequence[KnownWords], lines: Sequence[LogLine]) -> set[int]:
    """Return the positions of refused requests, if the log shows a failure of the engine too."""
    requests = {each.at for each in known if each.cause.of_request}
    if not requests:
        return requests
    failed = any(not each.cause.weak and not each.cause.of_request for each in known)
    return requests if failed or shows_death(lines) else set()


def shows_death(lines: Sequence[LogLine]) -> bool:
    """Whether a log shows that an engine which has served ended."""
    text = "\n".join(line.text for line in lines)
    return any(map(text.__contains__, DEATHS))
