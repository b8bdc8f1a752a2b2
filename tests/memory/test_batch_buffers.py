"""Buffers as long as a scheduler step, against logs and figures worked out by hand."""

from dataclasses import replace

import pytest
from packaging.version import Version

from service.architecture.model import ModelArchitecture
from service.memory.constants import constants_at
from service.memory.parallelism import Parallelism
from service.memory.weights.resident.batch_buffers import (
    deep_feature_bytes,
    per_layer_bytes,
    selection_bytes,
)
from service.memory.weights.resident.resident_weights import stream_bytes
from service.memory.weights.weight_stage import WeightStage
from service.units import MIB
from tests.memory.recorded import bundled


def whole(architecture: ModelArchitecture, tokens: int) -> WeightStage:
    """Return a stage with all layers of a model."""
    layers = range(len(architecture.layers))
    return WeightStage(Parallelism().shards, layers, sequences=256, batch_tokens=tokens)


@pytest.mark.parametrize(
    ("release", "tokens", "mib", "earlier"),
    [
        ("0.20.2", 8192, 256, 256),
        ("0.23.0", 16_384, 512, 0),
        ("0.26.0", 8192, 256, 0),
        ("0.27.0", 8192, 0, 0),
    ],
)
def test_streams_of_a_batch_have_a_buffer_for_a_draft_to_0_26(
    release: str, tokens: int, mib: int, earlier: int
) -> None:
    """DeepSeek-V4-Flash: four streams of 4,096 elements in bfloat16 a token; on earlier stages to 0.20.2.

    Logs of 0.26.0 (four ranks, 38.09 GiB) and 0.23.0 (two, 74.35) have so much more than is loaded.
    """
    architecture = bundled("deepseek-ai/DeepSeek-V4-Flash")
    constants, last = constants_at(Version(release)).resident, whole(architecture, tokens)

    assert stream_bytes(architecture, constants, last) == mib * MIB
    assert stream_bytes(architecture, constants, replace(last, layers=range(4))) == earlier * MIB


def test_features_of_an_encoders_inner_layers_have_buffers_as_long_as_a_step() -> None:
    """Qwen3-VL-30B-A3B, three inner layers, 2,048 wide: 8,192 tokens in two bytes are 96 MiB.

    With them and its rotary tables a log of 0.13.0 is met: "Model loading took 58.2299 GiB".
    """
    architecture = bundled("Qwen/Qwen3-VL-30B-A3B-Instruct")
    stage = replace(whole(architecture, 8192), encodes=True)

    assert deep_feature_bytes(architecture, stage) == 96 * MIB
    assert deep_feature_bytes(architecture, replace(stage, encodes=False)) == 0
    assert deep_feature_bytes(bundled("Qwen/Qwen3.5-9B"), stage) == 0


@pytest.mark.parametrize(("tokens", "mib"), [(2048, 42), (16_384, 336)])
def test_embeddings_of_every_layer_have_a_buffer_as_long_as_a_step(tokens: int, mib: int) -> None:
    """Gemma 4 E4B: 42 layers of 256 elements in bfloat16 a token.

    Logs of builds before 0.20.0: "Model loading took 15.16 GiB" with steps of 2,048 tokens, 15.44 with
    16,384: 0.28 GiB for 14,336 tokens.
    """
    architecture = bundled("google/gemma-4-E4B-it")

    assert per_layer_bytes(architecture, whole(architecture, tokens)) == mib * MIB
    assert per_layer_bytes(replace(architecture, multimodal=False), whole(architecture, tokens)) == 0


@pytest.mark.parametrize(
    ("model", "tokens", "mib"),
    [
        ("deepseek-ai/DeepSeek-V3.2", 8192, 64),  # 2,048 indices of four bytes
        ("deepseek-ai/DeepSeek-V4-Flash", 8192, 16),  # 512
        ("deepseek-ai/DeepSeek-V3", 8192, 0),  # no indexer
    ],
)
def test_what_indexers_select_has_a_buffer_as_long_as_a_step(model: str, tokens: int, mib: int) -> None:
    architecture = bundled(model)
    stage = whole(architecture, tokens)

    assert selection_bytes(architecture, stage) == mib * MIB
    assert selection_bytes(architecture, replace(stage, layers=range(4))) == mib * MIB
