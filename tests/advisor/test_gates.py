"""What real releases refuse is refused in their words, and each fix that is named starts."""

import gzip
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from service.advisor.candidates.plan_types import Candidate
from service.advisor.candidates.verdict import Verdict
from service.advisor.dry_runs.dry_run import PlainSteps, dry_run
from service.advisor.fixes.fix_attempt import FixAttempt
from service.advisor.fixes.fixes import run_with_fixes, starts
from service.advisor.request.plan_request import EngineChoice, Model, PlanRequest
from service.engines.engine_rules import EngineRules
from service.engines.flags import ServeFlags
from service.engines.releases import RELEASES as ENGINE_RELEASES
from service.engines.releases import find_release, rules_for
from service.gpus.gpu_type import GpuType
from tests.accuracy.oracle import asked_architecture, flags_of, gpu_of

CASES = Path(__file__).parents[1] / "data" / "oracle" / "cases.jsonl.gz"
FIELDS = re.compile(r"^(?:VllmConfig|ModelConfig|SpeculativeConfig|SchedulerConfig|CacheConfig|Layer \S+): ")
"""What the rows write before the engine's own sentence: the class that checked it, the layer it met first."""


@dataclass(frozen=True)
class Asked:
    """One recorded question."""

    row: Mapping[str, Any]
    request: PlanRequest
    flags: ServeFlags
    rules: EngineRules
    gpu: GpuType

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> "Asked":
        """Return the request of the row."""
        flags, gpu = flags_of(row), gpu_of(row)
        model = Model(row["config"], None, "bundled", asked_architecture(row["config"]))
        engine = EngineChoice.of(row["engine_version"])
        rules = rules_for(find_release(row["engine_version"]))
        return cls(row, PlanRequest(model, (gpu,), engine, flags), flags, rules, gpu)

    def ours(self) -> Candidate:
        """Return our answer."""
        return dry_run(self.request, self.flags, self.rules, self.gpu)


def _rows() -> Iterator[Mapping[str, Any]]:
    with gzip.open(CASES, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


ROWS = tuple(_rows())
REFUSED = tuple(row for row in ROWS if not row["expect"]["starts"])
RELEASES = sorted({row["engine_version"] for row in ROWS})


def _kinds() -> tuple[Mapping[str, Any], ...]:
    """Return one row of every release, stage, type and cache dtype that is refused, in the rows' order."""
    kinds: dict[tuple[str, ...], Mapping[str, Any]] = {}
    for row in REFUSED:
        error = row["expect"]["error"]
        kind = (row["engine_version"], error["stage"], error["type"], row["serve"]["kv_cache_dtype"])
        kinds.setdefault(kind, row)
    return tuple(kinds.values())


KINDS = _kinds()


SAMPLE = KINDS[::3]


@cache
def _fixes(position: int) -> tuple[str, ...]:
    """Return the fixes of one row of the sample."""
    requested = Asked.of(SAMPLE[position])
    steps = PlainSteps(requested.request.model, requested.rules)
    error = run_with_fixes(requested.request, requested.flags, requested.gpu, steps).error
    return error.fix if error is not None else ()


def _words(message: str) -> str:
    # An engine whose config class rotates positions prints a context of 2048 as 2048.0.
    return FIELDS.sub("", re.sub(r"=(\d+)\.0\b", r"=\1", message))


@pytest.mark.parametrize("release", RELEASES)
def test_every_refusal_has_the_engines_stage_type_and_words(release: str) -> None:
    wrong = []
    for row in REFUSED:
        if row["engine_version"] != release:
            continue
        error, expected = Asked.of(row).ours().error, row["expect"]["error"]
        found = error and (error.stage, error.type, _words(error.message)[: len(_words(expected["message"]))])
        words = _words(expected["message"])[: len(found[2])] if found else ""
        if found != (expected["stage"], expected["type"], words) or (expected["message"] and not words):
            wrong.append((row["id"], row["config"], found, expected))

    assert wrong == []


@pytest.mark.parametrize("release", RELEASES)
def test_nothing_that_starts_is_refused(release: str) -> None:
    """Bytes are given in the rows, so that nothing is in doubt but what the device holds beside them."""
    started = [row for row in ROWS if row["expect"]["starts"] and row["engine_version"] == release]
    refused = [row["id"] for row in started[::15] if Asked.of(row).ours().verdict is Verdict.REFUSED]

    assert started
    assert refused == []


@pytest.mark.parametrize("position", range(len(SAMPLE)), ids=lambda position: SAMPLE[position]["id"])
def test_each_fix_starts_when_it_is_planned(position: int) -> None:
    requested = Asked.of(SAMPLE[position])

    for words in _fixes(position):
        for attempt in _attempts(words, requested):
            assert starts(requested.request, attempt, requested.gpu), attempt.words


def test_most_refusals_have_a_fix() -> None:
    fixed = [bool(_fixes(position)) for position in range(len(SAMPLE))]

    assert len(fixed) >= 60
    # Flags drawn at random may have more wrong than one change mends.
    assert sum(fixed) >= 0.75 * len(fixed)


def test_fixes_are_what_the_engine_itself_started_with() -> None:
    """Where the rows hold the very start that a fix names, the engine started it."""
    specified = {_key(row): row["expect"]["starts"] for row in ROWS}
    seen = [
        (row["id"], words, specified[_key(changed)])
        for position, row in enumerate(SAMPLE)
        for words in _fixes(position)
        if (changed := _changed(row, words)) is not None and _key(changed) in specified
    ]

    assert len(seen) >= 7
    assert [each for each in seen if not each[2]] == []


TEXTS = {"kv_cache_dtype", "dtype", "quantization"}
"""Flags whose values are names."""


def _attempts(words: str, requested: Asked) -> list[FixAttempt]:
    """Read a fix as a person would; ">=" names every release from that one on."""
    name, _, value = words.partition(" ")
    if name == "vLLM":
        oldest = find_release(value.removeprefix(">= "))
        named = [oldest] if ">=" not in value else [each for each in ENGINE_RELEASES if each >= oldest]
        return [FixAttempt(f"vLLM {each}", requested.flags, rules_for(each)) for each in named]
    if name == "patch":
        rules = rules_for(requested.rules.release, [value.partition(" ")[0]])
        return [FixAttempt(words, requested.flags, rules)]
    if name == "without":
        flag = value.removeprefix("--").replace("-", "_")
        unset: Any = {flag: getattr(ServeFlags(), flag)}
        return [FixAttempt(words, replace(requested.flags, **unset), requested.rules)]
    flag = name.removeprefix("--").replace("-", "_")
    parsed: Any = value if flag in TEXTS else json.loads(value or "true")
    return [FixAttempt(words, replace(requested.flags, **{flag: parsed}), requested.rules)]


def _changed(row: Mapping[str, Any], words: str) -> Mapping[str, Any] | None:
    """Return the question that a fix names, where it changes one flag or the release."""
    name, _, value = words.partition(" ")
    if name == "vLLM":
        return {**row, "engine_version": value}
    if not name.startswith("--"):
        return None
    flag = name.removeprefix("--").replace("-", "_")
    parsed = value if flag in TEXTS else json.loads(value or "true")
    return {**row, "serve": {**row["serve"], flag: parsed}}


def _key(row: Mapping[str, Any]) -> str:
    return json.dumps(
        [row["engine_version"], row["config"], row["gpu"]["compute_capability"], row["serve"]], sort_keys=True
    )
