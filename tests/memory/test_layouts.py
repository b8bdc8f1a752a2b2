"""Bytes of parameters of every layout against what three releases built themselves.

`layouts.json.gz` holds three models cut to four or five layers, some eighty ways to quantize them as
published checkpoints do, and the bytes of parameters that vLLM 0.19.0, 0.24.0 and 0.32.0 allocated on
torch's meta device for tensor parallel rank 0.
"""

import gzip
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from packaging.version import Version

from service.architecture.config import read_document
from service.architecture.model import ModelArchitecture
from service.architecture.reading import read_architecture
from service.memory.parallelism import Parallelism
from service.memory.weights.parameters import parameter_bytes

DATA: Final = json.loads(
    gzip.decompress((Path(__file__).parent.parent / "data" / "oracle" / "layouts.json.gz").read_bytes())
)
CLOSE: Final = 0.0003
KNOWN_APART: Final[Mapping[str, float]] = {
    "ct_mxfp4a8": 0.17,
    "ct_w4a16_act": 0.0015,
    "ct_w4a16_g128": 0.0065,
    "ct_w4a16_wact": 0.0065,
    "ct_w8a16_g128": 0.0044,
    "ct_w4a8fp8": 0.005,
    "ct_w4a8int": 0.005,
    "ct_w4a8int_pack": 0.005,
    "gptq2_g128_0": 0.008,
    "gptq2_g128_1": 0.008,
    "gptq3_g128_0": 0.12,
    "gptq3_g128_1": 0.12,
    "gptq4_asym": 0.015,
    "gptq4_dynamic": 0.33,
    "gptq4_g128_1": 0.002,
    "gptq4_g32_1": 0.008,
    "gptq8_g128_1": 0.002,
    "gptq8_g32_1": 0.008,
    "quark_int8": 0.003,
}
"""Layouts of which some row is further off, and how far.

Reasons: scales that activation order repeats on every rank, GPTQ experts of two and three bits or with zero
points, experts of W4A8 and group-quantized experts whose width the groups do not divide in older releases,
and zero points of int8.
"""


@cache
def _architecture(base: str, layout: str, dtype: str) -> ModelArchitecture:
    stored = DATA["layouts"].get(f"{base}:{layout}", DATA["shared"][layout])
    return read_architecture(
        read_document(DATA["bases"][base] | {"torch_dtype": dtype, "quantization_config": stored})
    )


def _error(row: Mapping[str, Any]) -> float:
    architecture = _architecture(row["config"], row["layout"], row["dtype"])
    deployment = Parallelism(tensor_parallel_size=row["tp"], compute_capability=(9, 0), dtype=row["dtype"])
    ours = parameter_bytes(architecture, deployment, Version(row["release"]))
    return float(ours / row["parameters"] - 1)


@pytest.mark.parametrize("layout", sorted({row["layout"] for row in DATA["rows"]}))
def test_every_layout_weighs_what_the_release_builds(layout: str) -> None:
    errors = [_error(row) for row in DATA["rows"] if row["layout"] == layout]

    assert max(map(abs, errors)) <= KNOWN_APART.get(layout, CLOSE)


def test_what_is_known_to_be_apart_is_still_apart() -> None:
    """An entry that is no longer needed is removed, so that the list only gets shorter."""
    for layout in KNOWN_APART:
        errors = [_error(row) for row in DATA["rows"] if row["layout"] == layout]
        assert max(map(abs, errors)) > CLOSE
