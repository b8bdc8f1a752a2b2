"""Models that return vectors or scores, beside what real releases answered about the same starts."""

import gzip
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from packaging.version import Version

from service.advisor.candidates.engine_start import Start
from service.advisor.dry_runs.dry_run import dry_start
from service.architecture.config import read_document
from service.architecture.reading import read_architecture
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal
from service.engines.releases import rules_for
from service.gpus.catalog import find_gpu
from service.kv_cache.capacity import size_cache
from service.memory.parallelism import Parallelism
from service.memory.weights.counts.parameters import parameter_bytes

ROWS: Final = Path(__file__).parents[1] / "data/oracle/pooling.json.gz"
GIVEN_BYTES: Final = 40_000_000_000
CONVERTED_LATER: Final = "robertatok"
"""Before 0.26.0 the engine runs RoBERTa's class for tokens by that for sequences, whose head is larger."""


@cache
def _recorded() -> Mapping[str, Any]:
    document: Mapping[str, Any] = json.loads(gzip.decompress(ROWS.read_bytes()))
    return document


def _start(row: Mapping[str, Any]) -> Start:
    architecture = read_architecture(read_document(_recorded()["configs"][row["config"]]))
    flags = ServeFlags(
        tensor_parallel_size=row["tensor_parallel_size"], runner=row["runner"], convert=row["convert"]
    )
    return dry_start(architecture, flags, rules_for(Version(row["release"])), find_gpu("h100-sxm-80gb"))


def _name(row: Mapping[str, Any]) -> str:
    return f"{row['release']}-{row['config']}-{row['tensor_parallel_size']}-{row['convert']}"


@pytest.mark.parametrize("row", _recorded()["rows"], ids=_name)
def test_a_pooling_start_is_as_the_release_resolves_it(row: Mapping[str, Any]) -> None:
    if row.get("refused"):
        with pytest.raises(EngineRefusal, match="are not supported for now"):
            _start(row)
        return
    start = _start(row)
    config = start.engine_config
    found = {
        "max_model_len": config.max_model_len,
        "dtype": config.dtype,
        "max_num_batched_tokens": config.max_num_batched_tokens,
        "max_num_seqs": config.max_num_seqs,
        "enable_prefix_caching": config.enable_prefix_caching,
        "v2_model_runner": config.v2_model_runner,
        "backend": start.backends.names[0],
        "num_blocks": None
        if start.layout.caches_nothing
        else size_cache(start.layout, config, GIVEN_BYTES).num_blocks,
    }
    assert found == {key: row[key] for key in found}
    deployment = Parallelism(
        tensor_parallel_size=config.tensor_parallel_size, compute_capability=(9, 0), dtype=config.dtype
    )
    off = parameter_bytes(start.architecture, deployment, config.release) / row["parameter_bytes"] - 1
    assert off == 0 or (row["config"] == CONVERTED_LATER and abs(off) < 0.01)
