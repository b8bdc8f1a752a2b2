"""Which layouts three releases build and which they refuse, and what they refuse them with.

`layout_starts.json.gz` holds what vLLM 0.19.0, 0.32.0 and 0.33.0 answered on a GPU of compute capability 9.0
to the models of `layouts.json.gz`, each quantized in some hundred ways: the bytes of parameters of tensor
parallel rank 0, or the exception. The releases were asked without a checkpoint.
"""

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from packaging.version import Version

from service.advisor.dry_runs.dry_run import dry_start
from service.architecture.config import InvalidConfig, read_document
from service.architecture.model import ModelArchitecture
from service.architecture.reading import read_architecture
from service.engine_config.cache_dtype import resolve_cache_dtype
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal
from service.engines.releases import rules_for
from service.gpus.catalog import find_gpu
from service.memory.parallelism import Parallelism
from service.memory.weights.counts.parameters import parameter_bytes
from tests.memory.test_layouts import CLOSE
from tests.memory.test_layouts import DATA as BUILT

DATA: Final = json.loads(
    gzip.decompress((Path(__file__).parent.parent / "data" / "oracle" / "layout_starts.json.gz").read_bytes())
)
NOT_FORESEEN: Final[Mapping[str, str]] = {
    "ct_w3": "the kernels of 3 bits are a package of their own (humming)",
    "ct_w4a8int": "the same",
}
"""Layouts of which some start is refused that we plan, and why."""
AS_STORED: Final = 0.005
"""Share of a mixture's routers: without a checkpoint the engine quantizes those of AWQ and GPTQ."""
NEEDS_TENSORS: Final = frozenset({"gptq4_lmhead"})
"""Layouts in which the checkpoint's tensors say what is quantized."""


def document(row: Mapping[str, Any]) -> dict[str, Any]:
    name = row["layout"]
    stored = DATA["layouts"].get(name) or BUILT["layouts"].get(
        f"{row['config']}:{name}", BUILT["shared"].get(name)
    )
    base: dict[str, Any] = BUILT["bases"][row["config"]]
    return base | {"torch_dtype": row["dtype"], "quantization_config": stored}


def architecture_of(row: Mapping[str, Any]) -> ModelArchitecture:
    return read_architecture(read_document(document(row)))


def refusal_of(row: Mapping[str, Any]) -> str | None:
    """Return what we say that the release raises, ``None`` where it starts."""
    flags = ServeFlags(tensor_parallel_size=row["tp"], max_model_len=4096)
    try:
        dry_start(architecture_of(row), flags, rules_for(Version(row["release"])), find_gpu("h100-sxm-80gb"))
    except (EngineRefusal, InvalidConfig) as refusal:
        return str(refusal)
    return None


STARTED: Final = [row for row in DATA["rows"] if "error" not in row]
REFUSED: Final = [row for row in DATA["rows"] if "error" in row]
NAMES: Final = sorted({row["layout"] for row in DATA["rows"]})


@pytest.mark.parametrize("layout", NAMES)
def test_no_layout_that_a_release_builds_is_refused(layout: str) -> None:
    assert [row for row in STARTED if row["layout"] == layout and refusal_of(row) is not None] == []


@pytest.mark.parametrize("layout", sorted(set(NAMES) - NOT_FORESEEN.keys()))
def test_every_layout_that_a_release_refuses_is_refused(layout: str) -> None:
    assert [row for row in REFUSED if row["layout"] == layout and refusal_of(row) is None] == []


def test_what_is_not_foreseen_is_still_refused_by_some_release() -> None:
    """An entry that is no longer needed is removed, so that the list only gets shorter."""
    missed = {row["layout"] for row in REFUSED if refusal_of(row) is None}
    assert missed == NOT_FORESEEN.keys()


@pytest.mark.parametrize("layout", sorted(set(NAMES) - NEEDS_TENSORS))
def test_what_is_built_weighs_what_the_release_allocates(layout: str) -> None:
    for row in STARTED:
        if row["layout"] == layout:
            deployment = Parallelism(tensor_parallel_size=row["tp"], dtype=row["dtype"])
            ours = parameter_bytes(architecture_of(row), deployment, Version(row["release"]))
            routed = row["config"] == "moe" and layout.startswith(("awq", "gptq"))
            assert abs(ours / row["parameters"] - 1) <= (AS_STORED if routed else 100 * CLOSE), row


@pytest.mark.parametrize("layout", ["ct_fp8_kv", "fp8_block_kv", "mo_kv", "mo_kv_nv"])
def test_a_scheme_of_the_cache_counts_only_as_the_release_reads_it(layout: str) -> None:
    """ModelOpt's counts where it says that it is not dynamic: 0.32.0, get_kv_cache_quant_algo_string."""
    for row in STARTED:
        if row["layout"] == layout:
            rules = rules_for(Version(row["release"])).dtypes
            ours = resolve_cache_dtype("auto", architecture_of(row).quantization, rules)
            assert ours.removesuffix("_e4m3") == row["cache_dtype"], row


@pytest.mark.parametrize(
    ("layout", "release", "words"),
    [
        ("ct_w4a16_g128", "0.32.0", "per tensor-parallel partition (96) to be divisible by group_size (128)"),
        ("ct_fp8_block", "0.19.0", "weight = 96 is not divisible by weight quantization block_n = 128."),
        (
            "awq8_g128",
            "0.19.0",
            "Currently, only 4-bit weight quantization is supported for AWQ, but got 8 bits.",
        ),
        ("awq8_g128", "0.33.0", "Unsupported num_bits = 8. Supported: 4."),
        ("ct_w4a8fp8", "0.32.0", "intermediate_size_per_partition=96 must be divisible by 256"),
        ("ct_mxfp8", "0.19.0", "No compressed-tensors compatible scheme was found"),
    ],
)
def test_a_refusal_has_the_words_of_the_release(layout: str, release: str, words: str) -> None:
    rows = [
        row for row in REFUSED if (row["layout"], row["release"], row["config"]) == (layout, release, "moe")
    ]
    said = [(row["message"], refusal_of(row)) for row in rows if words in row["message"]]

    assert said
    assert all(words in (ours or "") for _, ours in said)
