"""Checkpoints with sparse weights: refused since 0.19.0 where a kernel is meant, all since 0.22.0."""

from typing import Any

import pytest
from packaging.version import Version

from service.architecture.config import read_document
from service.architecture.quantization import read_quantization
from service.engine_config.sparse_weights import check_sparse_weights
from service.engines.refusal import EngineRefusal, Stage
from service.engines.releases import rules_for

HALVED = {"format": "sparse-24-bitmask", "sparsity_structure": "2:4", "targets": ["Linear"]}
"""The form of the section in checkpoints whose names end in 2of4."""
FP8 = {"num_bits": 8, "type": "float", "strategy": "channel"}
INPUTS = {"num_bits": 8, "type": "float", "strategy": "token", "dynamic": True}
WEIGHTS_ALONE = {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int"}}}


def both(weights: dict[str, Any], inputs: dict[str, Any]) -> dict[str, Any]:
    return {"group_0": {"targets": ["Linear"], "weights": weights, "input_activations": inputs}}


def check(release: str, sparsity: dict[str, Any] | None, groups: dict[str, Any] | None = None) -> None:
    section = {"quant_method": "compressed-tensors", "format": "dense", "config_groups": groups or {}}
    if sparsity is not None:
        section["sparsity_config"] = sparsity
    document = read_document({"quantization_config": section})
    check_sparse_weights(read_quantization(document, document), rules_for(Version(release)).kernels)


@pytest.mark.parametrize(
    ("release", "stage", "words"),
    [
        # Asked of 0.21.0 and 0.33.0, whose words and places these are.
        ("0.21.0", Stage.MODEL, "Sparse24 models are no longer supported by vLLM"),
        ("0.33.0", Stage.CONFIG, "Sparsity support has been removed from compressed-tensors."),
    ],
)
def test_sparse_weights_are_refused(release: str, stage: Stage, words: str) -> None:
    with pytest.raises(EngineRefusal, match=words) as refused:
        check(release, HALVED)
    assert refused.value.stage is stage


@pytest.mark.parametrize("sparsity", [None, {}, HALVED | {"targets": []}])
def test_a_section_without_targets_says_nothing(sparsity: dict[str, Any] | None) -> None:
    """Asked of 0.21.0 and 0.33.0, which start."""
    check("0.21.0", sparsity)
    check("0.33.0", sparsity)


def test_they_are_loaded_before_0_19() -> None:
    """vLLM 0.18.1, schemes/compressed_tensors_24.py: the class has its kernel."""
    check("0.18.1", HALVED)


def test_no_layout_is_computed_of_weights_on_the_kernel() -> None:
    """The kernel stores half of the values and which they are; the same weights without it are dense."""
    section = {"quant_method": "compressed-tensors", "format": "dense", "config_groups": both(FP8, INPUTS)}
    stored = []
    for sparsity in (HALVED, HALVED | {"sparsity_structure": "unstructured"}):
        document = read_document({"quantization_config": section | {"sparsity_config": sparsity}})
        quantization = read_quantization(document, document)
        assert quantization is not None
        stored.append(len(quantization.schemes))
    assert stored == [0, 1]


@pytest.mark.parametrize(
    "groups",
    [
        WEIGHTS_ALONE,
        both(FP8 | {"strategy": "block"}, INPUTS),
        both(FP8, INPUTS | {"strategy": "group"}),
        both(FP8, INPUTS | {"num_bits": 4}),
    ],
)
def test_up_to_0_21_what_the_kernel_does_not_take_is_loaded_whole(groups: dict[str, Any]) -> None:
    """vLLM 0.21.0, CompressedTensorsConfig.supports_cutlass_24: 8 bits on both sides, no blocks."""
    check("0.21.0", HALVED, groups)
    with pytest.raises(EngineRefusal):
        check("0.21.0", HALVED, both(FP8, INPUTS))
    with pytest.raises(EngineRefusal):
        check("0.22.0", HALVED, groups)


def test_another_structure_is_loaded_whole_up_to_0_21() -> None:
    """vLLM 0.21.0, supports_cutlass_24: 2:4 alone."""
    check("0.21.0", HALVED | {"sparsity_structure": "unstructured"})
