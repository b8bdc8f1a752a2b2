"""Bytes of parameters of every layout against what three releases built themselves.

`layouts.json.gz` holds three models cut to four or five layers, some eighty ways to quantize them as
published checkpoints do, and the bytes of parameters that vLLM 0.19.0, 0.24.0 and 0.32.0 allocated on
torch's meta device for tensor parallel rank 0.
"""

import gzip
import json
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from packaging.version import Version

from service.architecture.config import read_document
from service.architecture.model import ModelArchitecture
from service.architecture.reading import read_architecture
from service.memory.parallelism import Parallelism
from service.memory.weights.counts.parameters import parameter_bytes

DATA: Final = json.loads(
    gzip.decompress((Path(__file__).parent.parent / "data" / "oracle" / "layouts.json.gz").read_bytes())
)
PLAIN_OUTPUT: Final = frozenset({"gptq4_lmhead"})
"""Layouts whose checkpoints had headers without the output embedding: no release quantized it."""
CLOSE: Final = 1e-6
"""Scales of the cache and of single activations, of four bytes each, are not counted in every method."""


@cache
def _architecture(base: str, layout: str, dtype: str) -> ModelArchitecture:
    stored = DATA["layouts"].get(f"{base}:{layout}", DATA["shared"][layout])
    architecture = read_architecture(
        read_document(DATA["bases"][base] | {"torch_dtype": dtype, "quantization_config": stored})
    )
    quantization = architecture.quantization
    if layout not in PLAIN_OUTPUT or quantization is None:
        return architecture
    return replace(architecture, quantization=replace(quantization, output=False))


def _error(row: Mapping[str, Any]) -> float:
    architecture = _architecture(row["config"], row["layout"], row["dtype"])
    deployment = Parallelism(tensor_parallel_size=row["tp"], compute_capability=(9, 0), dtype=row["dtype"])
    ours = parameter_bytes(architecture, deployment, Version(row["release"]))
    return float(ours / row["parameters"] - 1)


@pytest.mark.parametrize("layout", sorted({row["layout"] for row in DATA["rows"]}))
def test_every_layout_weighs_what_the_release_builds(layout: str) -> None:
    errors = [_error(row) for row in DATA["rows"] if row["layout"] == layout]

    assert max(map(abs, errors)) <= CLOSE
