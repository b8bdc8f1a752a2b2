"""Weights of models that the bundled snapshot lacks against what real releases allocate."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import count
from math import isqrt
from typing import Any

import pytest

from service.architecture.model import ModelArchitecture
from service.engine_config.release_reading import as_read_by
from service.engines.releases import find_release, rules_for
from service.memory.parallelism import Parallelism
from service.memory.weights.counts.draft_weights import draft_parameters
from service.memory.weights.counts.parameters import parameter_bytes_per_stage
from service.units import round_up
from tests.accuracy.oracle import gpu_of
from tests.accuracy.recorded import (
    LATE,
    RECORDINGS,
    RECURRENT,
    Recorded,
)


def has_host_tables(model: ModelArchitecture) -> bool:
    """Whether layers look up tables that the rows count, though they are in the host's memory."""
    return any(layer.before is not None for layer in model.layers)


ROWS = [
    pytest.param(recorded, row, id=row["id"])
    for recorded in RECORDINGS
    for row in recorded.rows
    if "parameter_bytes_per_pp_rank" in row["expect"]
    and recorded.architecture(row["config"]).media.towers_known
    if not has_host_tables(recorded.architecture(row["config"]))
]


def deployment_of(row: Mapping[str, Any]) -> Parallelism:
    serve, capability = row["serve"], gpu_of(row).compute_capability
    assert capability is not None
    return Parallelism(
        tensor_parallel_size=serve.get("tensor_parallel_size", 1),
        pipeline_parallel_size=serve.get("pipeline_parallel_size", 1),
        enable_expert_parallel=serve.get("enable_expert_parallel", False),
        compute_capability=(capability.major, capability.minor),
        dtype=serve.get("dtype"),
    )


def missing(recorded: Recorded, row: Mapping[str, Any]) -> list[int]:
    """Return what the engine allocates on each stage beyond ours."""
    release = find_release(row["engine_version"])
    model = as_read_by(recorded.architecture(row["config"]), rules_for(release))
    deployment = deployment_of(row)
    stages = list(parameter_bytes_per_stage(model, deployment, release))
    if "speculative_config" in row["serve"]:
        drafted = replace(model, draft=model.drafts.parallel)
        stages[-1] += draft_parameters(drafted, deployment, release).bytes
    theirs = row["expect"]["parameter_bytes_per_pp_rank"]
    return [their - our for their, our in zip(theirs, stages, strict=True)]


@pytest.mark.parametrize(("recorded", "row"), ROWS)
def test_bytes_are_those_that_the_release_allocates(recorded: Recorded, row: Mapping[str, Any]) -> None:
    theirs = row["expect"]["parameter_bytes_per_pp_rank"]
    gaps = [gap / their for gap, their in zip(missing(recorded, row), theirs, strict=True)]

    assert gaps == pytest.approx([0] * len(theirs), abs=1e-3)


def test_zamba_counts_each_of_its_two_blocks_once() -> None:
    """Zamba2 2.7B: nine layers run two blocks in turn."""
    layers = RECURRENT.architecture("Zamba2ForCausalLM/Zamba2-2.7B").layers
    shared = [layer.shared for layer in layers if layer.shared is not None]

    assert [block.owns_weights for block in shared] == [True, True] + [False] * 7


def test_tables_of_ngrams_are_all_that_is_not_on_the_gpu() -> None:
    """Qwen4 Exp: a prime number of rows per head and layer, each greater than the one before, of two bytes.

    Source: vLLM 0.33.0, Qwen4ExpNGramEmbedding; they are padded to 128 rows and split over the ranks.
    """
    rows = [row for row in LATE.rows if has_host_tables(LATE.architecture(row["config"]))]
    allocated = [row for row in rows if "parameter_bytes_per_pp_rank" in row["expect"]]
    assert allocated

    for row in allocated:
        config = LATE.configs[row["config"]]
        text = config.get("text_config", config)
        # Two orders of eight heads each share the hidden size.
        heads, width = 16, text["hidden_size"] // 16
        primes = _primes_from(text["ngram_vocab_size_base"])
        tables = [sum(next(primes) for _ in range(heads)) for _ in text["ple_layer_ids"]]
        padded = sum(round_up(table, 128) for table in tables)

        assert missing(LATE, row) == [padded * width * 2 // row["serve"]["tensor_parallel_size"]]


def _primes_from(first: int) -> Iterator[int]:
    return (
        number for number in count(first) if all(number % factor for factor in range(2, isqrt(number) + 1))
    )
