"""Writes the commands that start what a plan recommends, for a shell, Docker or Kubernetes."""

import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import yaml

from service.advisor.plan_types import Candidate, GpuPlan, Plan
from service.application.schemas.plan_body import CommandFormat

IMAGE: Final = "vllm/vllm-openai"
"""The engine's own image, tagged by release."""
REPLICAS: Final = "--data-parallel-size"
CACHE: Final = "/root/.cache/huggingface"
"""Folder of the image for models."""


def render_commands(plan: Plan) -> str:
    """Write the recommended command for each GPU type.

    For one GPU type it is the command alone, for a shell to run; for several each has a comment above it.
    """
    return _written(plan, lambda best: _for_shell(best.command))


def render_docker(plan: Plan) -> str:
    """Write the recommended command for each GPU type as one that runs the engine's own image."""
    return _written(plan, lambda best: [*_patched(plan), shlex.join(_docker_words(plan, best))])


def render_kubernetes(plan: Plan) -> str:
    """Write the recommended command for each GPU type as one container of a Kubernetes pod."""
    return _written(
        plan, lambda best: [*_patched(plan), *_shared(best), *_container(plan, best).splitlines()]
    )


COMMANDS: Final[Mapping[CommandFormat, Callable[[Plan], str]]] = {
    "command": render_commands,
    "docker": render_docker,
    "kubernetes": render_kubernetes,
}
"""Writers of commands by format."""


def _written(plan: Plan, write: Callable[[Candidate], list[str]]) -> str:
    single = len(plan.plans) == 1
    lines = (line for gpu in plan.plans for line in _lines(gpu, write, bare=single))
    return "".join(f"{line}\n" for line in lines)


def _lines(plan: GpuPlan, write: Callable[[Candidate], list[str]], *, bare: bool) -> Iterator[str]:
    best = plan.recommended
    if best is None:
        yield f"# {_in_a_comment(plan.gpu.id)}: nothing starts"
        return
    if not bare:
        verdict = best.verdict.replace("_", " ")
        yield f"# {_ranks(best)} x {_in_a_comment(plan.gpu.id)}, {best.kv_cache_dtype}: {verdict}"
    yield from write(best)


def _for_shell(command: str) -> list[str]:
    """Return a command; one with quotes gets a comment, so that a bare ``$(...)``, which splits it, fails."""
    if shlex.split(command) == command.split():
        return [command]
    return ['# holds quotes: run it by eval "$(...)"', command]


def _in_a_comment(text: str) -> str:
    """Return a name that the caller chose without line breaks, which would end the comment around it."""
    return "".join(each if each.isprintable() else " " for each in text)


def _patched(plan: Plan) -> list[str]:
    patches = ", ".join(plan.engine.patches)
    return [f"# planned with {patches}, which no image holds"] if patches else []


def _shared(best: Candidate) -> list[str]:
    words = "# ranks share memory: mount an emptyDir of medium Memory at /dev/shm"
    return [words] if _ranks(best) > 1 else []


def _ranks(best: Candidate) -> int:
    """Return how many GPUs the command takes, over all replicas."""
    words = shlex.split(best.command)
    replicas = int(words[words.index(REPLICAS) + 1]) if REPLICAS in words else 1
    return best.tensor_parallel_size * best.pipeline_parallel_size * replicas


def _image(plan: Plan) -> str:
    return f"{IMAGE}:v{plan.engine.version}"


def _docker_words(plan: Plan, best: Candidate) -> list[str]:
    # The image's own entrypoint changed over time, so it is always given; ranks share the host's memory.
    program, *arguments = shlex.split(best.command)
    options = ["--rm", "--gpus", str(_ranks(best)), "--ipc", "host", "-p", "8000:8000", "-e", "HF_TOKEN"]
    return [
        *("docker", "run", *options, "-v", f"huggingface:{CACHE}"),
        *("--entrypoint", program, _image(plan), *arguments),
    ]


def _container(plan: Plan, best: Candidate) -> str:
    program, subcommand, *arguments = shlex.split(best.command)
    container: dict[str, Any] = {
        "name": "vllm",
        "image": _image(plan),
        "command": [program, subcommand],
        "args": [_unexpanded(word) for word in arguments],
        "ports": [{"containerPort": 8000}],
        "resources": {"limits": {"nvidia.com/gpu": _ranks(best)}},
    }
    return yaml.safe_dump([container], sort_keys=False, width=1 << 20, allow_unicode=True)


def _unexpanded(word: str) -> str:
    """Return an argument in which Kubernetes does not replace ``$(NAME)`` by a variable."""
    return word.replace("$(", "$$(")
