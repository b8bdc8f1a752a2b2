"""Splits shell text into commands, words and operators, and replaces variables that the text sets.

One pass over the characters. Nothing is executed: a command substitution, or a variable that the text does
not set, stays in the word, which then names it as missing.

Source: POSIX.1-2024, Shell Command Language, sections 2.2 (quoting), 2.3 (token recognition), 2.6.2
(parameter expansion), 2.7.4 (here-documents); arrays as bash has them.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from service.launch_command.launch import MAX_TEXT, MAX_WORDS, UnreadableCommand, Word

MAX_COMMANDS: Final = 4096
MAX_NESTING: Final = 16
"""Levels of ``${A:-${B:-...}}``."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_PARAMETER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}|[0-9@*#?$!-]")
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]{0,127})(\+?)=")
_OPERATOR: Final = re.compile(
    r"&&|\|\||\|&|;;&?|;&|[0-9]{0,2}>>|[0-9]{0,2}>&|[0-9]{0,2}>\||<<<|<<-?|&>>?|[0-9]{0,2}[<>]|[;&|()]"
)
_ENDS: Final = frozenset({";", "&", "&&", "||", "|", "|&", ";;", ";&", ";;&", "(", ")", "\n"})
_DECLARING: Final = frozenset({"export", "local", "readonly", "declare", "typeset"})
_OPENING: Final = frozenset({"if", "for", "while", "until", "case", "select"})
_CLOSING: Final = frozenset({"fi", "done", "esac"})
_OTHER_BRANCH: Final = frozenset({"else", "elif"})
KEYWORDS: Final = frozenset(
    {"then", "do", "{", "}", "!", "time", "$", "%", ">", "#"} | _OPENING | _CLOSING | _OTHER_BRANCH
)
"""Words before a command that are not its name; the prompts of a shell are among them."""
_STARTS: Final = re.compile(r"vllm|docker|podman|nerdctl|^(?:ba|z|da)?sh$")
_PLACEHOLDER: Final = re.compile(r"<[A-Za-z][A-Za-z0-9_ ./:|-]{0,60}>")
"""What the reader of a text is to replace, such as ``<model>``."""
_BREAKS: Final = " \t\r\n;&|<>()"
"""Characters that end a word."""
_TESTS: Final = frozenset({"[", "[[", "test"})


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """One command with its variables replaced."""

    words: tuple[Word, ...]
    environment: dict[str, Word]
    """Variables that are set for this command: before its name, and exported before."""
    bodies: tuple[str, ...] = ()
    """Here-documents that the command reads."""
    target: str | None = None
    """File into which its output goes."""

    @property
    def line(self) -> int:
        """Line in which it begins."""
        return self.words[0].line if self.words else 1


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a word: text, or a variable."""

    text: str
    quoted: bool = False
    variable: str | None = None
    operator: str = ""
    default: tuple["_Part", ...] = ()
    is_array: bool = False


@dataclass(slots=True)
class _Token:
    line: int
    parts: list[_Part] = field(default_factory=list)
    operator: str = ""

    @property
    def plain(self) -> str | None:
        """The text of a word without quotes and variables."""
        if self.operator or any(part.quoted or part.variable is not None for part in self.parts):
            return None
        return "".join(part.text for part in self.parts)


def read_commands(text: str) -> tuple[SimpleCommand, ...]:
    """Return the commands of a shell text in order.

    Raises:
        UnreadableCommand: a quote is not closed, or the text is longer than ``MAX_TEXT`` with its variables.
    """
    return tuple(_Runner().run(_Lexer(text)))


class _Lexer:
    """Characters to tokens."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.line = 1
        self.bodies: list[str] = []
        """Here-documents in the order of their operators."""
        self._awaited: list[tuple[str, bool]] = []

    def tokens(self) -> Iterator[_Token]:
        """Yield words and operators; a line's end is an operator too."""
        text = self.text
        while self.at < len(text):
            each = text[self.at]
            if each == "\n":
                yield _Token(self.line, operator="\n")
                self._next_line()
            elif each in " \t\r":
                self.at += 1
            elif each == "#":
                self._skip_line()
            elif self._continued():
                continue
            elif placeholder := _PLACEHOLDER.match(text, self.at):
                self.at = placeholder.end()
                yield _Token(self.line, [_Part(placeholder[0], variable=placeholder[0])])
            elif found := _OPERATOR.match(text, self.at):
                self.at = found.end()
                yield _Token(self.line, operator=found[0])
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

    def _word(self) -> _Token:
        token = _Token(self.line)
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
            token.parts.append(_Part(self.text[self.at : self.at + 1]))
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

    def _parts(self, each: str) -> list[_Part]:  # noqa: PLR0911 - one for each kind
        """Return what begins with a character inside a word."""
        match each:
            case "'":
                return [_Part(self._until("'"), quoted=True)]
            case '"':
                return self._double_quoted()
            case "$" if self.text.startswith("$'", self.at):
                self.at += 1
                return [_Part(self._until("'"), quoted=True)]
            case "$":
                return [self._variable(quoted=False)]
            case "`":
                self._until("`")
                return [_Part("`...`", variable="`...`")]
            case "\\":
                self.at += 2
                return [_Part(self.text[self.at - 1 : self.at], quoted=True)]
            case _:
                return [self._bare()]

    _BARE: Final = re.compile(r"[^ \t\r\n;&|<>()'\"$`\\^]+")

    def _bare(self) -> _Part:
        found = self._BARE.match(self.text, self.at)
        end = found.end() if found else self.at + 1
        part = _Part(self.text[self.at : end])
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

    def _double_quoted(self) -> list[_Part]:
        began, text = self.line, self.text
        self.at += 1
        parts = [_Part("", quoted=True)]
        plain: list[str] = []

        def flush() -> None:
            if plain:
                parts.append(_Part("".join(plain), quoted=True))
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
                parts.append(_Part("`...`", variable="`...`", quoted=True))
                self._until("`")
            else:
                plain.append(each)
                self.line += each == "\n"
                self.at += 1
        raise UnreadableCommand(f'line {began}: the quote " is not closed')

    def _variable(self, *, quoted: bool, depth: int = 0) -> _Part:
        """Return the variable at a dollar sign, or the sign itself."""
        following = self.text[self.at + 1 : self.at + 2]
        if following == "(":
            start = self.at
            self._skip_brackets()
            shown = self.text[start : min(self.at, start + 24)]
            return _Part(shown, quoted, variable="$(...)")
        if following == "{":
            return self._braced(quoted=quoted, depth=depth)
        found = _PARAMETER.match(self.text, self.at + 1)
        if found is None:
            self.at += 1
            return _Part("$", quoted)
        self.at = found.end()
        return _Part(f"${found[0]}", quoted, variable=found[0], is_array=found[0] == "@")

    def _braced(self, *, quoted: bool, depth: int) -> _Part:
        start = self.at
        found = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]{0,127}|[0-9@*])(\[[@*]\])?").match(self.text, self.at)
        if found is None or depth > MAX_NESTING:
            return self._opaque(start, quoted=quoted)
        self.at = found.end()
        operator = re.compile(r":?[-=+?]").match(self.text, self.at)
        default: list[_Part] = []
        if operator is not None:
            self.at = operator.end()
            default = self._default(quoted=quoted, depth=depth)
        if self.text[self.at : self.at + 1] != "}":
            return self._opaque(start, quoted=quoted)
        self.at += 1
        return _Part(
            self.text[start : self.at],
            quoted,
            variable=found[1],
            operator=operator[0] if operator else "",
            default=tuple(default),
            is_array=found[2] is not None or found[1] == "@",
        )

    def _opaque(self, start: int, *, quoted: bool) -> _Part:
        """Return an expansion that is not calculated, such as ``${A##*/}``, as a missing variable."""
        end = self.text.find("}", start)
        self.at = len(self.text) if end < 0 else end + 1
        shown = self.text[start : min(self.at, start + 48)]
        return _Part(shown, quoted, variable=shown)

    def _default(self, *, quoted: bool, depth: int) -> list[_Part]:
        parts: list[_Part] = []
        while self.at < len(self.text) and self.text[self.at] not in "}\n":
            each = self.text[self.at]
            if each == "$":
                parts.append(self._variable(quoted=quoted, depth=depth + 1))
            elif each in "'\"" and not (quoted and each == "'"):
                parts.append(_Part(self._until(each), quoted=True))
            else:
                parts.append(_Part(each, quoted))
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

    def _array(self) -> _Part:
        """Return the words of ``NAME=(a b c)`` as the default of a part without a name."""
        self.at += 1
        words: list[_Part] = []
        while self.at < len(self.text) and self.text[self.at] != ")":
            each = self.text[self.at]
            if each in " \t\r\n":
                self.line += each == "\n"
                self.at += 1
            elif each == "#":
                self._skip_line()
            elif not self._continued():
                words.append(_Part("", default=tuple(self._word().parts)))
        self.at += 1
        return _Part("(", default=tuple(words), operator="array")


def _is_array_head(token: _Token) -> bool:
    plain = token.plain
    found = _ASSIGNMENT.match(plain) if plain else None
    return found is not None and plain is not None and found.end() == len(plain)


_Values = tuple[Word, ...]


@dataclass(slots=True)
class _Branching:
    """Variables that a branch wrote, with what they were before."""

    before: dict[str, _Values | None] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)


class _Runner:
    """Tokens to commands: follows assignments in the order of the text."""

    def __init__(self) -> None:
        self.variables: dict[str, _Values | None] = {}
        """``None``: set, but to different values in different branches."""
        self.exported: dict[str, None] = {}
        self.branches: list[_Branching] = []
        self.size = 0

    def run(self, lexer: _Lexer) -> Iterator[SimpleCommand]:
        """Yield the commands."""
        tokens: list[_Token] = []
        before, count, after_test = 0, 0, False
        for token in (*lexer.tokens(), _Token(lexer.line, operator="\n")):
            if token.operator not in _ENDS:
                tokens.append(token)
                continue
            if token.operator == ";;":
                self._other_branch()
            if tokens:
                count += 1
                if count > MAX_COMMANDS:
                    raise UnreadableCommand(f"the text has more than {MAX_COMMANDS} commands")
                documents = sum(each.operator in {"<<", "<<-"} for each in tokens)
                command = self._command(tokens, maybe=after_test)
                # The lines of a here-document follow the line's end, which is read later.
                yield from self._emitted(command, documents, before, lexer)
                before += documents
                after_test = token.operator in {"&&", "||"} and _first(tokens) in _TESTS
                tokens = []

    def _emitted(
        self, command: SimpleCommand | None, documents: int, before: int, lexer: _Lexer
    ) -> Iterator[SimpleCommand]:
        if command is None:
            return
        if documents:
            # Reading the line's end made the lexer read the bodies, unless another command shares the line.
            bodies = tuple(lexer.bodies[before : before + documents])
            command = SimpleCommand(command.words, command.environment, bodies, command.target)
        yield command

    def _command(self, tokens: list[_Token], *, maybe: bool) -> SimpleCommand | None:
        words, target = self._without_redirections(tokens)
        while words and words[0].plain in KEYWORDS:
            self._keyword(words[0].plain or "")
            words = words[1:]
        own: dict[str, _Values] = {}
        names_only = bool(words) and words[0].plain in _DECLARING
        if names_only:
            self._declare(words[1:], exported=words[0].plain in {"export", "declare"}, maybe=maybe)
            return None
        while words and (pair := self._assignment(words[0])) is not None:
            own[pair[0]] = pair[1]
            words = words[1:]
        if not words:
            for name, value in own.items():
                self._set(name, value, maybe=maybe)
            return None
        expanded = tuple(word for token in words for word in self._expanded(token.parts, token.line))
        if len(expanded) > MAX_WORDS:
            raise UnreadableCommand(f"a command has more than {MAX_WORDS} words")
        environment = {name: _joined(value) for name, value in own.items()}
        if any(_STARTS.search(word.text) for word in expanded):
            # Only for commands that may start the engine: the time stays linear in the text.
            values = {name: self.variables.get(name) for name in self.exported}
            environment = {name: _joined(value) for name, value in values.items() if value} | environment
        return SimpleCommand(expanded, environment, (), target) if expanded else None

    def _without_redirections(self, tokens: list[_Token]) -> tuple[list[_Token], str | None]:
        words: list[_Token] = []
        target, skip = None, ""
        for token in tokens:
            if skip and not token.operator:
                if skip in {">", "1>", ">>"}:
                    target = token.plain
                skip = ""
            elif token.operator in {"<<", "<<-"}:
                continue
            elif token.operator:
                skip = token.operator
            else:
                words.append(token)
        return words, target

    def _keyword(self, word: str) -> None:
        if word in _OPENING:
            self.branches.append(_Branching())
        elif word in _OTHER_BRANCH:
            self._other_branch()
        elif word in _CLOSING and self.branches:
            branch = self.branches.pop()
            for name in branch.written | branch.before.keys():
                self._set(name, None)

    def _other_branch(self) -> None:
        if self.branches:
            branch = self.branches[-1]
            for name, value in branch.before.items():
                self.variables[name] = value
                if value is None:
                    self.variables.pop(name)
            branch.written |= branch.before.keys()
            branch.before = {}

    def _declare(self, words: list[_Token], *, exported: bool, maybe: bool) -> None:
        for token in words:
            pair = self._assignment(token) or self._quoted_assignment(token)
            if pair is not None:
                self._set(*pair, maybe=maybe)
            name = pair[0] if pair else token.plain
            if exported and name and _NAME.fullmatch(name):
                self.exported[name] = None

    def _quoted_assignment(self, token: _Token) -> tuple[str, _Values] | None:
        """Return the name and the value of ``"NAME=value"``, which ``export`` takes too."""
        for word in self._expanded(token.parts, token.line):
            name, equals, value = word.text.partition("=")
            if equals and _NAME.fullmatch(name):
                return name, (Word(value, word.line, word.missing),)
        return None

    def _set(self, name: str, value: _Values | None, *, maybe: bool = False) -> None:
        if self.branches:
            self.branches[-1].before.setdefault(name, self.variables.get(name))
        self.variables[name] = None if maybe else value

    def _assignment(self, token: _Token) -> tuple[str, _Values] | None:
        """Return the name and the value of ``NAME=value``; ``None`` for another word."""
        if token.operator or not token.parts or token.parts[0].quoted or token.parts[0].variable is not None:
            return None
        found = _ASSIGNMENT.match(token.parts[0].text)
        if found is None:
            return None
        rest = [_Part(token.parts[0].text[found.end() :]), *token.parts[1:]]
        if rest[-1].operator == "array":
            value = tuple(
                word for part in rest[-1].default for word in self._expanded(list(part.default), token.line)
            )
        else:
            value = (_joined(tuple(self._expanded(rest, token.line, split=False))),)
        if found[2]:
            before = self.variables.get(found[1]) or ()
            is_text = rest[-1].operator != "array" and len(before) == 1
            value = (_appended(before[0], value[0]),) if is_text else (*before, *value)
        self._grow(value)
        return found[1], value

    def _expanded(self, parts: list[_Part], line: int, *, split: bool = True) -> Iterator[Word]:
        """Yield the words that one word becomes: unquoted values are split at spaces."""
        text: list[str] = []
        missing: list[str] = []
        exists = False
        for part in parts:
            values = self._values(part)
            if values is None:
                text.append(part.text)
                missing.append(part.variable or part.text)
                exists = True
                continue
            fields = _fields(values, part, split=split)
            for index, (value, lost) in enumerate(fields):
                if index:
                    yield self._built(text, line, missing)
                    text, missing = [], []
                text.append(value)
                missing.extend(lost)
            exists = (
                exists or (part.quoted and not part.is_array) or bool(fields and any(v for v, _ in fields))
            )
        if exists:
            yield self._built(text, line, missing)

    def _built(self, text: list[str], line: int, missing: list[str]) -> Word:
        word = Word("".join(text), line, tuple(dict.fromkeys(missing)))
        self._grow((word,))
        return word

    def _grow(self, words: _Values) -> None:
        self.size += sum(len(word.text) + 1 for word in words)
        if self.size > 4 * MAX_TEXT:
            raise UnreadableCommand("the text is too long once its variables are replaced")

    def _values(self, part: _Part) -> _Values | None:
        """Return the values of a part; ``None`` where its variable is missing."""
        if part.variable is None:
            return (Word(part.text),)
        specified = self.variables.get(part.variable)
        if part.variable in self.variables and specified is None:
            return None
        operator = part.operator.lstrip(":")
        if operator == "+":
            return self._of_default(part) if specified is not None else ()
        if specified is not None and any(word.text for word in specified):
            return specified
        if operator in {"-", "="}:
            return self._of_default(part)
        return () if specified is not None else None

    def _of_default(self, part: _Part) -> _Values:
        return (_joined(tuple(self._expanded(list(part.default), 1, split=False))),)


def _first(tokens: list[_Token]) -> str | None:
    return next((token.plain for token in tokens if token.plain not in KEYWORDS), None)


def _fields(values: _Values, part: _Part, *, split: bool) -> list[tuple[str, tuple[str, ...]]]:
    if part.variable is None:
        return [(word.text, word.missing) for word in values]
    if part.quoted or not split:
        if part.is_array and split:
            return [(word.text, word.missing) for word in values]
        joined = _joined(values)
        return [(joined.text, joined.missing)] if values else [("", ())]
    return [(piece, word.missing) for word in values for piece in word.text.split()]


def _joined(words: _Values) -> Word:
    if len(words) == 1:
        return words[0]
    missing = tuple(dict.fromkeys(name for word in words for name in word.missing))
    return Word(" ".join(word.text for word in words), words[0].line if words else 1, missing)


def _appended(before: Word, more: Word) -> Word:
    return Word(before.text + more.text, before.line, (*before.missing, *more.missing))
