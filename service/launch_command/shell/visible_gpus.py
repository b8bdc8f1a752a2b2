"""The GPUs that a start sees: by options of a container, and by variables of its process."""

import re
from collections.abc import Mapping
from typing import Final

from service.launch_command.launch import Placement, Word

_DEVICES: Final = re.compile(r"devices?=([A-Za-z0-9,:/_-]+)")


def gpus_of(text: str) -> int | None:
    """Return the number of GPUs of ``--gpus``: a number, or a list of devices; ``None`` for ``all``."""
    text = text.strip("'\"")
    if re.fullmatch(r"[0-9]{1,4}", text):
        return int(text)
    count = re.fullmatch(r"count=(\d{1,4})(?:,.*)?", text)
    if count is not None:
        return int(count[1])
    return len(listed_devices(text)) or None


def listed_devices(text: str) -> tuple[str, ...]:
    """Return the devices that ``--gpus`` lists; none for a number of them, or all."""
    found = _DEVICES.search(text.strip("'\""))
    return tuple(filter(None, found[1].split(","))) if found and "=all" not in text else ()


def placement_of_devices(devices: tuple[str, ...]) -> Placement:
    """Return where a start runs that sees some devices; any where they are not named."""
    return Placement(gpus_per_node=len(devices) or None, devices=devices)


def seen_inside(outside: tuple[str, ...], inside: tuple[str, ...]) -> tuple[str, ...]:
    """Return the devices that a variable inside a container leaves of those that the container has."""
    if not outside or not inside or not all(each.isdecimal() and int(each) < len(outside) for each in inside):
        return inside or outside
    return tuple(outside[int(each)] for each in inside)


def visible_devices(environment: Mapping[str, Word]) -> tuple[str, ...]:
    """Return the GPUs that a variable leaves visible; none where it does not name them."""
    for name in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
        word = environment.get(name)
        if word is not None and not word.missing and re.fullmatch(r"[\w-]+(,[\w-]+){0,127}", word.text):
            return () if word.text in {"all", "void", "none", "-1"} else tuple(word.text.split(","))
    return ()
