"""Every config that the repository keeps, by a name."""

import gzip
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from service.hub.bundled.snapshot import BundledSnapshot
from tests.accuracy.recorded import RECORDINGS

DRAFTS = Path(__file__).parent.parent / "data" / "drafts" / "configs.json.gz"


@cache
def recorded_configs() -> Mapping[str, Mapping[str, Any]]:
    """Return the bundled snapshot's configs and those that recorded rows ran on."""
    snapshot = BundledSnapshot()
    bundled = {name: fetched.config for name in snapshot.ids() if (fetched := snapshot.get(name)) is not None}
    others = {name: config for recorded in RECORDINGS for name, config in recorded.configs.items()}
    with gzip.open(DRAFTS, "rt", encoding="utf-8") as text:
        return {**bundled, **others, **json.load(text)}
