"""What a checkpoint's quantization says, and that a layout which is not known is never half read."""

from typing import Any

import pytest

from service.architecture.config import InvalidConfig, read_document
from service.architecture.quantization import Quantization, read_quantization, unnamed_quantization
from service.architecture.weight_schemes import Granularity, Names, WeightFormat, modelopt_scheme


def quantized(**section: object) -> Quantization:
    config = read_document({"quantization_config": section})
    found = read_quantization(config, config)
    assert found is not None
    return found


def weights(bits: int, kind: str, size: int | None) -> dict[str, Any]:
    return {"num_bits": bits, "type": kind, "group_size": size, "strategy": "group"}


@pytest.mark.parametrize(
    ("scheme", "algorithm"),
    [
        ({"num_bits": 8, "type": "float", "dynamic": False}, "fp8"),
        ({"num_bits": 8, "type": "float", "dynamic": True}, None),
        ({"num_bits": 4, "type": "float", "dynamic": False}, "nvfp4"),
        ({"num_bits": 4, "type": "float", "dynamic": True}, "nvfp4"),
        ({"num_bits": 8, "type": "int", "dynamic": False}, None),
    ],
)
def test_a_cache_scheme_names_the_format_that_the_engine_makes_of_it(
    scheme: dict[str, Any], algorithm: str | None
) -> None:
    """vLLM 0.33.0, utils/torch_utils.py get_kv_cache_quant_algo_string."""
    specified = quantized(quant_method="modelopt", quant_algo="FP8", kv_cache_scheme=scheme)

    assert specified.cache_algorithm == algorithm


@pytest.mark.parametrize(
    ("section", "pointer"),
    [
        ({"quant_method": "modelopt", "quant_algo": "FP9"}, "/quantization_config/quant_algo"),
        (
            {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP9"}},
            "/quantization_config/quantization/quant_algo",
        ),
    ],
)
def test_an_algorithm_that_modelopt_does_not_have_is_refused(section: dict[str, Any], pointer: str) -> None:
    """vLLM 0.33.0, _normalize_quantization_config, in its words."""
    with pytest.raises(InvalidConfig, match="Unknown ModelOpt quant algo: fp9") as caught:
        quantized(**section)

    assert caught.value.pointer == pointer


@pytest.mark.parametrize(
    ("algorithm", "method"),
    [
        ("FP8", "modelopt"),
        ("W4A16_NVFP4", "modelopt_fp4"),
        ("mxfp8", "modelopt_mxfp8"),
        ("MIXED_PRECISION", "modelopt_mixed"),
    ],
)
def test_modelopts_method_follows_from_its_algorithm(algorithm: str, method: str) -> None:
    """vLLM 0.22.0, modelopt.py override_quantization_method of each config class."""
    found = quantized(quant_method="modelopt", quant_algo=algorithm)

    assert (found.method, found.algorithm) == (method, algorithm.upper())


@pytest.mark.parametrize("algorithm", ["W4A16_NVFP4", "MXFP8"])
def test_modelopts_own_file_knows_fewer_algorithms(algorithm: str) -> None:
    """vLLM 0.19.0 and 0.33.0, _normalize_quantization_config raises for these."""
    with pytest.raises(InvalidConfig, match=f"Unknown ModelOpt quant algo: {algorithm.lower()}"):
        quantized(producer={"name": "modelopt"}, quantization={"quant_algo": algorithm})


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}, "quant_algo FP8"),
        ({"quant_algo": "FP8", "producer": {"name": "modelopt"}}, "quant_algo FP8"),
        ({"group_size": 64, "bits": 4}, "4 bits"),  # as MLX writes it
    ],
)
def test_a_quantization_without_a_method_is_not_used_but_said(section: dict[str, Any], said: str) -> None:
    config = read_document({"quantization_config": section})

    assert read_quantization(config, config) is None
    assert unnamed_quantization(config, config) == said


@pytest.mark.parametrize("section", [{}, {"quant_method": "modelopt", "quant_algo": "FP8"}])
def test_nothing_is_told_where_a_method_or_no_algorithm_is_named(section: dict[str, Any]) -> None:
    config = read_document({"quantization_config": section} if section else {})

    assert unnamed_quantization(config, config) is None


@pytest.mark.parametrize(
    ("algorithm", "granularity", "block"),
    [
        ("FP8", Granularity.TENSOR, None),
        ("FP8_PER_CHANNEL_PER_TOKEN", Granularity.CHANNEL, None),
        # modelopt.py: layer.weight_block_size = [128, 128].
        ("FP8_PB_WO", Granularity.BLOCK, (128, 128)),
    ],
)
def test_modelopts_8_bit_floats_share_scales_by_algorithm(
    algorithm: str, granularity: Granularity, block: tuple[int, int] | None
) -> None:
    *experts, group = quantized(quant_method="modelopt", quant_algo=algorithm).schemes

    assert group.scheme is not None
    # Experts have a scale for each matrix whatever the algorithm: ModelOptFp8MoEMethod.create_weights.
    assert [each.targets for each in experts] == (
        [("*.experts",)] if granularity != Granularity.TENSOR else []
    )
    assert (group.scheme.format, group.scheme.granularity) == (WeightFormat.FP8, granularity)
    assert group.scheme.block == block


def test_one_unknown_layout_leaves_the_whole_checkpoint_unread() -> None:
    """Half a sum is worth nothing: a group or a layer that is not known takes the known ones with it."""
    known, unknown = {"quant_algo": "FP8"}, {"quant_algo": "INT3"}
    mixed = {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}

    both = quantized(**mixed, quantized_layers={"a": known, "b": known}).schemes
    assert [group.targets for group in both] == [("a", "b")]
    assert quantized(**mixed, quantized_layers={"a": known, "b": unknown}).schemes == ()
    assert modelopt_scheme("INT3", None) is None

    # Four-bit floats share a scale by 16 (NVFP4) or by 32 (MXFP4).
    for size, count in ((16, 2), (32, 2), (64, 0)):
        groups = {"0": {"weights": weights(4, "float", size)}, "1": {"weights": weights(4, "int", 128)}}
        assert len(quantized(quant_method="compressed-tensors", config_groups=groups).schemes) == count


def test_a_group_that_quantizes_no_weights_leaves_them_as_they_are() -> None:
    groups = {
        "cache": {"targets": ["Attention"], "output_activations": weights(8, "float", None)},
        "0": {"targets": ["Linear"], "weights": weights(4, "int", 128)},
    }

    (group,) = quantized(quant_method="compressed-tensors", config_groups=groups).schemes

    assert group.scheme is not None
    assert (group.scheme.format, group.scheme.bits, group.scheme.group_size) == (WeightFormat.PACKED, 4, 128)
    # ``Linear`` means every linear layer, which no names do.
    assert group.targets == ()


def test_equal_lists_of_names_are_one_object() -> None:
    """A list of 100,000 names that is read again must not be compared name by name for each module."""
    first, again = (Names.of(f"model.layers.{index}" for index in range(1000)) for _ in range(2))
    assert first is again
    assert Names.of(["model.layers.1"]) != first
