"""Caches that users' logs print (`tests/data/other_engines/published_logs.jsonl`)."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from service.architecture.config import read_document
from service.architecture.reading import read_architecture
from service.llama_cpp.builds import build_named
from service.llama_cpp.caches import CellCache, CellKind, LlamaCaches
from service.llama_cpp.device_layout import layer_split
from service.llama_cpp.largest_context import cache_demand
from service.llama_cpp.model_layers import LlamaModel, llama_model
from service.llama_cpp.server_flags import ServerFlags
from service.units import MIB
from tests.accuracy.oracle import bundled_architecture

ROWS = [
    json.loads(line)
    for line in Path("tests/data/other_engines/published_logs.jsonl").read_text("utf-8").splitlines()
]


def printed(source: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = next(row["printed"] for row in ROWS if row["source_url"].endswith(source))
    return found


def caches(model: LlamaModel, build: str | None = None, **flags: Any) -> LlamaCaches:  # noqa: ANN401
    layout = layer_split(len(model.layers), (1,), None)
    return cache_demand(model, ServerFlags(**flags), build_named(build)[1], layout).caches


def cache(found: LlamaCaches, kind: CellKind) -> CellCache:
    return next(each for each in found.cells if each.kind is kind)


def mib(found: CellCache) -> float:
    return (found.key_bytes + found.value_bytes) / MIB


def test_gemma_4_e4b_with_shared_layers_and_a_wide_batch() -> None:
    figures = printed("GenieX/pull/1346")
    model = llama_model(bundled_architecture("google/gemma-4-E4B-it"))
    found = caches(model, ctx_size=4096, parallel=1, ubatch_size=1024)
    base, window = cache(found, CellKind.CONTEXT), cache(found, CellKind.WINDOW)
    assert (base.cells, mib(base)) == (figures["base_cells"], figures["base_mib"])
    assert (window.cells, mib(window)) == (figures["swa_cells"], figures["swa_mib"])
    full = cache(caches(model, ctx_size=4096, parallel=1, ubatch_size=1024, swa_full=True), CellKind.WINDOW)
    assert mib(full) == figures["swa_full_mib"]


GEMMA_3N = {
    "architectures": ["Gemma3nForConditionalGeneration"],
    "model_type": "gemma3n",
    "text_config": {
        "model_type": "gemma3n_text",
        "num_hidden_layers": 35,
        "num_kv_shared_layers": 15,
        "hidden_size": 2048,
        "intermediate_size": [16384] * 35,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 256,
        "sliding_window": 512,
        "max_position_embeddings": 32768,
        "vocab_size": 262400,
        "vocab_size_per_layer_input": 262144,
        "hidden_size_per_layer_input": 256,
        "altup_num_inputs": 4,
        "laurel_rank": 64,
        "layer_types": (["sliding_attention"] * 4 + ["full_attention"]) * 7,
    },
}


def test_gemma_3n_stores_its_first_20_layers() -> None:
    figures = printed("llama.cpp/issues/14604")
    model = llama_model(read_architecture(read_document(GEMMA_3N)))
    base = cache(caches(model, ctx_size=32768, parallel=1), CellKind.CONTEXT)
    assert (base.cells, len(base.rows), mib(base)) == (
        figures["base_cells"],
        figures["base_layers"],
        figures["base_mib"],
    )


def test_deepseek_v4_stores_windows_of_all_layers() -> None:
    figures = printed("llama.cpp/issues/27680")
    model = llama_model(bundled_architecture("deepseek-ai/DeepSeek-V4-Flash"))
    types = {"cache_type_k": "bf16", "cache_type_v": "bf16"}
    found = caches(model, ctx_size=64_000, parallel=1, batch_size=4096, ubatch_size=4096, **types)
    base, window = cache(found, CellKind.CONTEXT), cache(found, CellKind.WINDOW)
    assert len(base.rows) == figures["base_layers"]
    assert (window.cells, len(window.rows), mib(window)) == (
        figures["swa_cells"],
        figures["swa_layers"],
        figures["swa_mib"],
    )


def test_states_of_three_sequences() -> None:
    figures = printed("llama.cpp/pull/23792")
    states = caches(llama_model(bundled_architecture("Qwen/Qwen3.5-27B")), ctx_size=4096, parallel=3).states
    assert states is not None
    assert round(states.total_bytes / MIB, 2) == figures["rs_mib"]
    assert round(states.convolution_bytes / MIB, 2) == figures["r_mib"]
    assert states.state_bytes / MIB == figures["s_mib"]


def test_states_of_a_model_of_32_layers() -> None:
    figures = printed("llama-cpp-python/issues/78")
    states = caches(llama_model(bundled_architecture("Qwen/Qwen3.5-9B")), ctx_size=4096, parallel=1).states
    assert states is not None
    assert len(states.layers) == 24
    assert states.total_bytes / MIB == figures["rs_mib"]
    assert (states.convolution_bytes / MIB, states.state_bytes / MIB) == (figures["r_mib"], figures["s_mib"])


def test_draft_tokens_add_rows_of_states() -> None:
    """Qwen3.6 27B on 262,144 cells: 16 layers of 4 x 256, keys and values, and three rows of states."""
    figures = printed("llama.cpp/pull/25465")
    model = llama_model(bundled_architecture("nvidia/Qwen3.6-27B-NVFP4"))
    found = caches(model, ctx_size=262_144, parallel=1, draft_max=2)
    assert found.states is not None
    assert found.states.rows == 3
    assert int(found.total_bytes / MIB) == figures["context_mib"]


def test_a_model_of_one_kind_of_layers() -> None:
    figures = printed("LLamaSharp/issues/1099")
    found = caches(llama_model(bundled_architecture("Qwen/Qwen2.5-3B")), ctx_size=4096, parallel=1)
    assert found.total_bytes / MIB == figures["kv_mib"]


def test_separate_slots_pad_each_context() -> None:
    """Gemma 3 270M: 18 layers with 1 head of 256 elements; 256 cells for each of four slots."""
    figures = printed("unsloth/pull/7530")
    config = {
        "architectures": ["Gemma3ForCausalLM"],
        "model_type": "gemma3_text",
        "num_hidden_layers": 18,
        "hidden_size": 640,
        "intermediate_size": 2048,
        "num_attention_heads": 4,
        "num_key_value_heads": 1,
        "head_dim": 256,
        "sliding_window": 512,
        "max_position_embeddings": 32768,
        "vocab_size": 262144,
        "layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 3,
    }
    model = llama_model(read_architecture(read_document(config)))
    found = caches(model, "b10107", ctx_size=1024, parallel=4)
    assert found.total_bytes / MIB == figures["kv_mib"]
    assert cache(found, CellKind.CONTEXT).cells * 4 == figures["total_cells"]


def test_older_builds() -> None:
    """Gemma 3 27B, 4 slots of 8192 cells, batches of 2048: cells of both caches, build by build."""
    model = llama_model(bundled_architecture("google/gemma-3-27b-it"))

    def cells(build: str, **flags: Any) -> list[int]:  # noqa: ANN401
        found = caches(model, build, ctx_size=32_768, parallel=4, **flags)
        return [each.cells for each in found.cells]

    assert cells("b5000") == [8192]
    assert cells("b5452") == [8192, 4 * 1024 + 2048]
    assert cells("b5800") == [8192, 4 * 1024 + 512]
    assert cells("b6200") == [8192, 1024 + 512]
    assert cells("b10107", kv_unified=True) == [32_768, 4 * 1024 + 512]
