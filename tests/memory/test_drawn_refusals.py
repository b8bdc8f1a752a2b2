"""Starts that releases refused while they built the model, in their words.

`drawn_refusals.json.gz` holds questions of the drawn sets (`test_weighed.py`, and of seeds 20261516 and
20261517) that had been planned as starts, of classes with and without a tied output on two stages, and of
classes with heads that do not divide a hidden size (B) and with rotary positions that lack what their type
needs (C and R), on ranks that do not divide heads of images (A), with the type of one layer too many (D), and
with a type of layer that no class knows (G), and Aya Vision as transformers runs it (X4), with what vLLM
0.20.2 to 0.33.0 raised.
"""

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from packaging.version import Version

from service.advisor.dry_runs.dry_run import dry_start
from service.architecture.config import read_document
from service.architecture.reading import read_architecture
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal
from service.engines.releases import rules_for
from service.gpus.catalog import find_gpu
from tests.accuracy.oracle import GPU_OF_CAPABILITY

ROWS: Final = json.loads(
    gzip.decompress(
        (Path(__file__).parent.parent / "data" / "oracle" / "drawn_refusals.json.gz").read_bytes()
    )
)["rows"]
SENTENCE: Final = 30
"""Characters that are compared: what follows may name another module of the same kind."""


def _start(row: Mapping[str, Any], *, pp: int) -> None:
    flags = ServeFlags(
        tensor_parallel_size=row["tp"],
        pipeline_parallel_size=pp,
        enable_expert_parallel=row["ep"],
        max_model_len=1024,
        dtype=row.get("dtype", "auto"),
    )
    gpu = find_gpu(GPU_OF_CAPABILITY["{}.{}".format(*row["capability"])])
    architecture = read_architecture(read_document(row["config"]))
    dry_start(architecture, flags, rules_for(Version(row["release"])), gpu)


@pytest.mark.parametrize("row", [pytest.param(row, id=row["id"]) for row in ROWS])
def test_what_a_release_refuses_is_refused_in_its_words(row: Mapping[str, Any]) -> None:
    with pytest.raises(EngineRefusal) as raised:
        _start(row, pp=row["pp"])

    assert raised.value.type == row["error"]
    assert str(raised.value)[:SENTENCE] == row["message"][:SENTENCE]


def test_a_tied_output_stops_pipeline_stages_alone() -> None:
    """vLLM 0.28.0, ernie45_moe.py: the output of the last stage is the embedding of the first."""
    row = next(row for row in ROWS if "PPMissingLayer" in row["message"])

    _start(row, pp=1)
    _start({**row, "config": {**row["config"], "tie_word_embeddings": False}}, pp=2)


def test_a_class_without_an_output_of_its_own_asserts_it_to_0_28() -> None:
    """vLLM 0.28.0 and 0.29.0, commandr.py CohereForCausalLM: the assertion is gone."""
    row = next(
        row for row in ROWS if row["config"]["architectures"] == ["CohereForCausalLM"] and row["pp"] == 2
    )

    with pytest.raises(EngineRefusal) as raised:
        _start({**row, "release": "0.28.0"}, pp=1)
    assert raised.value.type == "AssertionError"
    _start({**row, "release": "0.29.0"}, pp=1)
    _start({**row, "config": {**row["config"], "tie_word_embeddings": True}}, pp=1)
