"""What holds for every text: quoted words come back, nothing crashes, and time grows with the length."""

import contextlib
import shlex
import time
from collections.abc import Callable

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from service.launch_command.documents.documents import MAX_DEPTH, read_documents
from service.launch_command.launch import MAX_TEXT, UnreadableCommand
from service.launch_command.read_commands import read_command
from service.launch_command.shell.shell_words import simple_commands

WORDS = st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\x00\r"), max_size=20), max_size=8)
PIECES = st.sampled_from(
    [
        *(
            "vllm",
            "serve",
            "docker",
            "run",
            "vllm/vllm-openai:v0.19.0",
            "a/b",
            "-tp",
            "--tensor-parallel-size=2",
        ),
        *(
            "'",
            '"',
            "\\",
            "\n",
            "$",
            "${",
            "}",
            "$(",
            ")",
            "(",
            "`",
            "<<EOF",
            "EOF",
            "&&",
            "|",
            "#",
            ";",
            " ",
        ),
        *(
            "X=1",
            "X+=(",
            "if",
            "then",
            "fi",
            "export",
            "--x.y",
            "{",
            "[",
            "]",
            ":",
            "- ",
            "command:",
            "image:",
        ),
        *(
            "services:",
            "kind: Pod",
            "apiVersion: v1",
            "\t",
            "&a",
            "*a",
            "!!python/object:os.system",
            "---",
            "...",
            "%",
        ),
        *(
            "[Service]",
            "ExecStart=",
            "LLM(",
            "engine_kwargs",
            "=",
            ",",
            "1",
            "-1",
            "--",
            "\x00",
            "\u2028",
            "\ud800",
        ),
    ]
)
TEXTS = st.one_of(
    st.lists(PIECES, max_size=60).map("".join),
    st.lists(PIECES, max_size=60).map(" ".join),
    st.text(max_size=300),
)


@given(WORDS)
def test_words_that_were_quoted_come_back(words: list[str]) -> None:
    found = simple_commands("run " + shlex.join(words))
    assert [word.text for word in found[0].words] == ["run", *words]
    assert not any(word.missing for word in found[0].words)


@given(WORDS.filter(bool))
def test_words_in_double_quotes_come_back(words: list[str]) -> None:
    escaped = ["".join(f"\\{each}" if each in '"\\$`' else each for each in word) for word in words]
    found = simple_commands("run " + " ".join(f'"{word}"' for word in escaped))
    assert [word.text for word in found[0].words] == ["run", *words]


@given(WORDS)
def test_a_variable_in_quotes_is_one_word(words: list[str]) -> None:
    lines = [f"V{index}={shlex.quote(word)}" for index, word in enumerate(words)]
    uses = " ".join(f'"$V{index}"' for index in range(len(words)))
    found = simple_commands("\n".join([*lines, f"run {uses}"]))
    assert [word.text for word in found[-1].words] == ["run", *words]


@settings(max_examples=400)
@given(TEXTS)
@example("vllm serve a/b --compilation-config " + "[" * 500)
@example("{" * 200)
@example("LLM(" * 100)
@example("x = " + "-" * 5000 + "1\nLLM(x)")
@example("vllm serve a/b -O")
@example("vllm serve a/b --port")
@example("vllm serve a/b --=1 --.x 1 -")
@example("&a [*a]")
@example("a: &a {b: *a}\ncommand: vllm serve x")
def test_no_text_crashes_the_reader(text: str) -> None:
    with contextlib.suppress(UnreadableCommand):
        assert isinstance(read_command(text).doubts(), tuple)


LINES = {
    "continuations": lambda n: "vllm serve a/b" + " \\\n --port 1" * n,
    "quotes": lambda n: "vllm serve a/b " + "'a' " * n,
    "empty quotes": lambda n: "vllm serve a/b " + "''" * n,
    "commands": lambda n: "echo vllm;" * (n // 4) + "vllm serve a/b",
    "exports": lambda n: "".join(f"export A{i}=vllm\n" for i in range(n // 2)) + "vllm serve a/b",
    "assignments": lambda n: "A=1\n" * n + "vllm serve $A",
    "branches": lambda n: "if true; then A=1; else A=2; fi\n" * (n // 4) + "vllm serve a/b",
    "open branches": lambda n: "if A; then B=1\n" * (n // 2) + "vllm serve a/b",
    "defaults": lambda n: "vllm serve " + "${A:-" * n,
    "substitutions": lambda n: "vllm serve " + "$(" * n,
    "documents": lambda n: "vllm serve a/b <<E\n" * n,
    "brackets": lambda n: "vllm serve a/b " + "(" * n,
    "yaml list": lambda n: "args:\n" + "- x\n" * n + "- vllm",
    "yaml flow": lambda n: "a: " + "[" * min(n, MAX_DEPTH - 5) + "x," * n,
    "yaml keys": lambda n: "".join(f"k{i}: v\n" for i in range(n)) + "command: vllm serve x",
    "yaml question marks": lambda n: "a:\n" + "? " * n,
    "indented": lambda n: "\n".join(" " * (i % 200) + "- vllm" for i in range(n // 8)),
    "python": lambda n: "LLM('a')\n" * n,
    "unit": lambda n: "[Service]\n" + "Environment=A=1\n" * n + "ExecStart=vllm serve a/b",
    "unit lines": lambda n: "[Service]\nExecStart=vllm serve a/b \\\n" + " --port 1 \\\n" * n,
    "fences": lambda n: "```\n" * n + "vllm serve a/b",
    "spaces": lambda n: "[Service]" + " " * n + "\n" + "ExecStart" + " " * n,
    "placeholders": lambda n: "vllm serve a/b " + "<a" * n,
}


@pytest.mark.parametrize("text_of", LINES.values(), ids=LINES)
def test_time_grows_with_the_length_alone(text_of: Callable[[int], str]) -> None:
    def seconds(count: int) -> float:
        text = text_of(count)
        assert len(text) <= MAX_TEXT
        best = float("inf")
        for _ in range(3):
            began = time.perf_counter()
            with contextlib.suppress(UnreadableCommand):
                read_command(text)
            best = min(best, time.perf_counter() - began)
        return best

    # Four times the text takes four times as long; a square would take sixteen times.
    assert seconds(3200) < 10 * seconds(800) + 0.3


def test_a_long_text_is_refused() -> None:
    with pytest.raises(UnreadableCommand, match="characters"):
        read_command("vllm serve a/b " + "x" * MAX_TEXT)


def test_a_variable_that_doubles_is_refused() -> None:
    doubling = "A=aaaaaaaaaaaaaaaa\n" + "A=$A$A\n" * 40 + "vllm serve $A"
    with pytest.raises(UnreadableCommand, match="too long"):
        read_command(doubling)


def test_aliases_that_multiply_are_refused() -> None:
    levels = "".join(f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 10)}]\n" for i in range(1, 9))
    with pytest.raises(UnreadableCommand, match="values"):
        read_documents("l0: &l0 [x]\n" + levels)


def test_a_deep_document_is_refused() -> None:
    with pytest.raises(UnreadableCommand, match="deeper"):
        read_documents("[" * 1000)


def test_no_tag_makes_an_object() -> None:
    assert read_documents("a: !!python/object/apply:os.system [x]\nb: !!int '7'\nc: !!binary aGk=") == (
        {"a": ["x"], "b": 7, "c": "aGk="},
    )


@pytest.mark.parametrize(
    "text",
    [
        "a: 1\nb: [x, 2.5, true, null, 'on']\n",
        "- a\n- {b: {c: 0x1F}}\n",
        "a: &x {b: 1}\nc: *x\n",
        "- ~\n- 1e3\n",
    ],
)
def test_documents_are_those_of_the_safe_loader(text: str) -> None:
    assert read_documents(text) == (yaml.safe_load(text),)
