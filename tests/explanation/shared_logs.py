"""Whole logs and excerpts from public places, with what a person found to be true of each.

A folder holds ``index.jsonl`` and ``raw/<id>*.txt`` (or ``.txt.gz``). A row of the index has ``id``,
``source``, ``outcome`` (``ok``, ``fail``, ``ok-then-died``, ``fail-silent``, ``interrupted``) and ``cause``:
names of causes of which any is right; none where the text has no failure. ``X:`` marks the reader's own name.
"""

import asyncio
import gzip
import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from service.application.plans.log_requests import log_request
from service.application.schemas.explanation import ExplainBody
from service.application.services import Services
from service.bootstrap import build_services
from service.explanation.explanation_types import Agreement, CauseBasis, Explanation
from service.hub.caches.cache import HubCache
from service.hub.hub_client import HubClient
from service.hub.model_source import ModelSource
from service.hub.transport.transfer import hub_http
from service.plan_services import endpoint_of
from service.settings import Settings
from service.startup_log.log import read_log
from tests.advice.models import gather

DATA: Final = Path(__file__).parents[1] / "data" / "logs"
NAMES: Final[Mapping[str, list[str]]] = tomllib.loads((DATA / "names.toml").read_text("utf-8"))["names"]
"""The product's names for causes that a reader named otherwise."""


@dataclass(frozen=True, slots=True)
class SharedLog:
    """One text, with what a person found in it."""

    id: str
    text: str
    outcome: str
    causes: frozenset[str]
    """The product's names of the right causes; empty where the text has no failure."""
    type: str | None = None
    """Class of the exception of a failure that has no cause in the catalogue; ``None`` where it has one."""
    model: str | None = None
    """The model, in the reader's words; ``None`` where the text does not name it."""


@dataclass(frozen=True, slots=True)
class Scored:
    """What the product answered about a text."""

    log: SharedLog
    explanation: Explanation

    @property
    def named(self) -> str | None:
        """The cause that it named."""
        return self.explanation.ending.cause if self.explanation.ending is not None else None

    @property
    def verdict(self) -> str:
        """``good``, ``false failure``, ``named``, ``wrong cause``, ``shown`` or ``silent``."""
        ending = self.explanation.ending
        if self.log.outcome == "ok":
            # A server that refuses a request has started.
            return "good" if ending is None or ending.refused else "false failure"
        if ending is None:
            return "silent"
        if not self.log.causes:
            by_words = ending.cause is not None and ending.basis is not CauseBasis.ORIGIN
            shown = not by_words and ending.type == (self.log.type or "")
            return "named" if shown else "wrong cause"
        if ending.cause is None:
            return "shown"
        return "named" if ending.cause in self.log.causes else "wrong cause"

    @property
    def planned(self) -> bool:
        """Whether the text was planned as pasted."""
        return self.explanation.request is not None

    @property
    def disagreements(self) -> tuple[str, ...]:
        """Every value that differs from the plan."""
        return tuple(
            f"{each.name} {each.logged}, planned {each.planned} ({each.low}-{each.high})"
            for each in self.explanation.findings
            if each.agreement is Agreement.DIFFERS
        )


def read_shared(folder: Path) -> Iterator[SharedLog]:
    """Yield the texts of a folder, or of one file whose rows hold their text."""
    if folder.is_file():
        content = folder.read_bytes()
        lines = (gzip.decompress(content) if folder.suffix == ".gz" else content).decode().splitlines()
        yield from (_shared(row, row["text"]) for row in map(json.loads, lines))
        return
    for line in (folder / "index.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        path = next((folder / "raw").glob(f"{row['id']}.txt*"))
        content = path.read_bytes()
        text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8", "replace")
        yield _shared(row, text)


def _shared(row: Mapping[str, Any], text: str) -> SharedLog:
    found = (each.removeprefix("X:") for each in row["cause"])
    causes = frozenset(name for each in found for name in NAMES.get(each, [each]))
    return SharedLog(row["id"], text, row["outcome"], causes, row.get("type"), row.get("model"))


@cache
def services(configs: Path | None = None) -> Services:
    """Return services that ask no Hub and know the configs of a folder too."""
    return asyncio.run(_services(configs))


async def _services(configs: Path | None) -> Services:
    snapshot = gather(configs).snapshot
    settings = Settings()
    async with hub_http() as http:
        built = build_services(settings, http)
        client = HubClient(http, endpoint=endpoint_of(settings), cache=HubCache(settings.cache_file))
    models = ModelSource(client, snapshot, offline=True)
    return replace(built, snapshot=snapshot, models=models)


def explained(log: SharedLog, configs: Path | None = None) -> Scored:
    """Return what the product answers about a text as it was pasted."""

    parts = services(configs)

    async def answer() -> Explanation:
        read = read_log(log.text)
        return (await log_request(read, ExplainBody(log=""), parts)).explain(read)

    return Scored(log, asyncio.run(answer()))
