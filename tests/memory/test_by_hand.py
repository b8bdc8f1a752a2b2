"""Bytes of a layer of families that no recorded release built, against the shapes in the engine's source."""

from typing import Final

import pytest
from packaging.version import Version

from service.architecture.config import read_document
from service.architecture.reading import read_architecture
from service.memory.parallelism import Parallelism
from service.memory.weights.counts.parameters import parameter_bytes

# 4 heads of 64 elements, 2 of them with keys: queries, keys and values are 256 + 128 + 128 outputs.
HIDDEN: Final = 256
SHAPE: Final = {
    "hidden_size": HIDDEN,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 512,
    "vocab_size": 1024,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
}
QKV: Final = 256 + 128 + 128
ATTENTION: Final = HIDDEN * QKV + HIDDEN * HIDDEN
NETWORK: Final = 3 * HIDDEN * 512
"""Gate, up and down."""
NORMS: Final = 2 * HIDDEN
EXPERTS: Final = 8
ROUTED: Final = HIDDEN * EXPERTS + EXPERTS * 3 * HIDDEN * 128
"""A router and eight experts of 128."""
MOE: Final = {"num_experts": EXPERTS, "num_experts_per_tok": 2, "moe_intermediate_size": 128}
# Latent attention: queries of 4 * (32 + 16), a row of 64 + 16, keys and values of 4 * (32 + 64), an output.
LATENT: Final = {"kv_lora_rank": 64, "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 64}
LATENT_ATTENTION: Final = HIDDEN * 4 * 48 + HIDDEN * 80 + 64 + 64 * 4 * 96 + 4 * 64 * HIDDEN


def layer_bytes(class_name: str, fields: dict[str, object], ranks: int = 1) -> int:
    """Return the bytes on a rank that a fifth layer adds to four."""
    four, five = (
        parameter_bytes(
            read_architecture(
                read_document({"architectures": [class_name], **SHAPE, "num_hidden_layers": count, **fields})
            ),
            Parallelism(tensor_parallel_size=ranks),
            Version("0.23.0"),
        )
        for count in (4, 5)
    )
    return five - four


@pytest.mark.parametrize(
    ("class_name", "fields", "elements"),
    [
        # telechat2.py: biases of the output and of the second projection alone.
        ("TeleChat2ForCausalLM", {}, ATTENTION + HIDDEN + NETWORK + HIDDEN + NORMS),
        # molmo.py: intermediate_size counts gate and up together; a norm over all queries and all keys.
        (
            "MolmoForCausalLM",
            {"qkv_bias": True, "attention_layer_norm": True},
            ATTENTION + QKV + NETWORK // 2 + NORMS + 256 + 128,
        ),
        ("MolmoForCausalLM", {}, ATTENTION + NETWORK // 2 + NORMS),
        # molmo2.py: norms per head or over all heads.
        (
            "Molmo2ForConditionalGeneration",
            {"use_qk_norm": True, "qk_norm_type": "qwen3"},
            ATTENTION + NETWORK + NORMS + 64 + 64,
        ),
        (
            "Molmo2ForConditionalGeneration",
            {"use_qk_norm": True, "qk_norm_type": "olmo"},
            ATTENTION + NETWORK + NORMS + 256 + 128,
        ),
        # minicpm.py: experts as wide as a dense network.
        ("MiniCPMForCausalLM", {"num_experts": 0}, ATTENTION + NETWORK + NORMS),
        (
            "MiniCPMForCausalLM",
            {"num_experts": EXPERTS, "num_experts_per_tok": 2},
            ATTENTION + HIDDEN * EXPERTS + EXPERTS * NETWORK + NORMS,
        ),
        # rnj1.py: Gemma 3's four norms, and one for queries and keys.
        ("Rnj1ForCausalLM", {}, ATTENTION + NETWORK + 2 * NORMS + 64 + 64),
        # grok1.py: four norms; a dense network beside the experts where residuals say so.
        ("Grok1ForCausalLM", MOE, ATTENTION + ROUTED + 2 * NORMS),
        ("Grok1ForCausalLM", {**MOE, "residual_moe": True}, ATTENTION + ROUTED + NETWORK + 2 * NORMS),
        # bailing_moe.py: two shared experts, as wide as a routed one or as configured.
        (
            "BailingMoeForCausalLM",
            {**MOE, "num_shared_experts": 2},
            ATTENTION + ROUTED + 6 * HIDDEN * 128 + NORMS,
        ),
        (
            "BailingMoeForCausalLM",
            {**MOE, "num_shared_experts": 2, "moe_shared_expert_intermediate_size": 64},
            ATTENTION + ROUTED + 6 * HIDDEN * 64 + NORMS,
        ),
        # Without RMS norms, queries and keys have ones with a bias.
        (
            "BailingMoeV2ForCausalLM",
            {
                **MOE,
                "first_k_dense_replace": 5,
                "use_qk_norm": True,
                "use_rmsnorm": False,
                "use_qkv_bias": True,
            },
            ATTENTION + QKV + NETWORK + NORMS + 2 * (64 + 64),
        ),
        # sarvam.py: a shared expert by default; the biases of experts are in 32 bits, two elements each.
        (
            "SarvamMLAForCausalLM",
            {**LATENT, **MOE},
            LATENT_ATTENTION + ROUTED + 2 * EXPERTS + 3 * HIDDEN * 128 + NORMS,
        ),
        (
            "SarvamMLAForCausalLM",
            {**LATENT, **MOE, "num_shared_experts": 2, "moe_shared_expert_intermediate_size": 64},
            LATENT_ATTENTION + ROUTED + 2 * EXPERTS + 6 * HIDDEN * 64 + NORMS,
        ),
        # The first layer is dense, and of those after it every second one has experts: the fifth has none.
        ("SarvamMLAForCausalLM", {**LATENT, **MOE, "moe_layer_freq": 2}, LATENT_ATTENTION + NETWORK + NORMS),
        ("SarvamMLAForCausalLM", LATENT, LATENT_ATTENTION + NETWORK + NORMS),
    ],
)
def test_a_layer_has_the_elements_of_its_modules(
    class_name: str, fields: dict[str, object], elements: int
) -> None:
    assert layer_bytes(class_name, fields) == 2 * elements


def test_molmo_2_keeps_its_norms_whole_on_every_rank() -> None:
    """Queries, keys and networks are halved (molmo2.py splits them), norms over all heads are not."""
    fields = {"use_qk_norm": True, "qk_norm_type": "olmo"}

    assert layer_bytes("Molmo2ForConditionalGeneration", fields, ranks=2) == 2 * (
        (ATTENTION + NETWORK) // 2 + NORMS + 256 + 128
    )


def test_the_encoder_of_midashenglm_has_the_elements_of_its_modules() -> None:
    """By hand, of midashenglm.py: width 8 and one layer; 16 bands and 32 frames in patches of 16 by 16.

    The layer: queries, keys and values 8 x 24 + 24, output 8 x 8 + 8, network 8 x 32 + 32 and 32 x 8 + 8, and
    norms of 2 x 16. Around it: a batch norm of 2 x 16, a patch 8 x 256 + 8, positions (2 + 1) x 8 and a norm
    of 16. The projector joins five of them: 40 x 256 + 256, then 256 x 256 + 256.
    """
    encoder = {"embed_dim": 8, "depth": 1, "num_heads": 2, "n_mels": 16, "target_length": 32}
    text = {"model_type": "qwen2", **SHAPE, "num_hidden_layers": 1}
    named = {"architectures": ["MiDashengLMModel"], "text_config": text}
    model = read_architecture(read_document({**named, "audio_encoder_config": encoder}))
    alone = read_architecture(read_document({**text, "architectures": ["Qwen2ForCausalLM"]}))
    whole, without = (
        parameter_bytes(each, Parallelism(tensor_parallel_size=1), Version("0.33.0"))
        for each in (model, alone)
    )
    layer = 216 + 72 + 288 + 264 + 32
    projector = 40 * 256 + 256 + 256 * 256 + 256
    assert whole - without == 2 * (layer + 32 + 2056 + 24 + 16 + projector)


@pytest.mark.parametrize(("ranks", "asked"), [(1, 4_119_368_192), (2, 3_968_274_944)])
@pytest.mark.parametrize("release", ["0.26.0", "0.33.0"])
def test_coheres_transcriber_has_what_the_release_builds(ranks: int, asked: int, release: str) -> None:
    """Both were asked on torch's meta device, where ConvSubsampling finds one of the 16 bands that are left.

    So its projection of 256 channels to 1,280 had 15 x 256 x 1,280 elements too few there. 35 seconds
    of sound have 3,500 frames, of which each token takes eight: 437.5, rounded up.
    """
    decoder = {
        "hidden_size": 1024,
        "inner_size": 4096,
        "num_layers": 8,
        "num_attention_heads": 8,
        "max_sequence_length": 1024,
        "vocab_size": "None",
    }
    model = read_architecture(
        read_document(
            {
                "architectures": ["CohereAsrForConditionalGeneration"],
                "model_type": "cohere_asr",
                "encoder": {
                    "n_layers": 48,
                    "d_model": 1280,
                    "feat_in": 128,
                    "subsampling_factor": 8,
                    "subsampling_conv_channels": 256,
                    "ff_expansion_factor": 4,
                    "conv_kernel_size": 9,
                },
                "preprocessor": {"sample_rate": 16000, "window_stride": 0.01},
                "transf_decoder": {"config_dict": decoder},
                "head": {"num_classes": 16384, "hidden_size": 1024},
                "max_audio_clip_s": 35,
            }
        )
    )

    found = parameter_bytes(model, Parallelism(tensor_parallel_size=ranks), Version(release))

    assert found == pytest.approx(asked + 15 * 256 * 1280 * 2, rel=1e-5)
    assert (model.vocab_size, model.encoder_tokens) == (16384, 438)
