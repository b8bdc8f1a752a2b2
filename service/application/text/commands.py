"""Writes the commands that start what a plan recommends, for a shell, Docker, Compose or Kubernetes."""

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

from service.advisor.candidates.plan_types import Candidate, GpuPlan, Plan
from service.advisor.candidates.verdict import Verdict
from service.application.text.compose import compose_file, compose_service
from service.application.text.container import (
    CACHE,
    UUID,
    Block,
    image,
    in_container,
    left_out,
    mounted,
    nodes_of,
    nodes_words,
    not_mounted,
    patched,
    port,
    several_nodes,
    slice_of,
    slice_words,
)
from service.application.text.kubernetes import kubernetes
from service.application.text.plan_format import CommandFormat
from service.application.text.words import printable, verdict_words
from service.gpus.gpu_type import GpuType


@dataclass(frozen=True, slots=True)
class Written:
    """Commands, and what a person should know about them. A shell never runs the comments."""

    commands: str
    """Empty where nothing can be run."""
    comments: str
    """Lines that start with ``#``; empty where there is nothing to say."""


def render_commands(plan: Plan) -> Written:
    """Write the recommended command for each GPU type, each on one line that a shell can run."""

    def line(best: Candidate) -> Block:
        several = several_nodes(best, plan.command)
        return _line(best.command, *filter(None, (several,)), *left_out(best))

    return _written(
        plan,
        lambda _, best: line(best),
        numbered=True,
    )


def render_docker(plan: Plan) -> Written:
    """Write the recommended command for each GPU type as one that runs the engine's own image."""
    return _written(plan, lambda gpu, best: _docker(plan, gpu, best), numbered=True)


def render_kubernetes(plan: Plan) -> Written:
    """Write a Deployment for each GPU type, or a LeaderWorkerSet where the engine needs several nodes."""
    return _written(plan, lambda gpu, best: kubernetes(plan, gpu, best), separator="---\n")


def render_compose(plan: Plan) -> Written:
    """Write one file for Docker Compose, with a service for each GPU type."""
    written = _written(plan, lambda gpu, best: compose_service(plan, gpu, best))
    return Written(compose_file(written.commands), written.comments)


COMMANDS: Final[Mapping[CommandFormat, Callable[[Plan], Written]]] = {
    "command": render_commands,
    "docker": render_docker,
    "kubernetes": render_kubernetes,
    "compose": render_compose,
}
"""Writers of commands by format."""


def _written(
    plan: Plan, write: Callable[[GpuType, Candidate], Block], separator: str = "", *, numbered: bool = False
) -> Written:
    """Return the commands of all GPU types; ``numbered``: each is one line, and its comments say which."""
    single = len(plan.plans) == 1
    blocks = [_block(gpu, write, bare=single) for gpu in plan.plans]
    commands = [each.command for each in blocks if each.command]
    if numbered and len(commands) > 1:
        blocks = list(_numbered(blocks))
    return Written(
        commands=separator.join(f"{each}\n" for each in commands),
        comments="".join(map(_commented, (_other_starts(plan), *blocks))),
    )


def _numbered(blocks: Iterable[Block]) -> Iterator[Block]:
    number = 0
    for block in blocks:
        number += bool(block.command)
        first, *rest = block.comments
        yield Block((f"line {number}: {first}", *rest), block.command) if block.command else block


def _other_starts(plan: Plan) -> Block:
    """Say that the text holds further starts, for which no command is written."""
    others = () if plan.command is None else plan.command.others
    lines = ", ".join(f"line {line}" for line, _ in others)
    words = (
        f"the text starts the engine {len(others) + 1} times, also at {lines}: only the first is planned; "
        "dryserve colocate plans all of them on one GPU"
    )
    return Block((words,) if others else (), "")


def _commented(block: Block) -> str:
    return "".join(f"# {' '.join(printable(each).split())}\n" for each in block.comments)


def _block(plan: GpuPlan, write: Callable[[GpuType, Candidate], Block], *, bare: bool) -> Block:
    best = plan.recommended
    if best is None:
        what = "nothing starts" if plan.verdict is Verdict.REFUSED else "nothing is recommended"
        return Block((f"{plan.gpu.id}: {what}: {plan.reason}",), "")
    block = write(plan.gpu, best)
    doubts = () if best.verdict is not Verdict.UNCERTAIN else best.doubts or (plan.reason,)
    comments = (*(f"uncertain: {doubt}" for doubt in doubts), *block.comments)
    if bare:
        return Block(comments, block.command)
    title = f"{best.gpus} x {plan.gpu.id}, {best.kv_cache_dtype}: {verdict_words(best.verdict)}"
    return Block((title, *comments), block.command)


def for_shell(command: str) -> str:
    """Return a command on one line, for a shell; control characters become spaces.

    A bare ``$(...)`` splits the line at spaces and does not obey quotes: a name could become a flag. So the
    first word of a line with quotes is quoted too: a bare ``$(...)`` finds no such program and runs nothing,
    while ``eval "$(...)"`` and a shell into which the line is pasted run the command.
    """
    parts = [" ".join(printable(word).splitlines()) for word in shlex.split(command)]
    before = list(takewhile(VARIABLE.match, parts))
    program, *words = parts[len(before) :]
    line = shlex.join((program, *words))
    if before:
        # A bare $(...) takes the variable for a program and runs nothing.
        assigned = (
            f"{name}={shlex.quote(value)}" for name, _, value in (each.partition("=") for each in before)
        )
        return f"{' '.join(assigned)} {line}"
    return line if line.split() == [program, *words] else f'"{program}" {shlex.join(words)}'


VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


QUOTED: Final = 'holds quotes or variables: paste it, or run it by eval "$(...)"'


def _line(command: str, *comments: str) -> Block:
    line = for_shell(command)
    quoted = line.startswith('"') or VARIABLE.match(line) is not None
    return Block((*comments, *((QUOTED,) if quoted else ())), line)


def _docker(plan: Plan, gpu: GpuType, best: Candidate) -> Block:
    if nodes_of(best) > 1:
        what = "one docker command cannot start them; --format kubernetes writes a LeaderWorkerSet"
        return Block((f"{nodes_words(best)}: {what}", *patched(plan)), "")
    # The image's own entrypoint changed over time, so it is always given; ranks share the host's memory.
    (program, *arguments), comments = in_container(best)
    listens = port(best)
    options = ["--rm", "--gpus", _devices(gpu, best), "--ipc", "host", "-p", f"{listens}:{listens}"]
    variables = (word for name, value in best.variables for word in ("-e", f"{name}={value}"))
    mounts = [word for each in mounted(best) for word in ("-v", f"{each}:{each}:ro")]
    words = (
        *("docker", "run", *options, "-e", "HF_TOKEN", *variables, "-v", f"huggingface:{CACHE}", *mounts),
        *("--entrypoint", program, image(plan), *arguments),
    )
    profile = slice_of(gpu)
    sliced = () if profile is None else (slice_words(profile),)
    return _line(shlex.join(words), *patched(plan), *sliced, *comments, *not_mounted(best), *left_out(best))


def _devices(gpu: GpuType, best: Candidate) -> str:
    """Return the GPUs of a container: how many, or the slice, which has no number."""
    return str(best.gpus) if slice_of(gpu) is None else f'"device={UUID}"'
