"""How the configs of architecture classes are read."""

import random
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from service.architecture.config import InvalidConfig, read_document
from service.architecture.layers.attention import Attention, NoAttention, QueryKeyNorm
from service.architecture.layers.experts import MixtureOfExperts
from service.architecture.layers.feed_forward import DenseFeedForward, NoFeedForward
from service.architecture.layers.mla import MultiHeadLatentAttention
from service.architecture.model import ModelArchitecture
from service.architecture.readers.fields.config_classes import config_class
from service.architecture.reading import UnknownArchitecture, read_architecture
from service.engine_config.release_reading import as_read_by
from service.engines.releases import rules_for
from tests.accuracy.recorded import RECORDINGS
from tests.memory.recorded import records

CONFIGS = [row["config"] for row in records("families.json")]
PLAIN: dict[str, Any] = {
    "hidden_size": 256,
    "num_attention_heads": 4,
    "num_attention_groups": 4,
    "num_hidden_layers": 4,
    "intermediate_size": 512,
    "vocab_size": 1024,
}
"""Four layers of four heads."""
EXPERTS: dict[str, Any] = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 128,
    "moe_k": 2,
    "moe_topk": 2,
    "moe_num_experts": 4,
    "moe_top_k": 2,
    "use_moe_router_bias": True,
    "need_fp32_gate": True,
    "sparse_config": {"enabled": False},
}
"""The same four experts, as each family spells them."""
MINICPM: dict[str, Any] = {**PLAIN, "query_num": 64, "model_type": "minicpmv"}
WITHOUT_ENCODER: dict[str, dict[str, Any]] = {
    "DeepseekV4ForConditionalGeneration": {"vision_n_layers": 0},
    "MuseGlimmerForConditionalGeneration": {"has_vision": False},
    "MiniMaxM3SparseForConditionalGeneration": {"vision_config": None},
    "KimiK25ForConditionalGeneration": {"vision_config": None},
}
ENCODING = [
    config
    for config in (*CONFIGS, *(c for recording in RECORDINGS for c in recording.configs.values()))
    if config["architectures"][0] in WITHOUT_ENCODER
]


def read(**fields: object) -> ModelArchitecture:
    return read_architecture(read_document(fields))


def attention_of(architecture: ModelArchitecture) -> Attention:
    mixer = architecture.lead_attention
    assert isinstance(mixer, Attention)
    return mixer


def test_a_field_is_read_under_the_name_that_its_class_gives_it() -> None:
    text = config_class("gpt2").view(read_document({"n_embd": 1600, "n_layer": 48}))

    assert text.integer("hidden_size") == 1600
    assert text.layers("num_hidden_layers") == 48
    assert text.at("hidden_size") == "/n_embd"


def test_an_absent_field_has_the_default_of_its_class_and_null_has_none() -> None:
    absent = config_class("mistral").view(read_document({}))
    null = config_class("mistral").view(read_document({"sliding_window": None}))

    assert absent.integer("sliding_window") == 4096
    assert "sliding_window" not in null


def test_a_field_at_fault_is_called_by_its_own_name() -> None:
    with pytest.raises(InvalidConfig) as caught:
        read(architectures=["GPT2LMHeadModel"], model_type="gpt2", n_head=0)

    assert caught.value.pointer == "/n_head"


def test_falcon_has_one_key_head_or_groups_of_them() -> None:
    small = read(architectures=["FalconForCausalLM"], model_type="falcon", multi_query=True)
    large = read(
        architectures=["FalconForCausalLM"],
        model_type="falcon",
        hidden_size=14848,
        num_attention_heads=232,
        num_kv_heads=8,
        new_decoder_architecture=True,
    )

    assert attention_of(small).num_kv_heads == 1
    assert attention_of(large).num_kv_heads == 8


def test_a_pruned_block_has_no_attention_or_no_network() -> None:
    """Two blocks in the spelling of Nemotron-NAS (Llama-3.3-Nemotron-Super-49B)."""
    whole = {"no_op": False, "n_heads_in_group": 8}
    blocks = [
        {"attention": whole, "ffn": {"no_op": True, "ffn_mult": None}},
        {"attention": {"no_op": True, "n_heads_in_group": None}, "ffn": {"no_op": False, "ffn_mult": 5.25}},
    ]

    model = read(
        architectures=["DeciLMForCausalLM"],
        model_type="nemotron-nas",
        hidden_size=8192,
        num_attention_heads=64,
        num_hidden_layers=2,
        vocab_size=128256,
        block_configs=blocks,
    )

    first, second = model.layers
    assert isinstance(first.mixer, Attention)
    assert first.mixer.num_kv_heads == 8
    assert isinstance(first.feed_forward, NoFeedForward)
    assert isinstance(second.mixer, NoAttention)
    # 2 * 5.25 * 8192 / 3 = 28672, a multiple of 256 already.
    assert getattr(second.feed_forward, "intermediate_size", None) == 28672


def test_llama_4_looks_at_chunks_but_on_every_fourth_layer() -> None:
    text = {"model_type": "llama4_text", "num_hidden_layers": 8, "attention_chunk_size": 8192}
    model = read(architectures=["Llama4ForConditionalGeneration"], model_type="llama4", text_config=text)

    chunks = [
        mixer.attention_chunk_size for _, mixer in model.attention_layers if isinstance(mixer, Attention)
    ]
    assert chunks == [8192, 8192, 8192, None] * 2


def test_a_wrapper_reads_the_class_that_its_text_part_names() -> None:
    text = {"architectures": ["MistralForCausalLM"], "model_type": "mistral", "sliding_window": None}
    unknown = {"model_type": "some_other_encoder"}
    model = read(
        architectures=["LlavaForConditionalGeneration"],
        model_type="llava",
        text_config=text,
        vision_config=unknown,
    )

    assert model.multimodal
    assert not model.media.towers_known
    assert attention_of(model).num_kv_heads == 8


def test_a_text_part_without_a_class_of_its_own_is_the_wrappers_default() -> None:
    """LLaVA 1.5: a Llama 2 7B, of which the config says its vocabulary alone."""
    model = read(
        architectures=["LlavaForConditionalGeneration"], model_type="llava", text_config={"vocab_size": 32064}
    )

    assert (model.hidden_size, len(model.layers), model.vocab_size) == (4096, 32, 32064)


def test_deepseek_ocr_keeps_its_text_model_in_a_section_of_its_own() -> None:
    text = {"model_type": "deepseek_v2", "architectures": ["DeepseekV2ForCausalLM"], "num_experts_per_tok": 6}
    model = read(architectures=["DeepseekVLV2ForCausalLM"], model_type="deepseek_vl_v2", language_config=text)

    assert isinstance(model.lead_attention, MultiHeadLatentAttention)


JUNK: tuple[object, ...] = (None, 0, -1, 1, 3, 2.5, 1 << 40, True, "x", [], [0, 0], ["x"], {}, {"a": 1})


@given(st.sampled_from(CONFIGS), st.randoms(use_true_random=False), st.sampled_from(JUNK))
def test_a_mutated_config_of_any_class_is_read_or_refused(
    config: dict[str, Any], dice: random.Random, value: object
) -> None:
    document = {**config, dice.choice(sorted(set(config) - {"architectures"})): value}
    with suppress(InvalidConfig, UnknownArchitecture):
        assert read_architecture(read_document(document)).layers


@pytest.mark.parametrize(
    ("class_name", "text", "inner"),
    [
        ("MiniCPMV", {"hidden_size": 2304, "query_num": 96}, "2.5"),
        ("MiniCPMV", {"hidden_size": 4096, "query_num": 64}, "2.5"),
        ("MiniCPMV", {"version": 2.6}, "2.6"),
        ("MiniCPMV", {"version": "4.0"}, "4.0"),
        ("MiniCPMV", {"version": 4.5}, "4.5"),
        ("MiniCPMO", {}, "2.6"),
        ("MiniCPMO", {"version": "4.5"}, "4.5"),
    ],
)
def test_the_version_of_minicpm_decides_its_text_model(
    class_name: str, text: dict[str, Any], inner: str
) -> None:
    """vLLM 0.33.0, minicpmv.py and minicpmo.py: MiniCPM, Llama, Qwen 2 (biases) or Qwen 3 (norms)."""
    mixer = attention_of(read(architectures=[class_name], **{**MINICPM, **text}))

    assert mixer.weights.qkv_bias is (inner == "2.6")
    assert (mixer.weights.query_key_norm is QueryKeyNorm.PER_HEAD) is (inner == "4.5")


@pytest.mark.parametrize("text", [{"hidden_size": 2304, "query_num": 64}, {"version": 2.0}])
def test_no_release_starts_the_first_minicpm_v(text: dict[str, Any]) -> None:
    """Asked of 0.20.2 and 0.33.0: MiniCPMV.__new__ reads a mapping that the class of 2.0 does not have."""
    with pytest.raises(InvalidConfig, match="no release starts"):
        read(architectures=["MiniCPMV"], **{**MINICPM, **text})


@pytest.mark.parametrize(
    ("class_name", "version"),
    [("MiniCPMV", "3.0"), ("MiniCPMV", 2), ("MiniCPMV", "2.6.1"), ("MiniCPMO", "4.0")],
)
def test_a_version_of_minicpm_that_the_engine_does_not_know_is_refused(
    class_name: str, version: object
) -> None:
    with pytest.raises(InvalidConfig, match=r"none of 2\.") as caught:
        read(architectures=[class_name], **MINICPM, version=version)

    assert caught.value.pointer == "/version"


@pytest.mark.parametrize(
    ("specified", "window"),
    [
        ({"use_sliding_window": False, "max_window_layers": 0}, None),
        ({"use_sliding_window": True, "max_window_layers": 0}, 512),
        # transformers, Qwen2Config: 28 layers are full unless told otherwise.
        ({"use_sliding_window": True}, None),
        ({"use_sliding_window": True, "max_window_layers": 4}, None),
    ],
)
def test_qwen_2_slides_on_all_layers_or_on_none(specified: dict[str, Any], window: int | None) -> None:
    """vLLM 0.32.0, EngineArgs.create_engine_config: a window of the model needs all layers to slide."""
    model = read(architectures=["Qwen2ForCausalLM"], **PLAIN, sliding_window=512, **specified)

    assert [getattr(layer.mixer, "sliding_window", 0) for layer in model.layers] == [window] * 4


def test_a_config_class_keeps_no_window_that_it_does_not_use() -> None:
    """transformers 5.19, Qwen2Config.__post_init__; vLLM 0.33.0 built InternLM 2's reward model so."""
    named = {**PLAIN, "architectures": ["InternLM2ForCausalLM"], "sliding_window": 512}

    for model_type, window in (("qwen2", None), ("llama", 512)):
        model = read(**named, model_type=model_type, use_sliding_window=False)
        assert attention_of(model).sliding_window == window


def test_layers_slide_over_no_window_that_is_null() -> None:
    """vLLM 0.26.0, drawn row 20261511-0098: all layers of Gemma 2 are full then."""
    for window, found in ((None, [None] * 4), (512, [512, None] * 2)):
        model = read(architectures=["Gemma2ForCausalLM"], **PLAIN, sliding_window=window)
        assert [getattr(layer.mixer, "sliding_window", 0) for layer in model.layers] == found


def test_a_window_of_the_whole_model_is_none_where_some_layers_see_everything() -> None:
    """vLLM 0.32.0, EngineArgs.create_engine_config: mixed ``layer_types`` leave no window to all layers."""
    mixed = ["sliding_attention", "full_attention"] * 2
    for types, window in ((mixed, None), (["sliding_attention"] * 4, 512)):
        model = read(architectures=["MiniCPMForCausalLM"], **PLAIN, sliding_window=512, layer_types=types)
        assert attention_of(model).sliding_window == window


@pytest.mark.parametrize(
    ("class_name", "specified", "sparse"),
    [
        ("Qwen2MoeForCausalLM", {"mlp_only_layers": [1]}, [0, 2, 3]),
        ("Qwen3MoeForCausalLM", {"mlp_only_layers": [0, 3]}, [1, 2]),
        ("Qwen3MoeForCausalLM", {"decoder_sparse_step": 2}, [1, 3]),
        ("HunYuanMoEV1ForCausalLM", {"num_experts": 1}, []),
        ("Ernie4_5_MoeForCausalLM", {"moe_num_experts": 4, "moe_layer_start_index": 2}, [2, 3]),
        # models/step5/nvidia/model.py: layers are told as a list, in words, or are all but the first.
        ("Step5ForCausalLM", {"moe_layer_list": [1, 3]}, [1, 3]),
        ("Step5ForCausalLM", {"moe_layers_enum": "2,3"}, [2, 3]),
        ("Step5ForCausalLM", {}, [1, 2, 3]),
        # minimax_text_01.py: a layer of one expert is a dense one.
        ("MiniMaxText01ForCausalLM", {"num_local_experts": [4, 1, 4, 1]}, [0, 2]),
        ("MiniMaxText01ForCausalLM", {"num_local_experts": 4}, [0, 1, 2, 3]),
    ],
)
def test_which_layers_have_experts(class_name: str, specified: dict[str, Any], sparse: list[int]) -> None:
    model = read(architectures=[class_name], **PLAIN, **{**EXPERTS, **specified})

    assert [
        index for index, layer in enumerate(model.layers) if isinstance(layer.feed_forward, MixtureOfExperts)
    ] == sparse


def test_hunyuan_names_one_width_for_all_layers_or_one_for_each() -> None:
    """vLLM 0.32.0, HunYuanDecoderLayer: a number, or a list with one for each layer."""
    specified = {"num_experts": 1, "intermediate_size": [256, 512, 768, 1024]}
    model = read(architectures=["HunYuanMoEV1ForCausalLM"], **{**PLAIN, **specified})

    assert [getattr(layer.feed_forward, "intermediate_size", 0) for layer in model.layers] == [
        256,
        512,
        768,
        1024,
    ]


def test_ernie_vl_has_experts_for_text_and_for_images() -> None:
    """ERNIE-4.5-VL-28B-A3B: experts of 1536 for text and of 512 for images, two shared ones of 1536."""
    model = read(
        architectures=["Ernie4_5_VLMoeForConditionalGeneration"],
        **PLAIN,
        moe_num_experts=[64, 64],
        moe_intermediate_size=[1536, 512],
        moe_layer_start_index=[1, 1],
        moe_k=6,
        moe_num_shared_experts=2,
    )
    first, second, *_ = model.layers

    assert isinstance(first.feed_forward, DenseFeedForward)
    assert isinstance(second.feed_forward, MixtureOfExperts)
    assert (second.feed_forward.num_experts, second.feed_forward.intermediate_size) == (64, 1536 + 512)
    assert second.feed_forward.shared_intermediate_size == 2 * 1536


def test_a_pattern_names_the_layers_with_their_own_selection() -> None:
    """vLLM 0.33.0, DeepseekV2MLAAttention: S shares the picks of the layer before."""
    config = next(c for c in CONFIGS if c["architectures"] == ["DeepseekV3ForCausalLM"])
    picking = {"index_topk": 2048, "index_n_heads": 64, "index_head_dim": 128, "num_hidden_layers": 4}
    document = {**config, **picking, "architectures": ["DeepseekV32ForCausalLM"], "first_k_dense_replace": 1}

    def reuses(**specified: object) -> list[bool | None]:
        layers = read_architecture(read_document({**document, **specified})).layers
        indexers = [
            layer.mixer.indexer for layer in layers if isinstance(layer.mixer, MultiHeadLatentAttention)
        ]
        return [None if indexer is None else indexer.reuses_selection for indexer in indexers]

    assert reuses(index_topk_pattern="FSSF") == [False, True, True, False]
    # Every second layer from the second on: (1 - 2 + 1) and (3 - 2 + 1) are multiples of two.
    assert reuses(index_topk_freq=2) == [False, False, True, False]
    assert reuses(index_topk=None) == [None] * 4


def test_pangus_attention_follows_its_config() -> None:
    """vLLM 0.32.0, OpenPanguDecoderLayer: latent attention where all four of its sizes are there."""
    config = next(c for c in CONFIGS if c["architectures"] == ["PanguProMoEV2ForCausalLM"])
    mla = {"qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "kv_lora_rank": 512}

    for missing, kind in (
        (None, MultiHeadLatentAttention),
        ("kv_lora_rank", Attention),
        ("v_head_dim", Attention),
    ):
        specified = {name: size for name, size in mla.items() if name != missing}
        assert isinstance(read_architecture(read_document({**config, **specified})).layers[0].mixer, kind)


def test_a_pruned_network_has_a_declared_width_or_a_share_of_the_hidden_size() -> None:
    """vLLM 0.32.0, nemotron_nas._ffn_mult_to_intermediate_size: 2 * 1.3 * 1024 / 3 = 887.5, up to 1024."""
    config = next(c for c in CONFIGS if c["architectures"] == ["DeciLMForCausalLM"])
    attention = {"no_op": False, "n_heads_in_group": 4}
    networks = [{"ffn_mult": 1.3}, {"intermediate_size": 700}, {"ffn_mult": 0.01}]
    blocks = [{"attention": attention, "ffn": network} for network in networks] * 2

    model = read_architecture(read_document({**config, "hidden_size": 1024, "block_configs": blocks}))

    widths = [getattr(layer.feed_forward, "intermediate_size", 0) for layer in model.layers]
    assert widths == [1024, 700, 256] * 2


def test_a_looped_model_may_keep_one_cache_for_all_passes() -> None:
    """vLLM 0.33.0, dory.DoryAttention: passes have caches of their own in the mode per_loop alone."""
    config = next(c for c in CONFIGS if c["architectures"] == ["DoryForCausalLM"])

    own = read_architecture(read_document({**config, "recurrent_kv_cache_mode": "per_loop"}))
    shared = read_architecture(read_document({**config, "recurrent_kv_cache_mode": "last_loop"}))

    # 16 layers, run three times.
    assert (len(own.layers), len(shared.layers)) == (3 * 16, 16)


def test_a_model_of_images_without_its_encoder_has_none() -> None:
    """An encoder that is told to be absent (Muse Glimmer, DeepSeek V4), or of which nothing is told."""
    whole = {recording["architectures"][0]: recording for recording in ENCODING}
    assert len(whole) == len(WITHOUT_ENCODER)
    for class_name, without in WITHOUT_ENCODER.items():
        assert read_architecture(read_document(whole[class_name])).media.towers
        assert not read_architecture(read_document({**whole[class_name], **without})).media.towers


@pytest.mark.parametrize("name", ["qwen3_vl", "qwen3_5"])
def test_the_encoder_of_an_absent_part_is_the_same_with_experts(name: str) -> None:
    """transformers 5.19: the vision configs of qwen3_vl_moe and qwen3_5_moe have the same defaults."""
    class_name = {"qwen3_vl": "Qwen3VL", "qwen3_5": "Qwen3_5"}[name]
    dense, sparse = (
        read(
            architectures=[f"{class_name}{kind}ForConditionalGeneration"],
            model_type=model_type,
            text_config={"model_type": f"{model_type}_text", "hidden_size": 2048},
        )
        for kind, model_type in (("", name), ("Moe", f"{name}_moe"))
    )
    assert sparse.media.towers
    assert sparse.media.towers == dense.media.towers


def test_fields_of_a_text_part_outside_its_section_do_not_count() -> None:
    """transformers 4.57 and 5.19, Gemma3Config: without `text_config` it is Gemma3TextConfig's defaults."""
    flat = read(
        architectures=["Gemma3ForConditionalGeneration"],
        model_type="gemma3",
        hidden_size=512,
        num_hidden_layers=2,
    )
    assert (flat.hidden_size, len(flat.layers)) == (2304, 26)


@pytest.mark.parametrize(
    ("class_name", "model_type"),
    [
        ("LlamaForCausalLM", "llava"),
        ("MistralForCausalLM", "mistral3"),
        ("Llama4ForCausalLM", "llama4"),
    ],
)
def test_a_class_for_text_alone_reads_them(class_name: str, model_type: str) -> None:
    """vLLM 0.20.2 to 0.33.0, asked: the two layers of the config, not those of a part that it lacks."""
    flat = read(
        architectures=[class_name],
        model_type=model_type,
        hidden_size=512,
        intermediate_size=1024,
        num_hidden_layers=2,
        num_attention_heads=8,
        num_key_value_heads=2,
        vocab_size=32_000,
    )
    assert (flat.hidden_size, len(flat.layers)) == (512, 2)


def test_qwen_3_5_reads_the_part_for_text_that_its_config_class_makes() -> None:
    """vLLM 0.33.0, asked; transformers 5.19, Qwen3_5TextConfig has 32 layers of 4,096."""
    flat = read(
        architectures=["Qwen3_5ForCausalLM"], model_type="qwen3_5", hidden_size=512, num_hidden_layers=2
    )
    assert (flat.hidden_size, len(flat.layers)) == (4096, 32)


def config_of(class_name: str) -> dict[str, Any]:
    """Return a recorded config of a class."""
    recorded = (config for recording in RECORDINGS for config in recording.configs.values())
    return next(dict(c) for c in (*CONFIGS, *recorded) if c["architectures"] == [class_name])


def test_glm_5_next_may_do_without_an_indexer_or_copies_of_its_residuals() -> None:
    """vLLM 0.33.0, models/glm5next/common: both hang on a field of the config."""
    config = config_of("Glm5NextForCausalLM")
    whole = read_architecture(read_document(config))
    plain = read_architecture(read_document({**config, "index_topk": None, "mhc": False}))

    def indexers(model: ModelArchitecture) -> set[bool]:
        mixers = [layer.mixer for layer in model.layers]
        return {mixer.indexer is None for mixer in mixers if isinstance(mixer, MultiHeadLatentAttention)}

    assert (indexers(whole), indexers(plain)) == ({False}, {True})
    assert whole.hyper_connections is not None
    # hc_mult
    assert whole.hyper_connections.copies == 4
    assert plain.hyper_connections is None


@pytest.mark.parametrize(
    ("specified", "dense", "expert"),
    [
        # vLLM 0.33.0, models/inkling/configs.py: the plain name is the experts' width, or the dense one's.
        ({"dense_intermediate_size": 6144, "intermediate_size": 768}, 6144, 768),
        ({"intermediate_size": 6144, "moe_intermediate_size": 768}, 6144, 768),
        ({"intermediate_size": 768}, 768, 768),
    ],
)
def test_inkling_names_its_widths_in_two_ways(specified: dict[str, Any], dense: int, expert: int) -> None:
    widths = {"dense_intermediate_size": None, "moe_intermediate_size": None, **specified}
    model = read_architecture(read_document({**config_of("InklingForCausalLM"), **widths}))
    # dense_mlp_idx: the first two layers.
    networks = [getattr(layer.feed_forward, "intermediate_size", 0) for layer in model.layers]

    assert networks == [dense] * 2 + [expert] * 10


def test_gemma_3n_names_one_width_for_all_layers_or_one_for_each() -> None:
    config = config_of("Gemma3nForCausalLM")
    for specified in (8192, [8192] * 35):
        model = read_architecture(read_document({**config, "intermediate_size": specified}))
        assert {getattr(layer.feed_forward, "intermediate_size", 0) for layer in model.layers} == {8192}


@pytest.mark.parametrize(("layers", "attending"), [(8, [3, 7]), (6, [3]), (3, [2])])
def test_olmo_hybrid_attends_in_every_fourth_layer_or_else_in_the_last(
    layers: int, attending: list[int]
) -> None:
    """transformers 5.19, OlmoHybridConfig, without ``layer_types``."""
    config = {**config_of("OlmoHybridForCausalLM"), "layer_types": None, "num_hidden_layers": layers}
    model = read_architecture(read_document(config))

    assert [
        index for index, layer in enumerate(model.layers) if isinstance(layer.mixer, Attention)
    ] == attending


def test_n_gram_tables_follow_the_config() -> None:
    """vLLM 0.33.0, longcat_flash_ngram.py: uses_ngram_embedding, and four times three tables otherwise."""
    config = config_of("LongcatFlashNgramForCausalLM")
    with_tables = read_architecture(read_document(config))
    without = read_architecture(read_document({**config, "ngram_vocab_size_ratio": None}))

    assert with_tables.ends.ngrams is not None
    assert with_tables.ends.ngrams.tables == 4 * (4 - 1)
    assert without.ends.ngrams is None


def test_a_minimax_without_full_attention_has_its_heads_all_the_same() -> None:
    """As transformers runs it, each layer has the config's heads, linear ones too (4 of 256 / 4 each)."""
    specified = {"attn_type_list": [0, 0, 0, 0], "num_local_experts": 4, "num_experts_per_tok": 2}
    model = read(architectures=["MiniMaxForCausalLM"], **{**PLAIN, **specified})
    attending = as_read_by(model, rules_for(Version("0.24.0")))

    mixers = [layer.mixer for layer in attending.layers if isinstance(layer.mixer, Attention)]
    heads = {(mixer.num_heads, mixer.head_size, mixer.weights.linear_weights) for mixer in mixers}
    assert (len(mixers), heads) == (4, {(4, 64, True)})


def test_a_flat_mistral_3_has_the_text_part_of_its_config_class() -> None:
    """transformers 4.57 and 5.19, Mistral3Config.__init__: without text_config, Mistral Small's sizes."""
    model = read(architectures=["Mistral3ForConditionalGeneration"], model_type="mistral3", hidden_size=1024)

    assert (model.hidden_size, len(model.layers), model.vocab_size) == (5120, 40, 131_072)


def test_sizes_of_mla_under_another_type_are_stored_in_full() -> None:
    """vLLM 0.26.0 and 0.33.0 asked: 2 layers of 8 heads of 128 under mistral4, MLA under deepseek_v3."""
    fields = {
        "architectures": ["DeepseekV3ForCausalLM"],
        "hidden_size": 1024,
        "intermediate_size": 2048,
        "num_attention_heads": 8,
        "num_hidden_layers": 2,
        "vocab_size": 32000,
        "kv_lora_rank": 256,
        "q_lora_rank": 512,
        "qk_nope_head_dim": 64,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
    }
    assert read(**fields, model_type="deepseek_v3").is_mla
    full = read(**fields, model_type="mistral4")
    mixer = full.layers[0].mixer

    assert not full.is_mla
    assert isinstance(mixer, Attention)
    assert (mixer.num_kv_heads, mixer.head_size, mixer.head_size_v) == (8, 128, 128)
