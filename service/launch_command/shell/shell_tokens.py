"""Splits shell text into tokens: words made of parts, operators and the ends of lines.

One pass over the characters. Nothing is executed.

Source: POSIX.1-2024, Shell Command Language, sections 2.2 (quoting), 2.3 (token recognition), 2.7.4
(here-documents); arrays as bash has them.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from service.launch_command.launch import UnreadableCommand

MAX_NESTING: Final = 16
"""Levels of ``${A:-${B:-...}}``."""
ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]{0,127})(\+?)=")
_PARAMETER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}|[0-9@*#?$!-]")
_BRACED: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]{0,127}|[0-9@*])(\[[@*]\])?")
_SUBSTITUTED_NAME: Final = re.compile(r"\$\([A-Za-z_][A-Za-z0-9_]{0,40}\)")
"""A command of one word; in a manifest, a variable that Kubernetes replaces."""
_DEFAULT: Final = re.compile(r":?[-=+?]")
_OPERATOR: Final = re.compile(
    r"&&|\|\||\|&|;;&?|;&|[0-9]{0,2}>>|[0-9]{0,2}>&|[0-9]{0,2}>\||<<<|<<-?|&>>?|[0-9]{0,2}[<>]|[;&|()]"
)
_PLACEHOLDER: Final = re.compile(r"<[A-Za-z][A-Za-z0-9_ ./:|-]{0,60}>")
"""What the reader of a text is to replace, such as ``<model>``."""
_BREAKS: Final = " \t\r\n;&|<>()"
"""Characters that end a word."""


@dataclass(frozen=True, slots=True)
class WordPart:
    """A part of a word: text, or a variable."""

    text: str
    quoted: bool = False
    variable: str | None = None
    operator: str = ""
    default: tuple["WordPart", ...] = ()
    is_array: bool = False


@dataclass(slots=True)
class ShellToken:
    """A word, or an operator."""

    line: int
    parts: list[WordPart] = field(default_factory=list)
    operator: str = ""

    @property
    def plain(self) -> str | None:
        """The text of a word without quotes and variables."""
        if self.operator or any(part.quoted or part.variable is not None for part in self.parts):
            return None
        return "".join(part.text for part in self.parts)


class ShellLexer:
    """Characters to tokens, one after another."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.line = 1
        self.bodies: list[str] = []
        """Here-documents in the order of their operators."""
        self._awaited: list[tuple[str, bool]] = []

    def tokens(self) -> Iterator[ShellToken]:
        """Yield words and operators; a line's end is an operator too."""
        text = self.text
        while self.at < len(text):
            each = text[self.at]
            if each == "\n":
                yield ShellToken(self.line, operator="\n")
                self._next_line()
            elif each in " \t\r":
                self.at += 1
            elif each == "#":
                self._skip_line()
            elif self._continued():
                continue
            elif placeholder := _PLACEHOLDER.match(text, self.at):
                self.at = placeholder.end()
                yield ShellToken(self.line, [WordPart(placeholder[0], variable=placeholder[0])])
            elif found := _OPERATOR.match(text, self.at):
                self.at = found.end()
                yield ShellToken(self.line, operator=found[0])
                if found[0] in {"<<", "<<-"}:
                    self._await_body(strip=found[0] == "<<-")
            else:
                yield self._word()

    def _continuation(self) -> int | None:
        """Return the length of a backslash (a caret or backtick of other shells) before a line's end."""
        if self.text[self.at] not in "\\^`":
            return None
        for end in ("\n", "\r\n"):
            if self.text.startswith(end, self.at + 1):
                return 1 + len(end)
        return None

    def _skip_line(self) -> None:
        end = self.text.find("\n", self.at)
        self.at = len(self.text) if end < 0 else end

    def _next_line(self) -> None:
        self.at += 1
        self.line += 1
        for delimiter, strip in self._awaited:
            self._read_body(delimiter, strip=strip)
        self._awaited.clear()

    def _await_body(self, *, strip: bool) -> None:
        while self.at < len(self.text) and self.text[self.at] in " \t":
            self.at += 1
        if self.at < len(self.text) and self.text[self.at] != "\n":
            self._awaited.append(("".join(part.text for part in self._word().parts), strip))

    def _read_body(self, delimiter: str, *, strip: bool) -> None:
        lines = []
        while self.at < len(self.text):
            end = self.text.find("\n", self.at)
            end = len(self.text) if end < 0 else end
            line = self.text[self.at : end]
            self.at = min(end + 1, len(self.text))
            self.line += 1
            if (line.lstrip("\t") if strip else line).rstrip("\r") == delimiter:
                break
            lines.append(line)
        self.bodies.append("\n".join(lines))

    def _word(self) -> ShellToken:
        token = ShellToken(self.line)
        while self.at < len(self.text):
            each = self.text[self.at]
            if each in _BREAKS:
                if each == "(" and _is_array_head(token):
                    token.parts.append(self._array())
                break
            if not self._continued():
                token.parts.extend(self._parts(each))
        if not token.parts:
            # A character that begins no word, such as a lone bracket.
            token.parts.append(WordPart(self.text[self.at : self.at + 1]))
            self.at += 1
        return token

    def _continued(self) -> bool:
        """Skip the end of a line that continues on the next; ``False`` where the line does not end here."""
        length = self._continuation()
        if length is None:
            return False
        self.at += length
        self.line += 1
        return True

    def _parts(self, each: str) -> list[WordPart]:  # noqa: PLR0911 - one for each kind
        """Return what begins with a character inside a word."""
        match each:
            case "'":
                return [WordPart(self._until("'"), quoted=True)]
            case '"':
                return self._double_quoted()
            case "$" if self.text.startswith("$'", self.at):
                self.at += 1
                return [WordPart(self._until("'"), quoted=True)]
            case "$":
                return [self._variable(quoted=False)]
            case "`":
                self._until("`")
                return [WordPart("`...`", variable="`...`")]
            case "\\":
                self.at += 2
                return [WordPart(self.text[self.at - 1 : self.at], quoted=True)]
            case _:
                return [self._bare()]

    _BARE: Final = re.compile(r"[^ \t\r\n;&|<>()'\"$`\\^]+")

    def _bare(self) -> WordPart:
        found = self._BARE.match(self.text, self.at)
        end = found.end() if found else self.at + 1
        part = WordPart(self.text[self.at : end])
        self.at = end
        return part

    def _until(self, quote: str) -> str:
        start = self.at + 1
        end = self.text.find(quote, start)
        if end < 0:
            raise UnreadableCommand(f"line {self.line}: the quote {quote} is not closed")
        inside = self.text[start:end]
        self.at = end + 1
        self.line += inside.count("\n")
        return inside

    def _double_quoted(self) -> list[WordPart]:
        began, text = self.line, self.text
        self.at += 1
        parts = [WordPart("", quoted=True)]
        plain: list[str] = []

        def flush() -> None:
            if plain:
                parts.append(WordPart("".join(plain), quoted=True))
                plain.clear()

        while self.at < len(text):
            each = text[self.at]
            if each == '"':
                self.at += 1
                flush()
                return parts
            if each == "\\":
                following = text[self.at + 1 : self.at + 2]
                self.at += 2
                if following == "\n":
                    self.line += 1
                else:
                    plain.append(following if following in '$`"\\' else f"\\{following}")
            elif each == "$":
                flush()
                parts.append(self._variable(quoted=True))
            elif each == "`":
                flush()
                parts.append(WordPart("`...`", variable="`...`", quoted=True))
                self._until("`")
            else:
                plain.append(each)
                self.line += each == "\n"
                self.at += 1
        raise UnreadableCommand(f'line {began}: the quote " is not closed')

    def _variable(self, *, quoted: bool, depth: int = 0) -> WordPart:
        """Return the variable at a dollar sign, or the sign itself."""
        following = self.text[self.at + 1 : self.at + 2]
        if following == "(":
            start = self.at
            self._skip_brackets()
            shown = self.text[start : min(self.at, start + 24)]
            named = _SUBSTITUTED_NAME.fullmatch(self.text, start, self.at)
            return WordPart(shown, quoted, variable=named[0] if named else "$(...)")
        if following == "{":
            return self._braced(quoted=quoted, depth=depth)
        found = _PARAMETER.match(self.text, self.at + 1)
        if found is None:
            self.at += 1
            return WordPart("$", quoted)
        self.at = found.end()
        return WordPart(f"${found[0]}", quoted, variable=found[0], is_array=found[0] == "@")

    def _braced(self, *, quoted: bool, depth: int) -> WordPart:
        start = self.at
        found = _BRACED.match(self.text, self.at)
        if found is None or depth > MAX_NESTING:
            return self._opaque(start, quoted=quoted)
        self.at = found.end()
        operator = _DEFAULT.match(self.text, self.at)
        default: list[WordPart] = []
        if operator is not None:
            self.at = operator.end()
            default = self._default(quoted=quoted, depth=depth)
        if self.text[self.at : self.at + 1] != "}":
            return self._opaque(start, quoted=quoted)
        self.at += 1
        return WordPart(
            self.text[start : self.at],
            quoted,
            variable=found[1],
            operator=operator[0] if operator else "",
            default=tuple(default),
            is_array=found[2] is not None or found[1] == "@",
        )

    def _opaque(self, start: int, *, quoted: bool) -> WordPart:
        """Return an expansion that is not calculated, such as ``${A##*/}``, as a missing variable."""
        end = self.text.find("}", start)
        self.at = len(self.text) if end < 0 else end + 1
        shown = self.text[start : min(self.at, start + 48)]
        return WordPart(shown, quoted, variable=shown)

    def _default(self, *, quoted: bool, depth: int) -> list[WordPart]:
        parts: list[WordPart] = []
        while self.at < len(self.text) and self.text[self.at] not in "}\n":
            each = self.text[self.at]
            if each == "$":
                parts.append(self._variable(quoted=quoted, depth=depth + 1))
            elif each in "'\"" and not (quoted and each == "'"):
                parts.append(WordPart(self._until(each), quoted=True))
            else:
                parts.append(WordPart(each, quoted))
                self.at += 1
        return parts

    def _skip_brackets(self) -> None:
        depth = 0
        while self.at < len(self.text):
            each = self.text[self.at]
            depth += (each == "(") - (each == ")")
            self.line += each == "\n"
            self.at += 1
            if each == ")" and depth == 0:
                return
        raise UnreadableCommand(f"line {self.line}: the bracket of $( is not closed")

    def _array(self) -> WordPart:
        """Return the words of ``NAME=(a b c)`` as the default of a part without a name."""
        self.at += 1
        words: list[WordPart] = []
        while self.at < len(self.text) and self.text[self.at] != ")":
            each = self.text[self.at]
            if each in " \t\r\n":
                self.line += each == "\n"
                self.at += 1
            elif each == "#":
                self._skip_line()
            elif not self._continued():
                words.append(WordPart("", default=tuple(self._word().parts)))
        self.at += 1
        return WordPart("(", default=tuple(words), operator="array")


def _is_array_head(token: ShellToken) -> bool:
    plain = token.plain
    found = ASSIGNMENT.match(plain) if plain else None
    return found is not None and plain is not None and found.end() == len(plain)
