"""Which starts the constants of the memory budget are fitted on, and which only judge them.

Models and labs are dealt out by lot, each by its own name, so that a row keeps its part whatever rows come.
"""

import re
from enum import StrEnum
from hashlib import sha256
from random import Random
from typing import Final

from tests.accuracy.startups_told import Startup

SEED: Final = 6
"""The first that leaves the fit a start of each way of profiling since 0.18, and one on the host's memory."""
CAMPAIGN: Final = "llm-d-incubation"
"""The only lab whose logs name every term: without it there would be nothing to fit."""


FOUND: Final = "g"
"""What the ids begin with of the rows that were gathered to judge alone."""
UNFITTED: Final = "h"
"""The same of those that were gathered after them."""
LAST: Final = "u"
"""The same of those that were gathered last: half of their threads to learn from, and half sealed."""
ADDED: Final = "w"
"""The same of a few that were added to these the day after, and dealt out in the same way."""
NEWEST: Final = "z"
"""The same of those that were gathered when all constants stood, and scored before anything was changed."""
LATEST: Final = "n"
"""The same of those that were gathered after them, in the same way."""
NIGHT: Final = "y"
"""The same of those that were gathered after these, in the same way."""
MIDNIGHT: Final = "d"
"""The same of those that were gathered after these, in the same way."""
DAWN: Final = "k"
"""The same of those that were gathered after these, in the same way."""
SEVENTH: Final = "q"
"""The same of those that were gathered four days after these, in the same way."""
EIGHTH: Final = "e"
"""The same of those that were gathered after these, in the same way."""
NINTH: Final = "i"
"""The same of those that were gathered after these, in the same way."""
TENTH: Final = "t"
"""The same of those that were gathered after these, in the same way."""
ELEVENTH: Final = "v"
"""The same of those that were gathered the day after these, in the same way."""
TWELFTH: Final = "b"
"""The same of those that were gathered after these, in the same way."""
THIRTEENTH: Final = "c"
"""The same of those that were gathered after these, in the same way."""


class Part(StrEnum):
    """What a fit may see of a row."""

    FIT = "fit"
    OTHER_MODEL = "held out: model"
    """The fit sees other models of this lab."""
    OTHER_LAB = "held out: lab"
    """The fit sees the model in other labs."""
    OTHER = "held out: model and lab"
    FOUND = "held out: found"
    """Gathered after the first constants were fitted, from sources of their own."""
    UNFITTED = "held out: unfitted"
    """Gathered after all of these; two of them show what ``compiling_copies`` says."""
    LEARNT = "fit: gathered last"
    """Gathered last, and looked at row by row."""
    SEALED = "held out: sealed"
    """Gathered last, and seen only in sum until the end of 23 November; see ``NEVER_FITTED``."""
    NEWEST = "held out: sealed 2026-11-23"
    """Gathered after all of these, and scored once before anything was changed."""
    LATEST = "held out: sealed 2026-11-23, evening"
    """Gathered after these, and scored once before anything was changed."""
    NIGHT = "held out: sealed 2026-11-23, night"
    """Gathered after these, and scored once before anything was changed."""
    MIDNIGHT = "held out: sealed 2026-11-23, midnight"
    """Gathered after these, and scored once before anything was changed."""
    DAWN = "held out: sealed 2026-11-24"
    """Gathered after these, and scored once before anything was changed."""
    SEVENTH = "held out: sealed 2026-11-28"
    """Gathered after these, and scored once before anything was changed."""
    EIGHTH = "held out: sealed 2026-11-28, afternoon"
    """Gathered after these, and scored once before anything was changed."""
    NINTH = "held out: sealed 2026-11-28, evening"
    """Gathered after these, and scored once before anything was changed."""
    TENTH = "held out: sealed 2026-11-28, night"
    """Gathered after these, and scored once before anything was changed."""
    ELEVENTH = "held out: sealed 2026-11-29"
    """Gathered after these, and scored once before anything was changed."""
    TWELFTH = "held out: sealed 2026-11-29, morning"
    """Gathered after these, and scored once before anything was changed."""
    THIRTEENTH = "held out: sealed 2026-11-29, afternoon"
    """Gathered after these, and scored once before anything was changed."""


NEVER_FITTED: Final = frozenset(
    {
        Part.SEALED,
        Part.NEWEST,
        Part.LATEST,
        Part.NIGHT,
        Part.MIDNIGHT,
        Part.DAWN,
        Part.SEVENTH,
        Part.EIGHTH,
        Part.NINTH,
        Part.TENTH,
        Part.ELEVENTH,
        Part.TWELFTH,
        Part.THIRTEENTH,
    }
)
"""Parts that only judge. Of the first four the worst rows were read once, to find what ``compiling_copies``
says, and ``unexplained_mib`` is read from them, so that for these two only the last parts judge; the last
three alone judge ``base_mib_v2`` and ``spread_percent_v2``, for which peaks that the others log were read.
"""


WHOLE: Final = {
    FOUND: Part.FOUND,
    UNFITTED: Part.UNFITTED,
    NEWEST: Part.NEWEST,
    LATEST: Part.LATEST,
    NIGHT: Part.NIGHT,
    MIDNIGHT: Part.MIDNIGHT,
    DAWN: Part.DAWN,
    SEVENTH: Part.SEVENTH,
    EIGHTH: Part.EIGHTH,
    NINTH: Part.NINTH,
    TENTH: Part.TENTH,
    ELEVENTH: Part.ELEVENTH,
    TWELFTH: Part.TWELFTH,
    THIRTEENTH: Part.THIRTEENTH,
}
"""Parts of starts that were gathered together and not dealt out."""


def part(startup: Startup) -> Part:
    """Return the part of a start."""
    gathered = WHOLE.get(startup.id[0])
    if gathered is not None:
        return gathered
    if startup.id.startswith((LAST, ADDED)):
        return Part.SEALED if sha256(thread(startup).encode()).digest()[0] % 2 else Part.LEARNT
    model = _is_drawn(f"model {startup.known.config}")
    own = lab(startup) == CAMPAIGN or _is_drawn(f"lab {lab(startup)}")
    if model:
        return Part.FIT if own else Part.OTHER_LAB
    return Part.OTHER_MODEL if own else Part.OTHER


def is_held_out(startup: Startup) -> bool:
    """Whether no constant was fitted on the start."""
    return part(startup) not in {Part.FIT, Part.LEARNT}


def thread(startup: Startup) -> str:
    """Return the address of what a log is part of: a repository, a thread or a file."""
    repository = re.match(r"https://github\.com/[^/]+/[^/]+", startup.source)
    return repository[0] if repository else startup.source


def lab(startup: Startup) -> str:
    """Return who published the log."""
    owner = re.search(r"github\.com/([^/]+)", startup.source)
    return owner[1] if owner else startup.source


def _is_drawn(name: str) -> bool:
    return Random(f"{SEED} {name}").random() < 1 / 2
