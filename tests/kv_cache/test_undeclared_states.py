"""MiniMax VL 01, whose class does not tell the engine of its recurrent states."""

from typing import Any

import pytest
from packaging.version import Version

from service.advisor.candidates.engine_start import Start
from service.advisor.dry_runs.dry_run import dry_start
from service.advisor.fixes.fix_attempts import STATE_BLOCK
from service.advisor.plan import plan
from service.advisor.request.plan_request import EngineChoice, Model, PlanRequest
from service.architecture.config import read_document
from service.architecture.reading import read_architecture
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal
from service.engines.releases import rules_for
from service.gpus.catalog import find_gpu
from service.kv_cache.capacity import size_cache
from service.kv_cache.specs import CacheKind

TEXT: dict[str, Any] = {
    "model_type": "minimax",
    "architectures": ["MiniMaxText01ForCausalLM"],
    "hidden_size": 1024,
    "intermediate_size": 2048,
    "num_hidden_layers": 8,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "head_dim": 64,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
    "vocab_size": 32000,
    "max_position_embeddings": 131072,
    "attn_type_list": [0, 0, 0, 1] * 2,
    "tie_word_embeddings": False,
}
MODEL = read_architecture(
    read_document(
        {
            "model_type": "llava_next",
            "architectures": ["MiniMaxVL01ForConditionalGeneration"],
            "torch_dtype": "bfloat16",
            "image_token_index": 31999,
            "text_config": TEXT,
            "vision_config": {"model_type": "clip_vision_model"},
        }
    )
)


def start(flags: ServeFlags, release: str) -> Start:
    return dry_start(MODEL, flags, rules_for(Version(release)), find_gpu("h100-sxm-80gb"))


@pytest.mark.parametrize(
    ("release", "raised"),
    [
        ("0.10.2", "NotImplementedError"),
        ("0.11.0", "NotImplementedError"),
        ("0.14.1", "TypeError"),
        ("0.19.0", "TypeError"),
        ("0.20.0", "AssertionError"),
        ("0.22.1", "AssertionError"),
    ],
)
@pytest.mark.parametrize("caching", [None, True, False])
def test_its_states_have_no_block_size(release: str, raised: str, caching: bool | None) -> None:
    with pytest.raises(EngineRefusal) as refused:
        start(ServeFlags(max_model_len=4096, enable_prefix_caching=caching), release)

    assert refused.value.type == raised
    assert "--mamba-block-size" in refused.value.detail


@pytest.mark.parametrize("block", [512, 4096])
@pytest.mark.parametrize("ranks", [1, 2])
def test_any_block_size_starts_it(block: int, ranks: int) -> None:
    """Answers of 0.22.1: four groups of two layers, and pages as large as a state."""
    flags = ServeFlags(
        max_model_len=4096, enable_prefix_caching=True, mamba_block_size=block, tensor_parallel_size=ranks
    )

    found = start(flags, "0.22.1")
    cache = size_cache(found.layout, found.engine_config, 8_000_000_000)

    state = 2 * 16 * 64 * 64 // ranks
    tokens = state // (2 * 4 // ranks * 64 * 2)
    assert [(group.kind, group.layers, group.block_size) for group in cache.groups] == [
        *[(CacheKind.MAMBA, 2, block)] * 3,
        (CacheKind.FULL_ATTENTION, 2, tokens),
    ]
    assert {group.page_size_bytes for group in cache.groups} == {state}
    assert cache.num_blocks == 8_000_000_000 // (2 * state)


def test_a_block_size_is_the_fix() -> None:
    read = Model("MiniMax VL 01, smaller", None, "given", MODEL)
    asked = PlanRequest(
        read,
        (find_gpu("h100-sxm-80gb"),),
        EngineChoice.of("0.22.1"),
        ServeFlags(max_model_len=4096),
        search=False,
    )
    (candidate,) = plan(asked).plans[0].candidates

    assert candidate.error is not None
    assert "does not tell the engine of its recurrent states" in candidate.error.detail
    assert f"--mamba-block-size {STATE_BLOCK}" in {fix.change for fix in candidate.error.fixes}


def test_it_is_refused_by_name_since_0_24() -> None:
    with pytest.raises(EngineRefusal, match=r"was supported in vLLM until v0\.23\.0"):
        start(ServeFlags(enable_prefix_caching=True, mamba_block_size=512), "0.24.0")
