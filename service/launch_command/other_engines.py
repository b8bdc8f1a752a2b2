"""Reads a start of another engine, and says how to plan it where only those of vLLM are read."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from service.launch_command.other_texts import commands_of_containers, release_of_engine


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
NEUTRAL: Final = frozenset(
    {
        "-t", "--threads", "-tb", "--threads-batch", "--threads-http", "-a", "--alias", "--api-key",
        "--api-key-file", "--jinja", "--no-jinja", "--chat-template", "--chat-template-file",
        "--reasoning-format", "--reasoning-budget", "--metrics", "--slots", "--no-slots", "--props",
        "--no-webui", "--path", "--timeout", "-to", "-v", "--verbose", "--log-file", "--log-disable",
        "--log-prefix", "--log-timestamps", "--temp", "--top-k", "--top-p", "--min-p", "--repeat-penalty",
        "--presence-penalty", "--frequency-penalty", "-s", "--seed", "-n", "--predict", "--n-predict",
        "--no-mmap", "--mmap", "--mlock", "-cb", "--cont-batching", "-hft", "--hf-token", "--offline",
        "--no-warmup", "--warmup",
    }
)  # fmt: skip
"""Options of `llama-server` that change no memory of a GPU. Source: llama.cpp, common/arg.cpp."""
NEUTRAL_OF_SGLANG: Final = frozenset(
    {
        "--fastapi-root-path", "--trust-remote-code", "--served-model-name", "--log-level",
        "--log-level-http",
        "--log-requests", "--log-requests-level", "--enable-metrics", "--api-key", "--admin-api-key",
        "--chat-template", "--completion-template", "--tool-call-parser", "--reasoning-parser",
        "--tokenizer-mode", "--random-seed", "--watchdog-timeout", "--dist-timeout", "--dist-init-addr",
        "--nccl-init-addr", "--nccl-port", "--nnodes", "--node-rank", "--base-gpu-id", "--gpu-id-step",
        "--grammar-backend", "--decode-log-interval", "--enable-cache-report", "--schedule-policy",
        "--skip-server-warmup", "--warmups", "--crash-dump-folder", "--show-time-cost", "--download-dir",
        "--sampling-defaults", "--stream-interval", "--weight-version", "--tool-server",
        "--file-storage-path",
    }
)  # fmt: skip
"""Options of SGLang that change no memory of a rank. Source: SGLang 0.5.10, srt/server_args.py."""
ADDRESS: Final = frozenset({"--host", "--port"})
"""Options of every server."""
_NEUTRAL_OF: Final[Mapping[str, frozenset[str]]] = {
    LLAMA.engine: NEUTRAL,
    SGLANG.engine: NEUTRAL_OF_SGLANG,
}
_PROGRAM: Final = re.compile(
    r"(?:^|[\s/'\"])(llama-server|llama-cli|sglang\.launch_server|sglang(?=\s+serve)|trtllm-serve)(?=\s|$)"
)


@dataclass(frozen=True, slots=True)
class OtherStart:
    """A start of another engine."""

    engine: str
    """As ``--engine`` names it."""
    model: str
    """Empty where it names none."""
    flags: tuple[str, ...]
    """The words that are neither program nor model, without those that change no memory."""
    neutral: tuple[str, ...]
    """Names of options that change no memory."""
    version: str | None = None
    """The release that its image or its package names."""


def other_start(text: str) -> OtherStart | None:
    """Return the start of another engine in a text; ``None`` for any other text."""
    for command in (*commands_of_containers(text), text):
        found = _PROGRAM.search(command)
        if found is None:
            continue
        program = PROGRAMS[found[1]]
        model, words = _sorted(_words(command[found.end() :]), program)
        flags, neutral = _without(words, ADDRESS | _NEUTRAL_OF.get(program.engine, frozenset()))
        return OtherStart(program.engine, model, flags, neutral, release_of_engine(text, program.engine))
    return None


def advice_on(text: str) -> str:
    """Return how to plan a text that starts another engine; empty for any other text."""
    start = other_start(text)
    if start is None:
        return ""
    rest = f" --engine-flags {shlex.quote(shlex.join(start.flags))}" if start.flags else ""
    version = f" --engine-version {start.version}" if start.version else ""
    return (
        f"it starts {start.engine}, and in a body commands are read of vLLM alone; write: dryserve plan "
        f"{shlex.quote(start.model) if start.model else 'MODEL'} --engine {start.engine}{version}{rest}"
    )


def _without(words: list[str], neutral: frozenset[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return words without some options and their values, and the names of these options."""
    kept, dropped = list[str](), list[str]()
    skips = False
    for word in words:
        if word.startswith("-") and not word.lstrip("-")[:1].isdigit():
            skips = word.partition("=")[0] in neutral
            if skips:
                dropped.append(word.partition("=")[0])
        if not skips:
            kept.append(word)
    return tuple(kept), tuple(dropped)


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
