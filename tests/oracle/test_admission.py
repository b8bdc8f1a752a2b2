"""What the block pools of seventeen releases answered to random workloads, replayed without them."""

import gzip
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from packaging.version import Version

from service.engines.flags import ServeFlags
from service.engines.releases import rules_for
from tests.oracle.admission import REQUESTS, admission_question
from tests.oracle.comparison import difference
from tests.oracle.questions import Case

ROWS = Path(__file__).parents[1] / "data" / "oracle" / "admission.jsonl.gz"


def rows() -> list[Mapping[str, Any]]:
    with gzip.open(ROWS, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


RECORDED = rows()
RELEASES = sorted({row["engine_version"] for row in RECORDED}, key=Version)


@pytest.mark.parametrize("release", RELEASES)
def test_every_workload_of_a_release_is_let_in_as_its_own_pool_lets_it_in(release: str) -> None:
    requested = [row for row in RECORDED if row["engine_version"] == release]
    differing = [found for row in requested if (found := differs(row)) is not None]
    assert not differing


def differs(row: Mapping[str, Any]) -> str | None:
    case = Case(ServeFlags(**row["serve"]), row["gpu"], row["gib"])
    rules = rules_for(Version(row["engine_version"]))
    found = difference(
        admission_question(row["model"], case, row["prompt_tokens"], rules).answer, row["answered"]
    )
    return None if found is None else f"{row['model']} {row['serve']} {row['prompt_tokens']}: {found}"


def test_the_rows_tell_the_regimes_apart() -> None:
    assert len(RECORDED) >= 500
    assert {"0.18.1", "0.19.0", "0.20.0", "0.20.2", "0.26.0", "0.28.0", "0.33.0"} <= set(RELEASES)
    assert sum(row["answered"]["admitted"] < REQUESTS for row in RECORDED) >= 60
    groups = Counter(len(row["answered"]["gate"]) for row in RECORDED)
    assert sum(count for number, count in groups.items() if number > 1) >= 100
