"""Writes what a plan recommends as a service of Docker Compose.

Source: the Compose specification (compose-spec/compose-spec): services, profiles,
deploy.resources.reservations.devices, and interpolation, in which ``$$`` stands for a dollar sign.
"""

from textwrap import indent
from typing import Any, Final

from service.advisor.candidates.plan_types import Candidate, Plan
from service.application.text.container import (
    CACHE,
    UUID,
    Block,
    as_yaml,
    image,
    in_container,
    left_out,
    mounted,
    name_of,
    nodes_of,
    nodes_words,
    not_mounted,
    patched,
    port,
    slice_of,
    slice_words,
)
from service.gpus.gpu_type import GpuType

VOLUME: Final = "huggingface"


def compose_file(services: str) -> str:
    """Return a file with services, which are given without their indent; empty without any."""
    return services and f"services:\n{indent(services, '  ')}volumes:\n  {VOLUME}: {{}}\n"


def compose_service(plan: Plan, gpu: GpuType, best: Candidate) -> Block:
    """Return the service for one GPU type; where there are several types, each has a profile of its own."""
    if nodes_of(best) > 1:
        what = "Compose starts one machine; --format kubernetes writes a LeaderWorkerSet"
        return Block((f"{nodes_words(best)}: {what}", *patched(plan)), "")
    (program, *arguments), comments = in_container(best)
    name, listens, profile = name_of(plan, gpu, best), port(best), slice_of(gpu)
    several = len(plan.plans) > 1
    service: dict[str, Any] = {
        **({"profiles": [name]} if several else {}),
        "image": image(plan),
        "entrypoint": [program],
        "command": [_literal(word) for word in arguments],
        "environment": ["HF_TOKEN", *(f"{key}={_literal(value)}" for key, value in best.variables)],
        "ports": [f"{listens}:{listens}"],
        "ipc": "host",
        "volumes": [
            f"{VOLUME}:{CACHE}",
            *(f"{_literal(each)}:{_literal(each)}:ro" for each in mounted(best)),
        ],
        "deploy": {"resources": {"reservations": {"devices": [_device(profile, best)]}}},
    }
    sliced = () if profile is None else (slice_words(profile),)
    chosen = (f"start it by docker compose --profile {name} up",) if several else ()
    said = (*patched(plan), *chosen, *sliced, *comments, *not_mounted(best), *left_out(best))
    return Block(said, as_yaml({name: service}))


def _device(profile: str | None, best: Candidate) -> dict[str, Any]:
    which = {"count": best.gpus} if profile is None else {"device_ids": [UUID]}
    return {"driver": "nvidia", **which, "capabilities": ["gpu"]}


def _literal(word: str) -> str:
    """Return a word in which Compose replaces no variable."""
    return word.replace("$", "$$")
