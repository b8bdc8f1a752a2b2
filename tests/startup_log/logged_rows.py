"""Lines of real starts, by the id of their row."""

import gzip
import json
from collections.abc import Mapping
from functools import cache

from service.startup_log.log import StartupLog, read_log
from tests.accuracy.startups_rows import DATA, Row, read_rows


@cache
def logged_lines() -> Mapping[str, str]:
    """Return the log of each row as one text."""
    with gzip.open(DATA / "log-lines.jsonl.gz", "rt", encoding="utf-8") as rows:
        return {row["id"]: "\n".join(row["lines"]) for row in map(json.loads, rows)}


@cache
def started_rows() -> tuple[Row, ...]:
    """Return the rows that lines are kept of."""
    return tuple(row for row in read_rows(DATA / "startups.jsonl.gz") if row["id"] in logged_lines())


@cache
def read_row(name: str) -> StartupLog:
    """Return what is read in the log of a row."""
    return read_log(logged_lines()[name])
