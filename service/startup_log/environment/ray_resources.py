"""Reads what `ray status` prints: the GPUs that Ray counts, beside those that the engine waits for."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from service.startup_log.text.lines import LogLine

_COUNTED: Final = re.compile(r"^\d{1,5}(?:\.\d)?/(\d{1,5})(?:\.\d)? GPU\b")
"""A line of its resources: what is used, and all that nodes have registered."""
_ASKED: Final = re.compile(r"\{'GPU': 1(?:\.0)?[,}]")
_TIMES: Final = re.compile(r"\{'GPU': 1(?:\.0)?\} \* (\d{1,5})")
_WAITS: Final = "Waiting for creating a placement group"
"""vLLM 0.6.6 to 0.33.0, executor/ray_utils.py _wait_until_pg_ready; its end lists a bundle for each rank."""
NAME: Final = "GPU"


@dataclass(frozen=True, slots=True)
class RayGpus:
    """The GPUs of a Ray cluster, as a text shows them."""

    counted: int
    asked: int


def read_ray_gpus(lines: Sequence[LogLine]) -> RayGpus | None:
    """Return the GPUs that Ray counts and that a start waits for; ``None`` where the text lacks either."""
    counted = asked = None
    for line in lines:
        if NAME not in line.text:
            continue
        if (found := _COUNTED.match(line.text)) is not None:
            counted = int(found[1])
        elif (found := _TIMES.search(line.text)) is not None:
            asked = max(asked or 0, int(found[1]))
        elif _WAITS in line.text:
            asked = max(asked or 0, len(_ASKED.findall(line.text)))
    return RayGpus(counted, asked) if counted is not None and asked else None
