"""Reads YAML and JSON documents within bounds of depth, size and repetition.

Only plain values are built: mappings, lists, text, numbers, switches and null. No tag makes an object. Every
node counts each time an alias repeats it, so that a small text cannot become a large value.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from service.launch_command.documents.document_text import Text
from service.launch_command.launch import UnreadableCommand
from service.nearest_names import quoted
from service.redaction import hide_secrets

MAX_DEPTH: Final = 40
MAX_NODES: Final = 20_000
"""Values of all documents together, with what aliases repeat."""
_RESOLVER: Final = yaml.resolver.Resolver()
_CONSTRUCTOR: Final = yaml.constructor.SafeConstructor()
_PLAIN: Final[Mapping[str, Callable[[yaml.nodes.ScalarNode], Any]]] = {
    "tag:yaml.org,2002:int": _CONSTRUCTOR.construct_yaml_int,
    "tag:yaml.org,2002:float": _CONSTRUCTOR.construct_yaml_float,
    "tag:yaml.org,2002:bool": _CONSTRUCTOR.construct_yaml_bool,
}
LONGEST_LINE: Final = 80
"""Characters of a line that is no YAML that are shown."""
LONGEST_NUMBER: Final = 40
"""Characters; longer numbers stay text."""
_NULL: Final = "tag:yaml.org,2002:null"
MERGE: Final = "<<"


@dataclass(slots=True)
class _Open:
    value: Any
    anchor: str | None
    key: Any = None
    has_key: bool = False
    merged: list[Any] = field(default_factory=list)


def read_documents(text: str) -> tuple[Any, ...]:
    """Return the documents of a YAML or JSON text.

    Raises:
        UnreadableCommand: it is no YAML, too deep, or too large with its aliases.
    """
    try:
        return tuple(_documents(text))
    except yaml.YAMLError as error:
        raise UnreadableCommand(_fault(error, text)) from None


def _fault(error: yaml.YAMLError, text: str) -> str:
    """Return which line of a text is no YAML, with the line itself."""
    hint = "; a template must be rendered first" if "{{" in text else ""
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return f"this is no YAML{hint}"
    lines = text.splitlines()
    # The parser stops behind a line that is no key; then the line is where it began to read.
    begun = getattr(error, "context_mark", None)
    problem = str(getattr(error, "problem", ""))
    at = begun.line if begun is not None and "could not find" in problem else mark.line
    at = min(at, len(lines) - 1)
    shown = hide_secrets(lines[at].strip()[:LONGEST_LINE]) if lines else ""
    tab = "; YAML takes no tab before a key" if "\\t" in problem else ""
    return f"line {at + 1}: this is no YAML: {quoted(shown)}{tab}{hint}"


def _documents(text: str) -> Iterator[Any]:
    builder = _Builder()
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.events.DocumentStartEvent):
            builder.clear()
        elif isinstance(event, yaml.events.DocumentEndEvent):
            yield builder.root
        else:
            builder.take(event)


class _Builder:
    """Builds the value of one document from its events."""

    def __init__(self) -> None:
        self.nodes = 0
        self.clear()

    def clear(self) -> None:
        """Begin a document."""
        self.root: Any = None
        self.stack: list[_Open] = []
        self.anchors: dict[str, tuple[Any, int]] = {}

    def take(self, event: Any) -> None:  # noqa: ANN401 - PyYAML's events have no common type with marks
        """Take the next event."""
        if isinstance(event, yaml.events.ScalarEvent):
            self._count(1)
            self._put(_scalar(event), event.anchor)
        elif isinstance(event, yaml.events.AliasEvent):
            value, size = self.anchors.get(event.anchor or "", (None, 1))
            self._count(size)
            self._put(value, None)
        elif isinstance(event, yaml.events.MappingStartEvent | yaml.events.SequenceStartEvent):
            self._count(1)
            if len(self.stack) >= MAX_DEPTH:
                raise UnreadableCommand(f"the document is nested deeper than {MAX_DEPTH} levels")
            empty: Any = {} if isinstance(event, yaml.events.MappingStartEvent) else []
            self.stack.append(_Open(empty, event.anchor))
        elif isinstance(event, yaml.events.MappingEndEvent | yaml.events.SequenceEndEvent):
            self._close()

    def _count(self, nodes: int) -> None:
        self.nodes += nodes
        if self.nodes > MAX_NODES:
            raise UnreadableCommand(f"the document has more than {MAX_NODES} values")

    def _close(self) -> None:
        closed = self.stack.pop()
        for each in closed.merged:
            for name, value in each.items():
                closed.value.setdefault(name, value)
        self._put(closed.value, closed.anchor)

    def _put(self, value: Any, anchor: str | None) -> None:  # noqa: ANN401 - a value of a document
        if anchor is not None:
            self.anchors[anchor] = (value, _size(value))
        if not self.stack:
            self.root = value
            return
        top = self.stack[-1]
        if isinstance(top.value, list):
            top.value.append(value)
        elif not top.has_key:
            if isinstance(value, dict | list):
                raise UnreadableCommand(
                    "a key of the document is not a text; a template must be rendered first"
                )
            top.key, top.has_key = (Text(str(value), getattr(value, "line", 1))), True
        else:
            if top.key == MERGE:
                several = value if isinstance(value, list) else [value]
                top.merged.extend(each for each in several if isinstance(each, dict))
            else:
                top.value[top.key] = value
            top.has_key = False


def _size(value: Any) -> int:  # noqa: ANN401 - a value of a document
    """Return the number of values in a value; no more than are allowed."""
    count, open_values = 0, [value]
    while open_values and count <= MAX_NODES:
        each = open_values.pop()
        count += 1
        if isinstance(each, dict):
            open_values.extend(each.values())
        elif isinstance(each, list):
            open_values.extend(each)
    return count


def _scalar(event: yaml.events.ScalarEvent) -> Any:  # noqa: ANN401 - a value of a document
    tag = event.tag or _RESOLVER.resolve(yaml.nodes.ScalarNode, event.value, event.implicit)  # type: ignore[no-untyped-call]
    line = event.start_mark.line + 1 if event.start_mark else 1
    if tag == _NULL:
        return None
    if tag in _PLAIN and len(event.value) <= LONGEST_NUMBER:
        try:
            return _PLAIN[tag](yaml.nodes.ScalarNode(tag, event.value))
        except (ValueError, KeyError, yaml.YAMLError):
            return Text(event.value, line)
    return Text(event.value, line)
