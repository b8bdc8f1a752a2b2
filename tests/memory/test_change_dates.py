"""Bytes and refusals of releases beside a change that the engine's source dates, some of them asked.

Differences are worked out by hand from the shapes in the source that the dated constant names.
`between.json.gz` holds what releases from 0.25.1 on built, or raised, of two layers of Qwen3-30B-A3B,
Llama 4 Scout and gpt-oss-20b, whose experts are quantized in ways that Marlin takes in some releases alone.
"""

import gzip
import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest
from packaging.version import Version

from service.advisor.dry_runs.dry_run import dry_start
from service.architecture.config import read_document
from service.architecture.model import ModelArchitecture
from service.architecture.reading import read_architecture
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal
from service.engines.releases import rules_for
from service.gpus.catalog import find_gpu
from service.memory.parallelism import Parallelism
from service.memory.weights.counts.parameters import parameter_bytes
from service.memory.weights.schemes.online_quantization import quantized_online
from tests.accuracy.oracle import GPU_OF_CAPABILITY
from tests.accuracy.weights import WITHIN, without_tensors
from tests.memory.recorded import bundled

BETWEEN: Final = json.loads(
    gzip.decompress((Path(__file__).parent.parent / "data" / "oracle" / "between.json.gz").read_bytes())
)

GEMMA_3 = bundled("google/gemma-3-27b-it")
GPT_OSS = bundled("openai/gpt-oss-20b")
NEMOTRON_3_NANO = bundled("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16")
BLACKWELL = (10, 0)


def changes(model: ModelArchitecture, ranks: Parallelism, *releases: str) -> list[int]:
    """Return by how many bytes a rank grows from each release to the next."""
    built = [parameter_bytes(model, ranks, Version(release)) for release in releases]
    return [after - before for before, after in pairwise(built)]


def test_siglips_positions_are_whole_on_every_rank_since_0_14() -> None:
    """Half of 4,096 positions of 1,152 elements of 2 bytes was on the other rank (siglip.py)."""
    ranks = Parallelism(tensor_parallel_size=2)

    assert changes(GEMMA_3, ranks, "0.13.0", "0.14.0", "0.14.1", "0.15.0") == [4096 * 1152, 0, 0]


@pytest.mark.parametrize(("size", "narrower"), [(1, 128), (2, 0), (4, 0), (8, 128)])
def test_trtllm_rounds_mxfp4_experts_to_128_since_0_27(size: int, narrower: int) -> None:
    """2,880 columns on 1, 2, 4 and 8 ranks: 3,072, 1,536, 768 and 512 in steps of 256; 2,944, 1,536, 768 and
    384 in steps of 128.

    An expert has three matrices of 3,072 rows of so many columns, in half a byte and a scale for each 32, and
    two biases of 16 bits of so many (mxfp4_round_up_hidden_size_and_intermediate_size).
    """
    ranks = replace(Parallelism(tensor_parallel_size=size), compute_capability=BLACKWELL)
    expert = narrower * (3 * 3072 * 17 // 32 + 2 * 2)

    assert changes(GPT_OSS, ranks, "0.26.0", "0.27.0", "0.27.1", "0.28.0") == [-24 * 32 * expert, 0, 0]


@pytest.mark.parametrize("method", ["fp8", "fp8_per_block", "mxfp8", "int8_per_channel_weight_only"])
def test_experts_without_a_gate_have_no_room_for_one_since_0_28(method: str) -> None:
    """23 layers of 128 experts, each 1,856 x 2,688 elements of a byte too many (vLLM issue 44489: 13.7 GiB).

    Scales are not counted: at most one of 32 bits for each row.
    """
    stored = quantized_online(NEMOTRON_3_NANO, method)
    matrix = 23 * 128 * 1856 * 2688

    first, later = changes(stored, Parallelism(), "0.27.1", "0.28.0", "0.29.0")

    assert later == 0
    assert matrix <= -first <= matrix * 33 // 32 + 23 * 128 * 1856 * 4


def test_experts_without_a_gate_have_room_for_none_where_they_are_not_quantized() -> None:
    assert changes(NEMOTRON_3_NANO, Parallelism(), "0.27.1", "0.28.0") == [0]


def asked(row: Mapping[str, Any]) -> ModelArchitecture:
    """Read the model of a row, which was asked without a checkpoint."""
    architecture = read_architecture(read_document(BETWEEN["configs"][row["config"]]))
    return without_tensors(architecture, Version(row["release"])) or architecture


def refusal(row: Mapping[str, Any]) -> str | None:
    """Return the type of what a start raises."""
    gpu = find_gpu(GPU_OF_CAPABILITY["{}.{}".format(*row["capability"])])
    flags = ServeFlags(tensor_parallel_size=row["ranks"], max_model_len=1024)
    try:
        dry_start(asked(row), flags, rules_for(Version(row["release"])), gpu)
    except EngineRefusal as raised:
        return raised.type
    return None


@pytest.mark.parametrize("release", sorted({row["release"] for row in BETWEEN["rows"]}))
def test_experts_weigh_and_are_refused_as_the_release_says(release: str) -> None:
    for row in BETWEEN["rows"]:
        if row["release"] != release:
            continue
        assert refusal(row) == row.get("error"), row
        if "parameters" in row:
            ranks = Parallelism(
                tensor_parallel_size=row["ranks"],
                compute_capability=(row["capability"][0], row["capability"][1]),
            )
            found = parameter_bytes(asked(row), ranks, Version(release))
            assert abs(found / row["parameters"] - 1) <= WITHIN, row
