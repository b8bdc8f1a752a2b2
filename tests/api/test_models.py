"""What GET /models/{org}/{name} explains of an architecture."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from service.application.schemas.answers.architecture import ArchitectureAnswer
from service.architecture.config import read_document
from service.architecture.reading import read_architecture
from tests.memory.recorded import records


def explained(client: TestClient, model: str) -> dict[str, Any]:
    reply = client.get(f"/models/{model}")
    assert reply.status_code == 200
    architecture: dict[str, Any] = reply.json()["architecture"]
    return architecture


# A page of 16 tokens of one layer of Llama 3 8B, by the engine's own specs (vLLM 0.13.0 to 0.32.0).
LLAMA_PAGES = {
    "auto": 65_536,
    "fp8": 32_768,
    "nvfp4": 18_432,
    "fp8_per_token_head": 33_792,
    "int4_per_token_head": 17_408,
}


@pytest.mark.parametrize(("dtype", "page"), LLAMA_PAGES.items())
def test_a_token_of_a_dense_model_takes_a_sixteenth_of_every_layers_page(
    client: TestClient, dtype: str, page: int
) -> None:
    cost = explained(client, "meta-llama/Llama-3.1-8B")["cache_per_token"][dtype]

    assert cost == {"bytes": page // 16 * 32, "bytes_beyond_windows": page // 16 * 32}


def test_windows_stop_growing(client: TestClient) -> None:
    architecture = explained(client, "google/gemma-4-31B-it")

    assert [(run["first"], run["last"]) for run in architecture["layers"][:4]] == [
        (0, 4),
        (5, 5),
        (6, 10),
        (11, 11),
    ]
    # 50 sliding layers of 16 heads of 256, 10 full ones of 4 heads of 512, keys and values of 2 bytes.
    full = 10 * 4 * 512 * 2 * 2
    assert architecture["cache_per_token"]["auto"] == {
        "bytes": 50 * 16 * 256 * 2 * 2 + full,
        "bytes_beyond_windows": full,
    }


def test_layers_that_share_a_cache_name_whose(client: TestClient) -> None:
    runs = explained(client, "google/gemma-4-E4B-it")["layers"]
    readers = [run for run in runs if run["reads_cache_of"] is not None]

    assert readers
    assert all(run["reads_cache_of"] < run["first"] for run in readers)


def test_states_are_told_by_their_shapes(client: TestClient) -> None:
    architecture = explained(client, "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16")

    # As vLLM 0.32.0 gives them: 23 layers of (3, 6144) and (64, 64, 128).
    assert architecture["states"] == [
        {"kind": "mamba2", "layers": 23, "convolution": [3, 6144], "recurrent": [64, 64, 128]}
    ]


def test_latent_attention_keeps_one_vector_and_an_indexers_key(client: TestClient) -> None:
    cost = explained(client, "deepseek-ai/DeepSeek-V3.2")["cache_per_token"]

    assert cost["auto"]["bytes"] == 61 * (576 * 2 + 132)
    assert cost["fp8_ds_mla"]["bytes"] == 61 * (656 + 132)
    assert "turboquant_k8v4" not in cost


def test_compressed_attention_keeps_a_part_of_a_vector(client: TestClient) -> None:
    cost = explained(client, "deepseek-ai/DeepSeek-V4-Flash")["cache_per_token"]["fp8_ds_mla"]

    # 43 windows; 21 layers compress four tokens into one and have an indexer, 20 compress 128.
    later = 21 * (584 + 132) / 4 + 20 * 584 / 128
    assert cost == {"bytes": 43 * 584 + later, "bytes_beyond_windows": later}


def test_sizes_of_the_cache_and_of_the_weights_are_one_list(client: TestClient) -> None:
    """Values of DeepSeek-V3's config.json; HTTP does not show which part of the program reads which."""
    architecture = explained(client, "deepseek-ai/DeepSeek-V3")
    (mla,) = architecture["attention"]
    experts = next(
        kind["dimensions"] for kind in architecture["feed_forward"] if kind["kind"] == "mixture_of_experts"
    )

    sizes = {name: mla["dimensions"][name] for name in ("kv_lora_rank", "q_lora_rank", "v_head_dim")}
    assert sizes == {"kv_lora_rank": 512, "q_lora_rank": 1536, "v_head_dim": 128}
    assert (experts["num_experts"], experts["router_bias"]) == (256, True)
    assert "weights" not in mla["dimensions"] | experts


def test_low_rank_projections_are_explained_with_their_sizes() -> None:
    """MiniCPM 3 4B (config.json): projections of MLA before a cache of 40 heads."""
    config = next(
        row["config"]
        for row in records("families.json")
        if "MiniCPM3ForCausalLM" in row["config"]["architectures"]
    )
    (kind,) = ArchitectureAnswer.of(read_architecture(read_document(config))).attention
    low_rank = kind.dimensions["low_rank"]

    assert low_rank["q_lora_rank"] == config["q_lora_rank"]
    assert low_rank["kv_lora_rank"] == config["kv_lora_rank"]
    assert "weights" not in low_rank
