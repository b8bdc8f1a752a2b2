"""Rows that real releases answered, replayed: see tests/accuracy for the whole scoreboard."""

import gzip
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from service.advisor.dry_runs.dry_run import dry_start
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal
from service.engines.releases import find_release, rules_for
from service.kv_cache.capacity import size_cache
from tests.accuracy.oracle import asked_architecture, difference, gpu_of

CASES = Path(__file__).parent.parent / "data" / "oracle" / "cases.jsonl.gz"


def rows() -> list[Mapping[str, Any]]:
    with gzip.open(CASES, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


ROWS = rows()


@pytest.mark.parametrize("release", sorted({row["engine_version"] for row in ROWS}))
def test_every_row_of_a_release_agrees_in_every_field(release: str) -> None:
    rules = rules_for(find_release(release))
    disagreements = [
        f"{row['id']} {row['config']}: {found}"
        for row in ROWS
        if row["engine_version"] == release
        and (found := difference(row, asked_architecture(row["config"]), rules)) is not None
    ]
    assert not disagreements


def test_the_rows_cover_starts_and_every_kind_of_refusal() -> None:
    stages = {row["expect"].get("error", {}).get("stage", "starts") for row in ROWS}
    assert stages >= {"starts", "config", "model", "dtype", "backend", "page_size", "grouping", "memory"}
    kinds = {group["kind"] for row in ROWS for group in row["expect"].get("groups", ())}
    assert kinds >= {"full_attention", "sliding_window", "chunked_local_attention", "mla_attention"}
    assert kinds >= {"mamba", "uniform_type"}


@pytest.mark.parametrize("stage", ["dtype", "memory", "page_size", "grouping", "config"])
def test_refusals_use_the_engines_own_words(stage: str) -> None:
    refused = [row for row in ROWS if row["expect"].get("error", {}).get("stage") == stage]
    assert refused
    for row in refused:
        # An engine whose config class rotates positions prints a context of 2048 as 2048.0.
        theirs = re.sub(r"=(\d+)\.0\b", r"=\1", row["expect"]["error"]["message"])
        ours = words_of_refusal(row)
        if theirs.startswith("Layer "):
            # The engine names the first layer it comes across; the sentence after it is fixed.
            theirs, ours = theirs.partition(": ")[2], ours.partition(": ")[2]
        common = min(len(ours), len(theirs))
        assert ours[:common] == theirs[:common]


def words_of_refusal(row: Mapping[str, Any]) -> str:
    rules = rules_for(find_release(row["engine_version"]))
    try:
        start = dry_start(asked_architecture(row["config"]), ServeFlags(**row["serve"]), rules, gpu_of(row))
        size_cache(start.layout, start.engine_config, row["serve"]["kv_cache_memory_bytes"])
    except EngineRefusal as refusal:
        return refusal.message
    return ""
