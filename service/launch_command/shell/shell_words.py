"""Reads the commands of a shell text, and replaces variables that the text sets.

Nothing is executed: a command substitution, or a variable that the text does not set, stays in the word,
which then names it as missing.

Source: POSIX.1-2024, Shell Command Language, section 2.6.2 (parameter expansion); arrays as bash has them.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from service.launch_command.launch import MAX_TEXT, MAX_WORDS, UnreadableCommand, Word
from service.launch_command.shell.shell_tokens import ASSIGNMENT, ShellLexer, ShellToken, WordPart

MAX_COMMANDS: Final = 4096
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
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


def simple_commands(
    text: str, variables: Mapping[str, Word] = MappingProxyType({})
) -> tuple[SimpleCommand, ...]:
    """Return the commands of a shell text in order.

    Args:
        text: the text.
        variables: what the shell finds in its environment.

    Raises:
        UnreadableCommand: a quote is not closed, or the text is longer than ``MAX_TEXT`` with its variables.
    """
    return tuple(_Runner(variables).run(ShellLexer(text)))


_Values = tuple[Word, ...]


@dataclass(slots=True)
class _Branching:
    """Variables that a branch wrote, with what they were before."""

    before: dict[str, _Values | None] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)


class _Runner:
    """Tokens to commands: follows assignments in the order of the text."""

    def __init__(self, variables: Mapping[str, Word]) -> None:
        known = {name: (word,) for name, word in variables.items() if not word.missing}
        self.variables: dict[str, _Values | None] = {**known}
        """``None``: set, but to different values in different branches."""
        self.exported: dict[str, None] = dict.fromkeys(known)
        self.branches: list[_Branching] = []
        self.size = 0

    def run(self, lexer: ShellLexer) -> Iterator[SimpleCommand]:
        """Yield the commands."""
        tokens: list[ShellToken] = []
        before, count, after_test = 0, 0, False
        for token in (*lexer.tokens(), ShellToken(lexer.line, operator="\n")):
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
        self, command: SimpleCommand | None, documents: int, before: int, lexer: ShellLexer
    ) -> Iterator[SimpleCommand]:
        if command is None:
            return
        if documents:
            # Reading the line's end made the lexer read the bodies, unless another command shares the line.
            bodies = tuple(lexer.bodies[before : before + documents])
            command = SimpleCommand(command.words, command.environment, bodies, command.target)
        yield command

    def _command(self, tokens: list[ShellToken], *, maybe: bool) -> SimpleCommand | None:
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

    def _without_redirections(self, tokens: list[ShellToken]) -> tuple[list[ShellToken], str | None]:
        words: list[ShellToken] = []
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

    def _declare(self, words: list[ShellToken], *, exported: bool, maybe: bool) -> None:
        for token in words:
            pair = self._assignment(token) or self._quoted_assignment(token)
            if pair is not None:
                self._set(*pair, maybe=maybe)
            name = pair[0] if pair else token.plain
            if exported and name and _NAME.fullmatch(name):
                self.exported[name] = None

    def _quoted_assignment(self, token: ShellToken) -> tuple[str, _Values] | None:
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

    def _assignment(self, token: ShellToken) -> tuple[str, _Values] | None:
        """Return the name and the value of ``NAME=value``; ``None`` for another word."""
        if token.operator or not token.parts or token.parts[0].quoted or token.parts[0].variable is not None:
            return None
        found = ASSIGNMENT.match(token.parts[0].text)
        if found is None:
            return None
        rest = [WordPart(token.parts[0].text[found.end() :]), *token.parts[1:]]
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

    def _expanded(self, parts: list[WordPart], line: int, *, split: bool = True) -> Iterator[Word]:
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

    def _values(self, part: WordPart) -> _Values | None:
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

    def _of_default(self, part: WordPart) -> _Values:
        return (_joined(tuple(self._expanded(list(part.default), 1, split=False))),)


def _first(tokens: list[ShellToken]) -> str | None:
    return next((token.plain for token in tokens if token.plain not in KEYWORDS), None)


def _fields(values: _Values, part: WordPart, *, split: bool) -> list[tuple[str, tuple[str, ...]]]:
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
