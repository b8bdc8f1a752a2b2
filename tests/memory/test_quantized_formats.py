"""Bytes of quantized weights against shapes worked out by hand, and against what was published of models."""

from collections.abc import Mapping

import pytest
from packaging.version import Version

from service.architecture.config import read_document
from service.architecture.model import ModelArchitecture
from service.architecture.reading import read_architecture
from service.hub.bundled.snapshot import BundledSnapshot
from service.memory.parallelism import Parallelism
from service.memory.weights.counts.parameters import parameter_bytes
from service.memory.weights.schemes.online_quantization import quantized_online
from tests.accuracy.oracle import bundled_architecture
from tests.memory.test_by_hand import (
    ATTENTION,
    EXPERTS,
    HIDDEN,
    MOE,
    SHAPE,
)
from tests.memory.test_by_hand import NETWORK as DENSE_NETWORK
from tests.memory.test_by_hand import NORMS as LAYER_NORMS

GIB, GB = 1 << 30, 10**9
QUERY_AND_KEY_NORMS = 2 * 64
ROUTED_EXPERTS = EXPERTS * 3 * HIDDEN * 128
OUTPUT = 1024 * HIDDEN
OUTPUT_AND_EMBEDDING = 2 * OUTPUT
UNQUANTIZED_MOE = ATTENTION + LAYER_NORMS + QUERY_AND_KEY_NORMS + HIDDEN * EXPERTS


def model(quantization: Mapping[str, object] | None = None, **fields: object) -> ModelArchitecture:
    document: dict[str, object] = {
        "architectures": ["Qwen3ForCausalLM"],
        "tie_word_embeddings": False,
        "head_dim": 64,
        "num_hidden_layers": 1,
        **SHAPE,
        **fields,
    }
    if quantization is not None:
        document["quantization_config"] = quantization
    return read_architecture(read_document(document))


def bytes_of(architecture: ModelArchitecture, release: str) -> int:
    return parameter_bytes(architecture, Parallelism(), Version(release))


def test_mxfp8_takes_a_byte_an_element_and_one_for_each_32() -> None:
    """vLLM 0.24.0, ModelOptMxFp8LinearMethod.create_weights: weight [n, k] and weight_scale [n, k / 32]."""
    plain = (OUTPUT_AND_EMBEDDING + LAYER_NORMS + HIDDEN + QUERY_AND_KEY_NORMS) * 2
    quantized = (ATTENTION + DENSE_NETWORK) * 33 // 32
    flat = {"quant_method": "modelopt", "quant_algo": "MXFP8", "ignore": ["lm_head"]}

    scales_of_the_cache = 8
    assert bytes_of(model(flat), "0.24.0") == plain + quantized + scales_of_the_cache
    # The flag does the same to weights in 16 bits, without scales for the cache.
    assert bytes_of(quantized_online(model(), "mxfp8"), "0.24.0") == plain + quantized
    # ModelOpt's classes load the method of that name too (0.24.0, get_quantization_config).
    named = {"quant_method": "mxfp8", "ignored_layers": ["lm_head"]}
    assert bytes_of(model(named), "0.24.0") == plain + quantized + scales_of_the_cache


def test_an_output_embedding_is_quantized_where_the_config_says_so() -> None:
    """vLLM 0.24.0, get_linear_quant_method: the embedding has VOCAB rows, their scales one for 128 inputs."""
    section = {"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True, "desc_act": False}
    rows, inputs = OUTPUT_AND_EMBEDDING // 2 // HIDDEN, HIDDEN
    plain = rows * inputs * 2
    groups = inputs // 128
    packed = rows * inputs // 2 + groups * rows // 2 + groups * rows * 2
    indices = inputs * 4

    without = bytes_of(model(section), "0.24.0")
    assert bytes_of(model({**section, "lm_head": True}), "0.24.0") == without - plain + packed + indices
    # Since 0.30.0 there are no indices of the order of activations.
    without = bytes_of(model(section), "0.33.0")
    assert bytes_of(model({**section, "lm_head": True}), "0.33.0") == without - plain + packed


def test_mxfp4_takes_half_a_byte_an_element_and_a_byte_for_each_32() -> None:
    """vLLM 0.28.0, Mxfp4OnlineLinearMethod: mxfp4_quantize packs two values a byte, with e8m0 scales."""
    plain = (OUTPUT_AND_EMBEDDING + LAYER_NORMS + HIDDEN + QUERY_AND_KEY_NORMS) * 2
    quantized = (ATTENTION + DENSE_NETWORK) * 17 // 32

    assert bytes_of(quantized_online(model(), "mxfp4"), "0.28.0") == plain + quantized


@pytest.mark.parametrize(("release", "quantized"), [("0.24.0", False), ("0.25.0", True)])
def test_mxfp8_layers_of_a_mixed_checkpoint_are_built_so_since_0_25(release: str, quantized: bool) -> None:
    """vLLM 0.24.0 and 0.25.1, ModelOptMixedPrecisionConfig.get_quant_method."""
    layers = {f"model.layers.0.mlp.{name}_proj": {"quant_algo": "MXFP8"} for name in ("gate", "up", "down")}
    mixed = {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": layers}

    saved = bytes_of(model(), release) - bytes_of(model(mixed), release)

    scales_of_the_cache = 8
    expected = DENSE_NETWORK * 2 - DENSE_NETWORK * 33 // 32 if quantized else 0
    assert saved == expected - scales_of_the_cache


@pytest.mark.parametrize("release", ["0.28.0", "0.33.0"])
def test_lists_of_compressed_tensors_name_experts_by_their_projections(release: str) -> None:
    """vLLM 0.31.0 and 0.32.0, CompressedTensorsMoEMethod.get_moe_method: `experts.0.gate_proj`."""
    mixture = {"architectures": ["Qwen3MoeForCausalLM"], "decoder_sparse_step": 1, **MOE}
    weights = {"num_bits": 8, "type": "float", "strategy": "channel", "symmetric": True}

    def leaving(*modules: str) -> int:
        section = {
            "quant_method": "compressed-tensors",
            "format": "float-quantized",
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}},
            "ignore": ["lm_head", r"re:.*mlp\.gate$", *modules],
        }
        return bytes_of(model(section, **mixture), release)

    scales_of_outputs = EXPERTS * (2 * 128 + HIDDEN) * 4
    assert leaving("model.layers.0.mlp.experts") == leaving()
    assert leaving(r"re:.*mlp\.experts\..*") - leaving() == ROUTED_EXPERTS - scales_of_outputs


@pytest.mark.parametrize(("release", "quantized"), [("0.22.1", False), ("0.23.0", True)])
def test_an_output_that_a_mixed_checkpoint_lists_is_built_so_since_0_23(
    release: str, quantized: bool
) -> None:
    """vLLM 0.22.1 and 0.23.0, ModelOptMixedPrecisionConfig.get_quant_method: since then ParallelLMHead too.

    Qwen3.6-27B-NVFP4 on a build before 0.24.0: "Model loading took 20.57 GiB"; 1.7 more with 16-bit outputs.
    """
    layers = {"lm_head": {"quant_algo": "W4A16_NVFP4", "group_size": 16}}
    mixed = {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION", "quantized_layers": layers}

    saved = bytes_of(model(), release) - bytes_of(model(mixed), release)

    scales_of_the_cache, scale_of_the_output = 8, 4
    expected = OUTPUT * 2 - OUTPUT * 9 // 16 - scale_of_the_output if quantized else 0
    assert saved == expected - scales_of_the_cache


def _in_8_bits(*targets: str, ignored: tuple[str, ...] = ()) -> dict[str, object]:
    weights = {"num_bits": 8, "type": "float", "strategy": "channel", "symmetric": True}
    inputs = {"num_bits": 8, "type": "float", "strategy": "token", "dynamic": True}
    return {
        "quant_method": "compressed-tensors",
        "format": "float-quantized",
        "config_groups": {"g": {"targets": list(targets), "weights": weights, "input_activations": inputs}},
        "ignore": list(ignored),
    }


@pytest.mark.parametrize(
    ("section", "release", "quantized"),
    [
        (_in_8_bits("lm_head"), "0.19.1", False),
        (_in_8_bits("lm_head"), "0.20.0", True),
        (_in_8_bits("re:.*lm_head$"), "0.33.0", True),
        (_in_8_bits("lm_head", ignored=("lm_head",)), "0.33.0", False),
    ],
)
def test_an_output_that_compressed_tensors_names_is_built_so_since_0_20(
    section: dict[str, object], release: str, quantized: bool
) -> None:
    """vLLM 0.19.0 and 0.20.0, CompressedTensorsConfig.get_quant_method: since then ParallelLMHead too."""
    saved = bytes_of(model(_in_8_bits("no_module")), release) - bytes_of(model(section), release)

    scales_of_outputs = 1024 * 4
    assert saved == (OUTPUT - scales_of_outputs if quantized else 0)


def test_an_output_is_not_a_linear_layer_by_its_class() -> None:
    """vLLM 0.33.0, find_matched_target: `Linear` is no part of `ParallelLMHead`."""
    left = bytes_of(model(_in_8_bits("Linear", ignored=("lm_head",))), "0.33.0")

    assert bytes_of(model(_in_8_bits("Linear")), "0.33.0") == left


@pytest.mark.parametrize(("release", "quantized"), [("0.22.1", False), ("0.23.0", True)])
def test_qwen3_5_hands_the_quantization_to_its_output_since_0_23(release: str, quantized: bool) -> None:
    """vLLM 0.22.1 and 0.23.0, qwen3_5.py.

    Qwen3.8-27B-NVFP4 of Unsloth names lm_head: "Model loading took" 1.18 GiB less on 0.25.1 than with outputs
    of 16 bits.
    """
    fetched = BundledSnapshot().get("Qwen/Qwen3.8-27B")
    assert fetched is not None
    plain, found = (
        bytes_of(
            read_architecture(read_document({**fetched.config, "quantization_config": _in_8_bits(target)})),
            release,
        )
        for target in ("no_module", "re:.*lm_head$")
    )

    rows, width = 248_320, 5120
    assert plain - found == (rows * width - rows * 4 if quantized else 0)


@pytest.mark.parametrize(
    ("method", "expert_bytes"),
    [
        # int8.py, Int8OnlineMoEMethod: a byte an element, a 32-bit scale for each output.
        ("int8_per_channel_weight_only", ROUTED_EXPERTS + EXPERTS * (2 * 128 + HIDDEN) * 4),
        ("experts_int8", ROUTED_EXPERTS + EXPERTS * (2 * 128 + HIDDEN) * 4),
        ("mxfp8", ROUTED_EXPERTS * 33 // 32),
    ],
)
def test_what_flags_leave_of_a_mixture_in_16_bits(method: str, expert_bytes: int) -> None:
    mixture = model(None, architectures=["Qwen3MoeForCausalLM"], decoder_sparse_step=1, **MOE)
    # qwen3_moe.py Qwen3MoeSparseMoeBlock: the router gets the quant_config, like every linear layer.
    layers = ATTENTION + EXPERTS * HIDDEN
    linear = layers * 33 // 32 if method == "mxfp8" else layers * 2

    found = bytes_of(quantized_online(mixture, method), "0.24.0")

    assert found == bytes_of(mixture, "0.24.0") - (ROUTED_EXPERTS + layers) * 2 + expert_bytes + linear


@pytest.mark.parametrize(
    ("name", "published"),
    [
        # "At 69.5 GiB" on a DGX Spark: kubis.ai, nemotron3-super-120b-topology-benchmark
        ("Super-120B-A12B-NVFP4", 69.5 * GIB),
        # "331 GB measured": docs.nvidia.com/nemotron/nightly/nemotron/ultra3/quantization.html
        ("Ultra-550B-A55B-NVFP4", 331 * GB),
    ],
)
def test_nemotrons_mixed_checkpoints_have_the_published_size(name: str, published: float) -> None:
    architecture = bundled_architecture(f"nvidia/NVIDIA-Nemotron-3-{name}")

    assert bytes_of(architecture, "0.20.2") == pytest.approx(published, rel=0.025)


def test_nemotrons_8_bit_checkpoint_takes_a_byte_for_most_of_its_parameters() -> None:
    """Of 123.6 billion parameters embeddings, attention and the experts' latent projections have 16 bits."""
    stored = bytes_of(bundled_architecture("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8"), "0.20.2")

    assert 0.98 * 123.6 * GB < stored < 1.05 * 123.6 * GB


LAYERS = 20
LISTED = 100_000


def many_layers(quantization: dict[str, object]) -> ModelArchitecture:
    return model(quantization, num_hidden_layers=LAYERS)


GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True, "desc_act": False}
ROUNDED = {"quant_method": "auto-round", "bits": 4, "group_size": 128, "sym": True}


def test_a_hundred_thousand_overrides_are_those_of_one_expression() -> None:
    """vLLM 0.33.0, get_dynamic_override: each pattern is compared with the beginning of a module's name."""
    one = {r"+:model\.layers\.\d+\.mlp\.down_proj": {"bits": 8}, r"-:model\.layers\.\d+\.self_attn": {}}
    names = range(LISTED // 2)
    many: dict[str, object] = {rf"+:model\.layers\.{number}\.mlp\.down_proj": {"bits": 8} for number in names}
    many |= {rf"-:model\.layers\.{number}\.self_attn": {} for number in names}

    plain = bytes_of(many_layers(GPTQ), "0.33.0")
    overridden = bytes_of(many_layers(GPTQ | {"dynamic": one}), "0.33.0")
    assert overridden > plain
    assert bytes_of(many_layers(GPTQ | {"dynamic": many}), "0.33.0") == overridden


def test_many_expressions_of_several_schemes_are_not_taken_out_of_their_order() -> None:
    """The first match decides, so the layout is not known."""
    mixed = {rf"+:.*\.{number}\..*": {"bits": 8 if number % 2 else 4} for number in range(40)}
    alike = {rf"+:.*\.{number}\..*": {"bits": 8} for number in range(LAYERS)}

    quantization = many_layers(GPTQ | {"dynamic": mixed}).quantization
    assert quantization is not None
    assert quantization.schemes == ()
    all_eight = bytes_of(many_layers({**GPTQ, "bits": 8}), "0.33.0")
    assert bytes_of(many_layers(GPTQ | {"dynamic": alike}), "0.33.0") == all_eight


def test_a_hundred_thousand_exceptions_of_autoround_are_those_of_one_expression() -> None:
    """vLLM 0.33.0, INCConfigParser: a key is a module's name, or an expression that is searched for in it."""
    one = {r"layers\.\d+\.mlp\.down_proj": {"bits": 16}}
    many = {f"model.layers.{number}.mlp.down_proj": {"bits": 16} for number in range(LISTED)}

    expected = bytes_of(many_layers(ROUNDED | {"extra_config": one}), "0.33.0")
    assert expected > bytes_of(many_layers(ROUNDED), "0.33.0")
    assert bytes_of(many_layers(ROUNDED | {"extra_config": many}), "0.33.0") == expected
