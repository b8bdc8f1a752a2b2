"""Answers of real engines to starts with a draft, and the configs that they were asked with."""

import gzip
import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from service.advisor.candidates.engine_start import Start
from service.advisor.dry_runs.dry_run import dry_start
from service.architecture.config import read_document
from service.architecture.draft_reading import read_draft_checkpoint
from service.architecture.model import ModelArchitecture
from service.architecture.reading import read_architecture, with_modelopt_file
from service.engines.releases import find_release, rules_for
from tests.accuracy.oracle import flags_of, gpu_of

DATA = Path(__file__).parent.parent / "data" / "drafts"


def recorded_rows() -> list[Mapping[str, Any]]:
    with gzip.open(DATA / "rows.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@cache
def documents() -> Mapping[str, Any]:
    with gzip.open(DATA / "configs.json.gz", "rt", encoding="utf-8") as text:
        found: Mapping[str, Any] = json.load(text)
        return found


@cache
def drafted(name: str, draft: str | None = None) -> ModelArchitecture:
    """Read a model of the rows, with the draft that it may be started with."""
    document = documents()[name]
    architecture = read_architecture(
        read_document(with_modelopt_file(document, document.get("_hf_quant_config")))
    )
    if draft is None:
        return architecture
    checkpoint = read_draft_checkpoint(draft, read_document(documents()[draft]))
    return replace(architecture, drafts=replace(architecture.drafts, checkpoint=checkpoint))


def architecture_of_row(row: Mapping[str, Any]) -> ModelArchitecture:
    return drafted(row["config"], row["serve"]["speculative_config"].get("model"))


def start_of(row: Mapping[str, Any]) -> Start:
    rules = rules_for(find_release(row["engine_version"]))
    return dry_start(architecture_of_row(row), flags_of(row), rules, gpu_of(row))
