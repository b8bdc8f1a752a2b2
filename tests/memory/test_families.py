"""Layers and bytes of every family, against what real releases build on the meta device."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from packaging.version import Version

from service.architecture.config import read_document
from service.architecture.layers.attention import Attention
from service.architecture.layers.decoder_layer import Mixer
from service.architecture.layers.mla import MultiHeadLatentAttention
from service.architecture.model import ModelArchitecture
from service.architecture.reading import read_architecture
from service.memory.budget_types import Basis
from service.memory.parallelism import Parallelism
from service.memory.weights.counts.checkpoint_parameters import stage_parameters
from service.memory.weights.counts.parameters import parameter_bytes_per_stage
from tests.memory.recorded import bundled, records

ROWS = records("families.json")


def label(row: dict[str, Any]) -> str:
    parallel = f"tp{row['tensor_parallel_size']}pp{row['pipeline_parallel_size']}"
    return f"{row['config']['architectures'][0]}-{row['release']}-{parallel}"


def deployment_of(row: dict[str, Any]) -> Parallelism:
    return Parallelism(
        tensor_parallel_size=row["tensor_parallel_size"],
        pipeline_parallel_size=row["pipeline_parallel_size"],
        dtype="bfloat16",
    )


def cached(mixer: Mixer, ranks: int) -> tuple[Any, ...] | None:
    """Return what the engine's specification of a layer states; ``None`` for a layer without a cache."""
    if isinstance(mixer, MultiHeadLatentAttention):
        return ("mla_attention", 1, mixer.head_size, 0, None, None)
    if not isinstance(mixer, Attention):
        return None
    kind = "full_attention" if mixer.sliding_window is None else "sliding_window"
    if mixer.attention_chunk_size is not None:
        kind = "chunked_local_attention"
    if mixer.cross:
        kind = "cross_attention"
    if mixer.stored_sinks:
        kind = "sink_full_attention"
    heads = max(1, mixer.num_kv_heads // ranks)
    return (
        kind,
        heads,
        mixer.head_size,
        mixer.head_size_v,
        mixer.sliding_window,
        mixer.attention_chunk_size,
    )


def layers_of(architecture: ModelArchitecture, deployment: Parallelism) -> list[Counter[Any]]:
    ranks = deployment.tensor_parallel_size
    return [
        Counter(spec for index in stage if (spec := cached(architecture.layers[index].mixer, ranks)))
        for stage in deployment.stages(architecture)
    ]


def test_most_families_are_recorded() -> None:
    assert len({row["config"]["architectures"][0] for row in ROWS}) > 80


@pytest.mark.parametrize("row", ROWS, ids=label)
def test_layers_are_those_that_the_release_builds(row: dict[str, Any]) -> None:
    architecture = read_architecture(read_document(row["config"]))

    assert layers_of(architecture, deployment_of(row)) == [
        Counter({(kind, *spec): count for kind, count, *spec in stage}) for stage in row["layers"]
    ]


@pytest.mark.parametrize("row", [row for row in ROWS if row["bytes"]], ids=label)
def test_bytes_are_those_that_the_release_allocates(row: dict[str, Any]) -> None:
    architecture = read_architecture(read_document(row["config"]))

    stages = parameter_bytes_per_stage(architecture, deployment_of(row), Version(row["release"]))

    assert stages == pytest.approx(row["bytes"], rel=1e-3)


def test_a_family_that_was_not_held_against_the_engine_says_so() -> None:
    architecture = replace(bundled("meta-llama/Llama-3.1-8B"), weights_checked=False)
    (known,) = parameter_bytes_per_stage(architecture, Parallelism(), Version("0.24.0"))

    (estimate,) = stage_parameters(architecture, Parallelism(), Version("0.24.0"), None)

    assert estimate.basis is Basis.ASSUMED
    assert estimate.low < known < estimate.high


PUBLISHED: list[tuple[int, int, dict[str, Any]]] = [
    (124_439_808, 768 * 47, {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2"}),
    (125_239_296, 768 * 32, {"architectures": ["OPTForCausalLM"], "model_type": "opt"}),
    (20_554_567_680, 0, {"architectures": ["GPTNeoXForCausalLM"], "model_type": "gpt_neox"}),
    (
        559_214_592,
        0,
        {
            "architectures": ["BloomForCausalLM"],
            "model_type": "bloom",
            "hidden_size": 1024,
            "n_layer": 24,
            "n_head": 16,
            "vocab_size": 250880,
        },
    ),
    (
        6_649_286_656,
        0,
        {
            "architectures": ["MPTForCausalLM"],
            "model_type": "mpt",
            "d_model": 4096,
            "n_layers": 32,
            "n_heads": 32,
            "vocab_size": 50432,
            "no_bias": True,
            "expansion_ratio": 4,
        },
    ),
    (
        6_921_720_704,
        0,
        {
            "architectures": ["FalconForCausalLM"],
            "model_type": "falcon",
            "hidden_size": 4544,
            "num_hidden_layers": 32,
            "num_attention_heads": 71,
            "vocab_size": 65024,
        },
    ),
    (
        13_264_901_120,
        0,
        {
            "architectures": ["BaichuanForCausalLM"],
            "model_type": "baichuan",
            "hidden_size": 5120,
            "num_hidden_layers": 40,
            "num_attention_heads": 40,
            "intermediate_size": 13696,
            "vocab_size": 64000,
            "model_max_length": 4096,
        },
    ),
    (
        131_596_523_520,
        0,
        {
            "architectures": ["DbrxForCausalLM"],
            "model_type": "dbrx",
            "d_model": 6144,
            "n_layers": 40,
            "n_heads": 48,
            "vocab_size": 100352,
            "attn_config": {"kv_n_heads": 8},
            "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4},
        },
    ),
]


@pytest.mark.parametrize(
    ("parameters", "padding", "config"), PUBLISHED, ids=[row[2]["architectures"][0] for row in PUBLISHED]
)
def test_published_models_have_their_published_parameters(
    parameters: int, padding: int, config: dict[str, Any]
) -> None:
    """GPT-2, OPT-125M, GPT-NeoX-20B, BLOOM-560M, MPT-7B, Falcon-7B, Baichuan-13B and DBRX on the Hub.

    ``padding``: elements of the rows that fill the vocabulary up to a multiple of 64.
    """
    architecture = read_architecture(read_document(config))

    (size,) = parameter_bytes_per_stage(architecture, Parallelism(dtype="bfloat16"), Version("0.24.0"))

    assert size == 2 * (parameters + padding)
