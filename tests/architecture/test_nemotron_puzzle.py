"""Nemotron-H with blocks of their own sizes, beside what vLLM 0.32.0 builds of the same config."""

from typing import Any, Final

import pytest
from packaging.version import Version

from service.advisor.dry_runs.dry_run import dry_start
from service.architecture.config import InvalidConfig, read_document
from service.architecture.reading import read_architecture
from service.engines.flags import ServeFlags
from service.engines.releases import rules_for
from service.gpus.catalog import find_gpu
from service.kv_cache.capacity import size_cache
from service.memory.parallelism import Parallelism
from service.memory.weights.counts.parameters import parameter_bytes

EXPERTS: Final[dict[str, Any]] = {"block_type": "moe", "moe_latent_size": 1024}
LARGE: Final = {**EXPERTS, "num_experts_per_tok": 4, "moe_shared_expert_intermediate_size": 5376}
SMALL: Final = {
    **EXPERTS,
    "n_routed_experts": 16,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 640,
    "moe_shared_expert_intermediate_size": 2688,
}


def _four(routed: int, width: int, window: int | None) -> list[dict[str, Any]]:
    large = {**LARGE, "n_routed_experts": routed, "moe_intermediate_size": width}
    return [{"block_type": "mamba"}, large, {"block_type": "attention", "sliding_window": window}, SMALL]


CONFIG: Final[dict[str, Any]] = {
    "architectures": ["NemotronHPuzzleForCausalLM"],
    "model_type": "nemotron_h_puzzle",
    "block_configs": [
        *_four(64, 1280, None),
        *_four(64, 1280, None)[:2],
        *_four(32, 2816, 8192)[2:],
        *_four(32, 2816, 8192),
    ],
    "vocab_size": 131072,
    "tie_word_embeddings": False,
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "use_conv_bias": True,
    "max_position_embeddings": 262144,
    "ssm_state_size": 128,
    "mamba_num_heads": 128,
    "mamba_head_dim": 64,
    "n_groups": 8,
    "conv_kernel": 4,
    "mamba_ssm_cache_dtype": "float32",
    "n_shared_experts": 1,
    "intermediate_size": 21504,
    "torch_dtype": "bfloat16",
}


# vLLM 0.32.0: parameters on the meta device; blocks of 40,000,000,000 bytes a rank.
@pytest.mark.parametrize(
    ("ranks", "parameters", "blocks"), [(1, 4_684_062_528, 9390), (2, 2_393_268_544, 18780)]
)
def test_every_block_has_its_own_sizes(ranks: int, parameters: int, blocks: int) -> None:
    architecture = read_architecture(read_document(CONFIG))
    flags = ServeFlags(tensor_parallel_size=ranks)
    start = dry_start(architecture, flags, rules_for(Version("0.32.0")), find_gpu("h100-sxm-80gb"))
    deployment = Parallelism(tensor_parallel_size=ranks, compute_capability=(9, 0))
    assert parameter_bytes(architecture, deployment, Version("0.32.0")) == parameters
    assert size_cache(start.layout, start.engine_config, 40_000_000_000).num_blocks == blocks


@pytest.mark.parametrize("blocks", [None, [], "MEM*", [{"block_type": "dense"}], [7]])
def test_blocks_that_cannot_be_read_are_named(blocks: object) -> None:
    with pytest.raises(InvalidConfig, match="block_configs"):
        read_architecture(read_document({**CONFIG, "block_configs": blocks}))
