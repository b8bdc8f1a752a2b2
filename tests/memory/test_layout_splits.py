"""What releases build and refuse of layers whose sizes blocks and groups do not divide.

`layout_splits.json.gz` holds what vLLM 0.19.0, 0.24.0 and 0.33.0 answered to four small models, quantized in
some thirty ways, over one to eight ranks: the bytes of parameters of tensor parallel rank 0, or what they
raised. The GPTQ and AWQ checkpoints had safetensors headers that name the quantized layers.

Rows in which 0.24.0 or 0.33.0 found no kernel for packed integers are left out: it was asked without
humming-kernels, which its package requires.
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
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal
from service.engines.releases import rules_for
from service.gpus.catalog import find_gpu
from service.memory.parallelism import Parallelism
from service.memory.weights.counts.parameters import parameter_bytes
from tests.accuracy.oracle import GPU_OF_CAPABILITY
from tests.memory.test_layouts import CLOSE

DATA: Final = json.loads(
    gzip.decompress((Path(__file__).parent.parent / "data" / "oracle" / "layout_splits.json.gz").read_bytes())
)
ROWS: Final = DATA["rows"]
STARTED: Final = [row for row in ROWS if "error" not in row]
REFUSED: Final = [row for row in ROWS if "error" in row]
NAMES: Final = sorted({row["layout"] for row in ROWS})
OTHER_WORDS: Final[Mapping[str, str]] = {
    "ct_fp8_block": "a gate of linear attention, which published checkpoints leave unquantized, is met first",
    "fp8_block": "the same",
    "ct_w4a16_g128": "linear attention's output is met before the experts",
    "ct_w4a8fp8": "0.24.0 was asked without humming-kernels",
}
"""Layouts of which some refusal is told by other words than the release's first, and why."""


def architecture_of(row: Mapping[str, Any]) -> ModelArchitecture:
    base: dict[str, Any] = DATA["bases"][row["config"]]
    stored = DATA["layouts"][row["layout"]]
    return read_architecture(
        read_document(base | {"torch_dtype": row["dtype"], "quantization_config": stored})
    )


def refusal_of(row: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the class and the words of what we say that the release raises."""
    flags = ServeFlags(tensor_parallel_size=row["tp"], enable_expert_parallel=row["ep"], max_model_len=2048)
    gpu = find_gpu(GPU_OF_CAPABILITY["{}.{}".format(*row["capability"])])
    try:
        dry_start(architecture_of(row), flags, rules_for(Version(row["release"])), gpu)
    except EngineRefusal as refusal:
        return refusal.type, refusal.message
    except InvalidConfig as invalid:
        return "ValidationError", str(invalid)
    return None


@pytest.mark.parametrize("layout", NAMES)
def test_what_a_release_builds_is_not_refused_and_weighs_the_same(layout: str) -> None:
    for row in STARTED:
        if row["layout"] == layout:
            assert refusal_of(row) is None, row
            capability = (row["capability"][0], row["capability"][1])
            deployment = Parallelism(
                tensor_parallel_size=row["tp"],
                enable_expert_parallel=row["ep"],
                compute_capability=capability,
                dtype=row["dtype"],
            )
            ours = parameter_bytes(architecture_of(row), deployment, Version(row["release"]))
            assert abs(ours / row["parameters"] - 1) <= CLOSE, row


@pytest.mark.parametrize("layout", NAMES)
def test_what_a_release_refuses_is_refused(layout: str) -> None:
    assert [row for row in REFUSED if row["layout"] == layout and refusal_of(row) is None] == []


@pytest.mark.parametrize("layout", sorted(set(NAMES) - OTHER_WORDS.keys()))
def test_a_refusal_has_the_class_and_the_words_of_the_release(layout: str) -> None:
    for row in REFUSED:
        if row["layout"] == layout:
            kind, words = refusal_of(row) or ("", "")
            assert kind == row["error"], row
            assert row["message"][:90].startswith(words[:60]), (row, words)
