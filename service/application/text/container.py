"""What every container with the engine has: its image, its words, its port, and what is left out of them."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from service.advisor.candidates.plan_types import Candidate, Plan
from service.application.text.words import sizes
from service.gpus.gpu_type import GpuType
from service.gpus.slices import profile_in
from service.hub.model_files.model_ids import is_path
from service.launch_command.command_reading import CommandReading
from service.units import ceil_div

IMAGE: Final = "vllm/vllm-openai"
"""The engine's own image, tagged by release."""
CACHE: Final = "/root/.cache/huggingface"
"""Folder of the image for models."""
PORT: Final = 8000
SIX_DIGITS: Final = 6
GPUS_OF_A_NODE: Final = 8
NOT_THERE: Final = "is not in the container: mount the folder, and give its path there"
LOOPBACK: Final = re.compile(r" --host[ =](?:127\.\d+\.\d+\.\d+|localhost|::1)(?= |$)")
"""An option that makes the engine listen for its own host alone."""
LONGEST_NAME: Final = 52
"""Characters of a name in Kubernetes, which appends some to those of pods (63 at most)."""
UUID: Final = "<uuid>"
"""Stands for the id of a slice, which only its host knows."""


@dataclass(frozen=True, slots=True)
class Block:
    """The command for one GPU type, with its comments."""

    comments: tuple[str, ...]
    command: str
    """Empty where there is none."""


def patched(plan: Plan) -> tuple[str, ...]:
    """Say which patches a plan has that no image holds."""
    patches = ", ".join(plan.engine.patches)
    return (f"planned with {patches}, which no image holds",) if patches else ()


def image(plan: Plan) -> str:
    """Return the engine's image of the planned release."""
    return f"{IMAGE}:v{plan.engine.version}"


def nodes_of(best: Candidate) -> int:
    """Return how many nodes a candidate takes."""
    return ceil_div(best.gpus, GPUS_OF_A_NODE)


def nodes_words(best: Candidate) -> str:
    """Say how many GPUs on how many nodes a candidate takes."""
    return f"{best.gpus} GPUs ({sizes(best)}) are {nodes_of(best)} nodes of {GPUS_OF_A_NODE}"


def starts_all(best: Candidate, command: CommandReading | None) -> bool:
    """Whether a text that was read starts the engine on as many nodes as a candidate takes."""
    return command is not None and command.nodes >= nodes_of(best)


def several_nodes(best: Candidate, command: CommandReading | None) -> str:
    """Say that a command starts the processes of one node alone; empty where that is all.

    A text that was read, such as a manifest, can start those of the other nodes too.
    """
    if nodes_of(best) == 1:
        return ""
    if starts_all(best, command):
        return f"{nodes_words(best)}: this line is of the first, the text that was read has those of all"
    what = "this line alone does not start them; --format kubernetes writes what each node runs"
    return f"{nodes_words(best)}: {what}"


def folders(best: Candidate) -> tuple[str, ...]:
    """Return the folders that the command reads: of the model, and of the draft with which it speculates."""
    speculative = best.flags.speculative_config
    named = (best.model.id, None if speculative is None else speculative.model)
    return tuple(each for each in named if each is not None and is_path(each))


def mounted(best: Candidate) -> tuple[str, ...]:
    """Return the folders that a container of this host can have: those with a whole path."""
    return tuple(each for each in folders(best) if each.startswith("/"))


def not_mounted(best: Candidate) -> tuple[str, ...]:
    """Say which folders the container lacks."""
    absent = (each for each in folders(best) if each not in mounted(best))
    return tuple(f"{each} {NOT_THERE}" for each in absent)


def in_container(best: Candidate) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the words of the command in a container, and what they leave out.

    An address of the container's own loopback would keep its port from everybody else.
    """
    words, options = best.command_words, shlex.join(best.command_words)
    kept = LOOPBACK.sub("", options)
    if kept == options:
        return tuple(words), ()
    address = LOOPBACK.findall(options)[-1].strip()
    return tuple(shlex.split(kept)), (f"left out {address}: only the container itself could reach it",)


def port(best: Candidate) -> int:
    """Return the port on which the command listens."""
    words = best.carried.words
    after = words[words.index("--port") + 1 :][:1] if "--port" in words else ()
    return int(after[0]) if after and after[0].isdecimal() and len(after[0]) < SIX_DIGITS else PORT


def left_out(best: Candidate) -> tuple[str, ...]:
    """Say what the caller's command holds that is not repeated."""
    carried = best.carried
    secret = (f"left out, add it: {', '.join(carried.left_out)} (secret)",) if carried.left_out else ()
    names = ", ".join(f"{name} ({variables})" for name, variables in carried.not_given)
    return (*secret, *((f"left out, its value is not given: {names}",) if names else ()))


def name_of(plan: Plan, gpu: GpuType, best: Candidate) -> str:
    """Return a name of the model, and of the GPU type where there are several, so that none replaces another.

    It is as Kubernetes and Compose allow it: lower case, digits and hyphens.
    """
    model = _slug(best.model.id.rpartition("/")[2])
    if len(plan.plans) == 1:
        return f"vllm-{model}"[:LONGEST_NAME].strip("-")
    last = _slug(gpu.id)[-LONGEST_NAME + len("vllm-") :].strip("-")
    first = f"vllm-{model}"[: LONGEST_NAME - len(last) - 1].strip("-")
    return f"{first}-{last}"


def _slug(words: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")


def slice_of(gpu: GpuType) -> str | None:
    """Return the profile of a MIG instance, such as ``1g.10gb``; ``None`` for whole GPUs."""
    return profile_in(gpu.name) or profile_in(gpu.id) if gpu.is_slice else None


def slice_words(profile: str) -> str:
    """Say which id to put in place of the placeholder."""
    return f"put the id of a {profile} slice in place of {UUID}: nvidia-smi -L lists them"


def as_yaml(document: Mapping[str, Any]) -> str:
    """Return a manifest with equal parts in full: kubectl reads anchors, but people do not."""
    import yaml  # noqa: PLC0415 - only manifests need it

    class Plain(yaml.SafeDumper):
        def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - of the base class
            return True

    text: str = yaml.dump(document, Dumper=Plain, sort_keys=False, width=1 << 20, allow_unicode=True)
    return text.rstrip("\n")
