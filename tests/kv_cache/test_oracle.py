"""Rows that real releases answered, replayed: see tests/accuracy for the whole scoreboard."""

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from service.engines.releases import find_release, rules_for
from tests.accuracy.oracle import bundled_architecture, difference

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
        and (found := difference(row, bundled_architecture(row["config"]), rules)) is not None
    ]
    assert not disagreements


def test_the_rows_cover_starts_and_every_kind_of_refusal() -> None:
    stages = {row["expect"].get("error", {}).get("stage", "starts") for row in ROWS}
    assert stages >= {"starts", "config", "model", "dtype", "backend", "page_size", "grouping", "memory"}
    kinds = {group["kind"] for row in ROWS for group in row["expect"].get("groups", ())}
    assert kinds == {"full_attention", "sliding_window", "mla_attention", "mamba", "uniform_type"}


@pytest.mark.parametrize("stage", ["dtype", "memory", "page_size", "grouping", "config"])
def test_refusals_use_the_engines_own_words(stage: str) -> None:
    from service.advisor.start import dry_start  # noqa: PLC0415
    from service.engines.flags import ServeFlags  # noqa: PLC0415
    from service.engines.refusal import EngineRefusal  # noqa: PLC0415
    from service.kv_cache.capacity import size_cache  # noqa: PLC0415
    from tests.accuracy.oracle import gpu_of  # noqa: PLC0415

    refused = [row for row in ROWS if row["expect"].get("error", {}).get("stage") == stage]
    assert refused
    for row in refused:
        rules = rules_for(find_release(row["engine_version"]))
        with pytest.raises(EngineRefusal) as caught:
            start = dry_start(
                bundled_architecture(row["config"]), ServeFlags(**row["serve"]), rules, gpu_of(row)
            )
            size_cache(start.layout, start.serving, row["serve"]["kv_cache_memory_bytes"])
        theirs = row["expect"]["error"]["message"]
        ours = caught.value.message
        if stage == "page_size" and "Layer " in theirs:
            # The engine names the first layer it comes across; the sentence after it is fixed.
            theirs, ours = theirs.partition(": ")[2], ours.partition(": ")[2]
        assert ours[: len(theirs)].startswith(theirs[:300].rstrip()) or theirs.startswith(ours[:300])
