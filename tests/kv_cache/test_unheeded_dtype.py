"""Models that do not hand the cache's type to their layers, against what real releases answered.

Falcon 7B (a published size) and MiMo V2 Flash (its published config under another ``model_type``, as these
releases' config classes do not know its own).
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from service.advisor.candidates.verdict import Verdict
from service.advisor.dry_runs.dry_run import dry_run
from service.advisor.request.plan_request import Model, PlanRequest
from service.architecture.config import read_document
from service.architecture.model import ModelArchitecture
from service.architecture.reading import read_architecture
from service.engines.flags import ServeFlags
from service.engines.releases import find_release, rules_for
from service.gpus.catalog import find_gpu
from tests.accuracy.oracle import difference

DATA = json.loads((Path(__file__).parent.parent / "data" / "oracle" / "unheeded_dtype.json").read_text())
FALCON = "FalconForCausalLM/falcon-7b"


def model(name: str, **changed: object) -> ModelArchitecture:
    return read_architecture(read_document({**DATA["configs"][name], **changed}))


@pytest.mark.parametrize("row", DATA["rows"], ids=[row["id"] for row in DATA["rows"]])
def test_every_row_agrees_in_every_field(row: Mapping[str, Any]) -> None:
    rules = rules_for(find_release(row["engine_version"]))

    assert difference(row, model(row["config"]), rules) is None


def test_a_plan_says_that_the_dtype_is_not_heeded() -> None:
    request = PlanRequest(Model("org/falcon", None, "inline", model(FALCON)), (find_gpu("h100-sxm-80gb"),))
    flags = ServeFlags(kv_cache_dtype="fp8", max_model_len=2048, max_num_seqs=8)

    candidate = dry_run(request, flags, rules_for(find_release("0.32.0")), request.gpus[0])

    assert candidate.verdict is Verdict.STARTS
    assert candidate.resolved_kv_cache_dtype == "bfloat16"
    assert "does not pass fp8" in candidate.warnings[0]


def test_a_checkpoint_that_brings_scales_is_not_refused_e5m2_where_no_layer_is_told() -> None:
    """Its gate stands in the layers, which see the model's own type (vLLM 0.32.0, Attention.__init__)."""
    quantized = model(FALCON, quantization_config={"quant_method": "fp8", "activation_scheme": "dynamic"})
    request = PlanRequest(Model("org/falcon", None, "inline", quantized), (find_gpu("h100-sxm-80gb"),))
    flags = ServeFlags(kv_cache_dtype="fp8_e5m2", max_model_len=2048, max_num_seqs=8)

    assert dry_run(request, flags, rules_for(find_release("0.32.0")), request.gpus[0]).error is None
