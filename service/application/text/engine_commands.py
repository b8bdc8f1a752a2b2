"""Writes the command of an engine for Docker, Compose and Kubernetes."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import yaml

from service.application.text.compose import VOLUME
from service.bundled_toml import read_toml
from service.engine_plans.engine_plan import EnginePlan

HUB_CACHE: Final = "/root/.cache/huggingface"
LONGEST_NAME: Final = 52
SHARED_MEMORY: Final = "16Gi"
"""Memory that ranks share (`/dev/shm`) in a pod."""


@dataclass(frozen=True, slots=True)
class EngineImage:
    """How an engine is run in a container."""

    image: str
    entry: tuple[str, ...]
    """Words that the image runs by itself."""
    port: int


@cache
def _images() -> Mapping[str, Any]:
    return read_toml("service.application.text", "engine_images.toml")


def image_of(plan: EnginePlan) -> EngineImage:
    """Return the image of an engine's release."""
    table = _images()[plan.engine]
    return EngineImage(table["image"].format(version=plan.version), tuple(table["entry"]), table["port"])


def docker_command(plan: EnginePlan) -> str:
    """Return one line for a shell that runs the engine's own image."""
    image, words = image_of(plan), _behind_entry(plan)
    run = ["docker", "run", "--rm", "--gpus", "all" if plan.gpus > 1 else "1", "--ipc=host"]
    run += ["-p", f"{image.port}:{image.port}", "-v", f"~/.cache/huggingface:{HUB_CACHE}", image.image]
    line = shlex.join([*run, *words, *_listening(plan)])
    # A shell expands the home directory only where it is not in quotes.
    return line.replace("'~/.cache/huggingface:", "~/.cache/huggingface:'")


def kubernetes_manifest(plan: EnginePlan) -> str:
    """Return a Deployment that runs the engine's own image, as YAML."""
    image, name = image_of(plan), _name(plan)
    container = {
        "name": plan.engine.replace(".", "-"),
        "image": image.image,
        "args": [*_behind_entry(plan), *_listening(plan)],
        "ports": [{"containerPort": image.port}],
        "resources": {"limits": {"nvidia.com/gpu": str(plan.gpus)}},
        "volumeMounts": [
            {"name": "cache", "mountPath": HUB_CACHE},
            {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 - of the container
        ],
    }
    volumes = [
        {"name": "cache", "emptyDir": {}},
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": SHARED_MEMORY}},
    ]
    manifest = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [container], "volumes": volumes},
            },
        },
    }
    return yaml.safe_dump(manifest, sort_keys=False, width=1000)


def compose_service(plan: EnginePlan) -> str:
    """Return a service of Docker Compose with a profile of its own, as YAML without its indent."""
    image, name = image_of(plan), _name(plan)
    device = {"driver": "nvidia", "count": plan.gpus, "capabilities": ["gpu"]}
    service = {
        "profiles": [name],
        "image": image.image,
        "command": [word.replace("$", "$$") for word in (*_behind_entry(plan), *_listening(plan))],
        "ports": [f"{image.port}:{image.port}"],
        "ipc": "host",
        "volumes": [f"{VOLUME}:{HUB_CACHE}"],
        "deploy": {"resources": {"reservations": {"devices": [device]}}},
    }
    return yaml.safe_dump({name: service}, sort_keys=False, width=1000)


def _behind_entry(plan: EnginePlan) -> list[str]:
    """Return the words of the command that the image does not run by itself."""
    words, entry = shlex.split(plan.command), image_of(plan).entry
    return words[len(entry) :] if tuple(words[: len(entry)]) == entry else words


def _listening(plan: EnginePlan) -> list[str]:
    """Return the words that make a server reachable from outside its container; vLLM's is by default."""
    if plan.engine == "vllm":
        return []
    return ["--host", "0.0.0.0", "--port", str(image_of(plan).port)]  # noqa: S104 - of the container


def _name(plan: EnginePlan) -> str:
    words = re.sub(r"[^a-z0-9]+", "-", f"{plan.engine} {plan.command.split()[-1]}".lower())
    return words[:LONGEST_NAME].strip("-") or "engine"
