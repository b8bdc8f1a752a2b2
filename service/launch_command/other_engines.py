"""Says how to plan a start of another engine, which is not read as one of vLLM."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class OtherProgram:
    """A program that starts another engine."""

    engine: str
    """As ``--engine`` names it."""
    model_options: tuple[str, ...]
    """Options whose value is the model."""
    model_is_word: bool = False
    """The model may be the first word that is no option."""


LLAMA: Final = OtherProgram("llama.cpp", ("-hf", "-hfr", "--hf-repo", "-m", "--model"))
SGLANG: Final = OtherProgram("sglang", ("--model-path", "--model"))
TENSORRT: Final = OtherProgram("tensorrt-llm", (), model_is_word=True)
PROGRAMS: Final[Mapping[str, OtherProgram]] = {
    "llama-server": LLAMA,
    "llama-cli": LLAMA,
    "sglang.launch_server": SGLANG,
    "sglang": SGLANG,
    "trtllm-serve": TENSORRT,
}
"""Source: llama.cpp, common/arg.cpp; SGLang, srt/server_args.py; TensorRT-LLM, commands/serve.py."""
_PROGRAM: Final = re.compile(
    r"(?:^|[\s/'\"])(llama-server|llama-cli|sglang\.launch_server|sglang(?=\s+serve)|trtllm-serve)(?=\s|$)"
)


def advice_on(text: str) -> str:
    """Return how to plan a text that starts another engine; empty for any other text."""
    found = _PROGRAM.search(text)
    if found is None:
        return ""
    program = PROGRAMS[found[1]]
    model, flags = _sorted(_words(text[found.end() :]), program)
    rest = f" --engine-flags {shlex.quote(shlex.join(flags))}" if flags else ""
    return (
        f"it starts {program.engine}, and commands are read of vLLM alone; write: "
        f"dryserve plan {shlex.quote(model) if model else 'MODEL'} --engine {program.engine}{rest}"
    )


def _words(text: str) -> list[str]:
    """Return the words of the first command of a text, over lines that end in a backslash."""
    line = text.replace("\\\n", " ").lstrip(" \t").partition("\n")[0]
    try:
        return shlex.split(line)
    except ValueError:
        return line.split()


def _sorted(words: list[str], program: OtherProgram) -> tuple[str, list[str]]:
    """Return the model that words name, empty if none, and the other words."""
    model, flags = "", list[str]()
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=")
        if name in program.model_options:
            model = value if equals else next(rest, "")
        elif program.model_is_word and not model and not flags and not word.startswith("-"):
            model = "" if word == "serve" else word
        elif word != "serve" or flags:
            flags.append(word)
    return model, flags
