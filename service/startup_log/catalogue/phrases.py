"""The engine's log messages and the known causes of failures, loaded once from the bundled TOML."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from packaging.version import Version

from service.bundled_toml import read_toml
from service.engines.refusal import Stage
from service.startup_log.catalogue.templates import Template


@dataclass(frozen=True, slots=True)
class Milestone:
    """A stage that a start reaches."""

    name: str
    says: tuple[str, ...]
    """Messages that show that it was reached."""


@dataclass(frozen=True, slots=True)
class CauseForm:
    """A form of a cause that some of its messages have, with what it means and what helps against it."""

    means: str
    remedy: str
    says: tuple[str, ...] = ()
    """Texts of a message, any of them; empty for any message."""
    beside: tuple[str, ...] = ()
    """Texts of which one stands anywhere in the log, in small letters; empty for any log."""
    within: tuple[str, ...] = ()
    """Parts of the paths of files, of which one is in the traceback; empty for any traceback."""
    unless: tuple[str, ...] = ()
    """Texts of which none stands anywhere in the log, in small letters."""
    title: str = ""
    """What failed, in words; empty where the cause's own words say it."""

    @property
    def by_message(self) -> bool:
        """Whether the message alone shows it."""
        return bool(self.says) and not (self.beside or self.within)

    def is_of(self, message: str) -> bool:
        """Whether a message has one of its texts, or any message is of this form."""
        return not self.says or any(map(message.__contains__, self.says))


@dataclass(frozen=True, slots=True)
class FailureCause:
    """A known cause of a failed start. The fields are those of causes.toml's head."""

    name: str
    stage: str
    """Stage of the start, as in a plan's refusal; empty if a plan does not cover it."""
    type: str
    """Class of the exception, for logs that do not name it."""
    means: str
    """What happened."""
    remedy: str
    """What helps."""
    source: str
    """Release, file and function of the engine that raise it."""
    templates: tuple[Template, ...]
    """Messages that show this cause."""
    title: str = ""
    """What failed, in words; empty where the name says it."""
    lines: frozenset[str] = frozenset()
    """Whole lines that show it."""
    none_left: tuple[Template, ...] = ()
    """Messages with a figure that show it where the figure is 0 or less, at any level of the log."""
    yields_to: tuple[str, ...] = ()
    """Causes that are the root if their words stand anywhere in the same log, the likeliest first."""
    weak: bool = False
    """Its words follow from another failure."""
    raised: bool = False
    """Its words count in an exception alone, because other lines have them too."""
    warned: bool = False
    """Its words in a warning explain a traceback that is cut off before its exception."""
    decides: bool = False
    """Its words at any level come before what a person says."""
    of_request: bool = False
    """The engine runs and refused a request."""
    parts: frozenset[str] = frozenset()
    """Causes that say more, where the part that raised the exception shows one of them."""
    unless: tuple[str, ...] = ()
    """Texts of a line that deny the cause."""
    prose: tuple[str, ...] = ()
    """Words of people, in lower case, for texts in which nothing of the engine's own shows a cause."""
    remedies: Mapping[str, str] = field(default_factory=dict)
    """What helps instead, by the last milestone that the start reached."""
    absent: tuple[str, ...] = ()
    """Names of flags of which it says that the start has none."""

    platforms: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """``means`` and ``remedy`` instead, by the platform that the log names."""

    forms: tuple[CauseForm, ...] = ()
    """What its messages say more closely, the first that fits."""

    def form_of(self, message: str) -> CauseForm | None:
        """Return the form that a message shows by itself."""
        return next((form for form in self.forms if form.by_message and form.is_of(message)), None)

    def remedy_after(self, milestone: str) -> str:
        """Return what helps a start that failed after this milestone."""
        return self.remedies.get(milestone, self.remedy)


@dataclass(frozen=True, slots=True)
class DraftLoading:
    """What shows that the draft of speculative decoding is being loaded."""

    says: tuple[str, ...]
    """Messages with which it begins."""
    folders: tuple[str, ...]
    """Parts of the paths of files whose functions load it."""
    functions: frozenset[str]


def _load(name: str) -> Mapping[str, Any]:
    return read_toml("service.startup_log.catalogue", name)


_OPTIONAL: Final = {
    "lines",
    "none_left",
    "weak",
    "remedies",
    "yields_to",
    "prose",
    "unless",
    "parts",
    "raised",
    "warned",
    "decides",
    "of_request",
    "absent",
    "title",
    "platforms",
    "form",
}


def _cause(table: Mapping[str, Any]) -> FailureCause:
    keys = ("name", "stage", "type", "means", "remedy", "source")
    differing = sorted((table.keys() - _OPTIONAL) ^ {*keys, "says"})
    if differing:
        raise ValueError(f"causes.toml, {table.get('name')}: keys that are unknown or absent: {differing}")
    if table["stage"] not in {"", *Stage}:
        raise ValueError(f"causes.toml, {table['name']}: {table['stage']!r} is no stage")
    texts = {key: table[key] for key in keys}
    return FailureCause(
        **texts,
        templates=tuple(map(Template.parse, table["says"])),
        title=table.get("title", ""),
        lines=frozenset(table.get("lines", ())),
        none_left=tuple(map(Template.parse, table.get("none_left", ()))),
        yields_to=tuple(table.get("yields_to", ())),
        weak=table.get("weak", False),
        raised=table.get("raised", False),
        warned=table.get("warned", False),
        decides=table.get("decides", False),
        of_request=table.get("of_request", False),
        parts=frozenset(table.get("parts", ())),
        unless=tuple(table.get("unless", ())),
        prose=tuple(table.get("prose", ())),
        remedies=table.get("remedies", {}),
        absent=tuple(table.get("absent", ())),
        platforms=table.get("platforms", {}),
        forms=tuple(map(_form, table.get("form", ()))),
    )


def _form(table: Mapping[str, Any]) -> CauseForm:
    lists = ("says", "beside", "within", "unless")
    if unknown := sorted(table.keys() - {"means", "remedy", "title", *lists}):
        raise ValueError(f"a form has unknown keys: {unknown}")
    texts = {key: tuple(table.get(key, ())) for key in lists}
    return CauseForm(table["means"], table["remedy"], **texts, title=table.get("title", ""))


_PHRASES: Final = _load("phrases.toml")
_CAUSES: Final = _load("causes.toml")
_STATEMENTS: Final = _load("statements.toml")

TEMPLATES: Final = tuple(Template.parse(text) for table in _PHRASES["phrase"] for text in table["says"])
OF_RANKS: Final[Mapping[str, str]] = {
    hole: table["of_ranks"]
    for table in _PHRASES["phrase"]
    if "of_ranks" in table
    for text in table["says"]
    for hole in Template.parse(text).kinds
}
"""Values for which the smallest (`min`), the largest (`max`) or the first is used; of others the last is."""
MILESTONES: Final = tuple(Milestone(table["name"], tuple(table["says"])) for table in _PHRASES["milestone"])
"""The stages of a start, first to last."""
BEGINNINGS: Final = tuple(_PHRASES["start"]["says"])
"""Messages with which a new start begins."""
STOPS: Final = tuple(_PHRASES["stop"]["says"])
"""Messages with which an engine that was asked to stop ends."""
GONE: Final = tuple(_PHRASES["gone"]["says"])
"""Exceptions with which a front end ends whose engine did not start; it serves nothing afterwards."""
CAUSES: Final = tuple(
    _cause(table) for name in _CAUSES["files"] for table in _load(f"causes/{name}.toml")["cause"]
)
WRAPPERS: Final = tuple(_CAUSES["wrappers"])
"""Texts of exceptions that only wrap another exception."""
DEATHS: Final = tuple(_CAUSES["deaths"])
"""Messages with which an engine that has served ends."""
SERVED: Final = tuple(_PHRASES["served"]["says"])
"""Messages that only an engine prints which has started."""
SERVING_CALLS: Final[Mapping[str, frozenset[str]]] = {
    table["file"]: frozenset(table["functions"]) for table in _PHRASES["served"]["call"]
}
"""Functions that only an engine calls which has started, by the end of the path of their file."""
WAITS: Final = tuple(_PHRASES["wait"]["says"])
"""Messages of a process that waits for another one."""
WAITS_FOR: Final[Mapping[str, str]] = {
    words: cause for cause, says in _PHRASES["wait"]["causes"].items() for words in says
}
"""Causes by the messages of a process that waits for what does not come by itself."""
HANGS: Final[Mapping[str, str]] = {
    words: cause for cause, says in _PHRASES["wait"]["hangs"].items() for words in says
}
"""Causes by the messages that a process logs again and again while another one does not answer."""
DRAFT: Final = DraftLoading(
    tuple(_PHRASES["draft"]["says"]),
    tuple(_PHRASES["draft"]["folders"]),
    frozenset(_PHRASES["draft"]["functions"]),
)
PRINTED: Final = tuple(_PHRASES["served"]["printed"]["files"])
"""Files whose messages are exceptions in Python's own form only in an engine that has started."""
ENDS: Final = tuple(_PHRASES["end"]["says"])
"""Messages with which the process of a server ends in order."""
STATEMENTS: Final[Mapping[tuple[str, str, int], frozenset[Version]]] = {
    (table["says"], table["file"], line): frozenset(
        Version(release) for release, lines in table["lines"].items() if line in lines
    )
    for table in _STATEMENTS["statement"]
    for line in {line for lines in table["lines"].values() for line in lines}
}
"""Releases by a log statement's text, file and line number."""
