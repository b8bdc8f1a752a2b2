"""Checkpoints whose groups follow the order of activations: refused since 0.30.0."""

from typing import Any

import pytest
from packaging.version import Version

from service.architecture.config import read_document
from service.architecture.quantization import Quantization, read_quantization
from service.engine_config.checkpoint_checks import check_checkpoint
from service.engines.refusal import EngineRefusal, Stage
from service.engines.releases import rules_for
from service.gpus.capability import ComputeCapability

H100 = ComputeCapability(9, 0)
GPTQ: dict[str, Any] = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": True, "sym": True}
WEIGHTS = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128, "actorder": "group"}
PACKED: dict[str, Any] = {
    "quant_method": "compressed-tensors",
    "format": "pack-quantized",
    "config_groups": {"group_0": {"targets": ["Linear"], "weights": WEIGHTS}},
}


def _stored(section: dict[str, Any]) -> Quantization | None:
    document = read_document({"quantization_config": section})
    return read_quantization(document, document)


@pytest.mark.parametrize(("section", "words"), [(GPTQ, "desc_act=True"), (PACKED, "actorder='group'")])
def test_an_order_by_activation_is_refused_since_0_30(section: dict[str, Any], words: str) -> None:
    """Asked of 0.24.0, which starts, and 0.32.0, whose words these are."""
    stored = _stored(section)
    check_checkpoint(stored, "bfloat16", H100, rules_for(Version("0.29.0")).checkpoints)

    with pytest.raises(EngineRefusal, match="no longer supported") as refused:
        check_checkpoint(stored, "bfloat16", H100, rules_for(Version("0.30.0")).checkpoints)

    assert words in str(refused.value)
    assert refused.value.stage is Stage.CONFIG


def test_one_scale_for_a_whole_row_needs_no_order() -> None:
    """vLLM 0.32.0, AutoGPTQConfig: desc_act with a group size of -1 is dropped, and the engine starts."""
    whole = _stored(GPTQ | {"group_size": -1})

    check_checkpoint(whole, "bfloat16", H100, rules_for(Version("0.32.0")).checkpoints)
