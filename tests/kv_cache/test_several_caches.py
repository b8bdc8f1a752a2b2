"""Layers that keep several caches, and cross attention: numbers of real releases, asked without a GPU."""

from typing import Any

import pytest
from packaging.version import Version

from service.advisor.candidates.engine_start import Start
from service.advisor.dry_runs.dry_run import dry_start
from service.architecture.config import read_document
from service.architecture.model import ModelArchitecture
from service.architecture.reading import read_architecture
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal, Stage
from service.engines.releases import rules_for
from service.gpus.catalog import find_gpu
from service.kv_cache.capacity import size_cache
from service.kv_cache.specs import CacheKind

MEMORY = 5_000_000_123
WHISPER = {
    "architectures": ["WhisperForConditionalGeneration"],
    "model_type": "whisper",
    "d_model": 768,
    "encoder_layers": 12,
    "decoder_layers": 12,
    "encoder_attention_heads": 12,
    "decoder_attention_heads": 12,
    "encoder_ffn_dim": 3072,
    "decoder_ffn_dim": 3072,
    "vocab_size": 51865,
    "torch_dtype": "float32",
}
"""openai/whisper-small."""
LONGCAT = {
    "architectures": ["LongcatFlashForCausalLM"],
    "model_type": "longcat_flash",
    "hidden_size": 3072,
    "num_layers": 7,
    "num_attention_heads": 32,
    "zero_expert_type": "identity",
}
LOOP = {
    "architectures": ["IQuestLoopCoderForCausalLM"],
    "model_type": "iquestloopcoder",
    "hidden_size": 5120,
    "intermediate_size": 27648,
    "num_hidden_layers": 20,
    "num_attention_heads": 40,
    "num_key_value_heads": 8,
    "vocab_size": 76800,
    "max_position_embeddings": 131072,
    "loop_num": 2,
    "loop_window_size": 64,
}


def model(document: dict[str, Any]) -> ModelArchitecture:
    return read_architecture(read_document(document))


def start(document: dict[str, Any], release: str, gpu: str = "h100-sxm-80gb", **flags: object) -> Start:
    return dry_start(model(document), ServeFlags(**flags), rules_for(Version(release)), find_gpu(gpu))  # type: ignore[arg-type]


def test_whisper_keeps_its_own_tokens_and_a_batch_of_the_encoder_s() -> None:
    found = start(WHISPER, "0.32.0")
    cache = size_cache(found.layout, found.engine_config, MEMORY)

    assert [(group.kind, group.layers) for group in cache.groups] == [
        (CacheKind.FULL_ATTENTION, 12),
        (CacheKind.CROSS_ATTENTION, 12),
    ]
    assert cache.num_blocks == 8477
    assert cache.max_concurrency == pytest.approx(15.698148148148148)


@pytest.mark.parametrize(
    ("release", "tokens"), [("0.10.2", 1500), ("0.12.0", 1500), ("0.13.0", 8192), ("0.33.0", 8192)]
)
def test_room_for_the_encoder_was_the_model_s_and_is_the_batch_s(release: str, tokens: int) -> None:
    assert start(WHISPER, release).engine_config.encoder_tokens == tokens


@pytest.mark.parametrize(("release", "caching"), [("0.11.2", False), ("0.12.0", True), ("0.32.0", True)])
def test_prefixes_of_a_decoder_with_an_encoder_are_cached_when_asked_for(release: str, caching: bool) -> None:
    assert start(WHISPER, release, enable_prefix_caching=True).engine_config.enable_prefix_caching is caching
    assert not start(WHISPER, release).engine_config.enable_prefix_caching


def test_cross_attention_has_a_backend_of_its_own() -> None:
    found = start(WHISPER, "0.19.0", gpu="b200-180gb", kv_cache_dtype="fp8")

    assert {backend.name for backend in found.backends.values()} == {"FLASHINFER", "TRITON_ATTN"}
    with pytest.raises(EngineRefusal, match="ENCODER_DECODER not supported"):
        start(WHISPER, "0.32.0", attention_backend="FLASHINFER")


def test_one_kind_of_cache_cannot_be_made_of_two() -> None:
    with pytest.raises(EngineRefusal) as caught:
        start(WHISPER, "0.19.0", disable_hybrid_kv_cache_manager=True)

    assert caught.value.stage is Stage.GROUPING


def test_batches_hold_a_whole_prompt_where_none_is_chunked() -> None:
    with pytest.raises(EngineRefusal, match=r"max_num_batched_tokens \(256\) is smaller than max_model_len"):
        start(WHISPER, "0.32.0", max_num_batched_tokens=256)
    assert start(WHISPER, "0.10.2", max_num_batched_tokens=256).engine_config.max_num_batched_tokens == 256


def test_batches_hold_all_requests_asked_for() -> None:
    with pytest.raises(EngineRefusal, match="greater than or equal to max_num_seqs"):
        start(LONGCAT, "0.32.0", max_num_batched_tokens=2048, max_num_seqs=4096)


def test_attentions_of_one_layer_stay_on_one_stage() -> None:
    """vLLM 0.32.0 asked: of seven layers, the first stage has four, and two caches for each."""
    found = start(LONGCAT, "0.32.0", pipeline_parallel_size=2)

    assert [sum(layers.count for layers in stage) for stage in found.layout.layers] == [8, 6]
    assert size_cache(found.layout, found.engine_config, MEMORY).num_blocks == 33908
    assert model(LONGCAT).num_layers == 7


def test_a_release_that_counts_other_layers_is_not_trusted() -> None:
    assert start(LONGCAT, "0.31.0").miscounts
    assert not start(LONGCAT, "0.32.0").miscounts


def test_a_second_pass_has_caches_but_no_weights() -> None:
    architecture = model(LOOP)
    found = start(LOOP, "0.32.0")

    assert (len(architecture.layers), architecture.num_layers) == (40, 20)
    assert [(group.kind, group.num_layers) for group in found.layout.groups] == [
        (CacheKind.FULL_ATTENTION, 20),
        (CacheKind.SLIDING_WINDOW, 20),
    ]


def test_qwen3_vl_has_no_stages_before_0_30() -> None:
    """vLLM 0.20.2, 0.24.0 and 0.26.0 asked; 0.30.0 names the architecture of the text part."""
    vision = {
        "architectures": ["Qwen3VLForConditionalGeneration"],
        "model_type": "qwen3_vl",
        "text_config": {"model_type": "qwen3_vl_text"},
        "vision_config": {
            "depth": 4,
            "hidden_size": 1024,
            "num_heads": 16,
            "intermediate_size": 4096,
            "out_hidden_size": 4096,
        },
    }
    with pytest.raises(EngineRefusal, match="No model architectures"):
        start(vision, "0.26.0", pipeline_parallel_size=2)
    assert start(vision, "0.30.0", pipeline_parallel_size=2).layout.groups
