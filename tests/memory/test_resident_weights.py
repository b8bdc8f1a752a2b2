"""What loading allocates beside the parameters, against what real releases allocate on the meta device."""

from typing import NamedTuple

import pytest
from packaging.version import Version

from service.memory.budget_types import WeightsEstimate
from service.memory.constants import constants_at
from service.memory.parallelism import Parallelism
from service.memory.weights.counts.checkpoint_parameters import stage_parameters
from service.memory.weights.counts.parameters import parameter_bytes
from service.memory.weights.resident.resident_weights import (
    resident_weights,
    rotary_bytes,
    turboquant_buffers,
)
from service.memory.weights.weight_layout import weight_layout_at
from service.memory.weights.weight_stage import WeightStage
from service.units import GIB, MIB
from tests.memory.recorded import bundled


class Allocated(NamedTuple):
    model: str
    release: str
    mib: float
    """Bytes of weights less bytes of parameters of tensor parallel rank 0, as the release answered."""


TABLES = (
    Allocated("google/gemma-3-1b-it", "0.20.2", 32.0),  # two bases, 32,768 positions of 256
    Allocated("openai-community/gpt2", "0.20.2", 0.0),  # learned positions
    Allocated("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "0.33.0", 1.08),  # none; routers' corrections
    Allocated("openai/gpt-oss-20b", "0.32.0", 32.0),  # float32
    Allocated("deepseek-ai/DeepSeek-V4-Flash", "0.28.0", 512.0),  # two bases, float32
    Allocated("allenai/Olmo-3.1-32B-Instruct", "0.24.0", 32.0),  # scaled and unscaled
    Allocated("allenai/Olmo-3.1-32B-Instruct", "0.32.0", 0.0),  # transformers backend
)


@pytest.mark.parametrize("row", TABLES, ids=lambda row: f"{row.model}-{row.release}")
def test_rotary_tables_are_those_that_the_release_allocates(row: Allocated) -> None:
    architecture = bundled(row.model)

    release, layers = Version(row.release), range(len(architecture.layers))
    layout = weight_layout_at(release).stages
    size = rotary_bytes(architecture, constants_at(release).resident, layout, layers)

    assert size / MIB == pytest.approx(row.mib, abs=1.1)


def test_turboquant_layers_have_buffers_for_the_splits_of_every_sequence() -> None:
    """Qwen3-32B on 0.20.2: two ranks, 1,024 sequences, the first and last two of 64 layers left out.

    32 heads x 33 x 129 floats = 544,896 bytes a sequence; 60 layers of 1,024 are 31,927.5 MiB, and the
    release allocated 31,937.5 MiB beside its parameters, 10 of them rotary tables.
    """
    architecture, shards = bundled("Qwen/Qwen3-32B"), Parallelism(tensor_parallel_size=2).shards

    def buffers(release: str) -> int:
        stage = WeightStage(shards, range(64), sequences=1024, turboquant_layers=frozenset(range(2, 62)))
        return turboquant_buffers(architecture, constants_at(Version(release)).resident, stage)

    assert buffers("0.20.2") / MIB == pytest.approx(31_937.501 - 10, abs=0.01)
    assert buffers("0.19.0") == buffers("0.21.0") == 0


class Logged(NamedTuple):
    model: str
    release: str
    capability: tuple[int, int]
    gib: float
    """"Model loading took ... GiB" of a startup log."""


MXFP4_LOGS = (
    # Marlin: https://github.com/vllm-project/vllm/issues/23278, a log of 0.10.1 without Triton's kernels.
    Logged("openai/gpt-oss-120b", "0.10.2", (8, 0), 65.97),
    Logged("openai/gpt-oss-20b", "0.12.0", (8, 9), 13.7194),  # an RTX 4090
    Logged("openai/gpt-oss-20b", "0.13.0", (12, 1), 13.7193),  # a GB10
    # Triton on an H100, which stores the scales twice: issue 33155 and llm-d-planner's logs.
    Logged("openai/gpt-oss-120b", "0.14.1", (9, 0), 64.38),
    Logged("openai/gpt-oss-20b", "0.19.0", (9, 0), 13.64),
    Logged("openai/gpt-oss-120b", "0.25.1", (9, 0), 61.29),
)


def _stored(model: str, release: str, capability: tuple[int, int]) -> WeightsEstimate:
    architecture, version = bundled(model), Version(release)
    deployment = Parallelism(compute_capability=capability)
    (parameters,) = stage_parameters(architecture, deployment, version, None)
    stage = WeightStage(
        deployment.shards, range(len(architecture.layers)), sequences=256, compute_capability=capability
    )
    layout = weight_layout_at(version).stages
    return resident_weights(architecture, constants_at(version).resident, layout, parameters, stage)


@pytest.mark.parametrize("row", MXFP4_LOGS, ids=lambda row: f"{row.model}-{row.release}-{row.capability}")
def test_mxfp4_experts_take_what_their_kernels_layout_needs(row: Logged) -> None:
    resident = _stored(row.model, row.release, row.capability)

    assert resident.low / GIB <= row.gib <= resident.high / GIB
    marlin = row.capability != (9, 0)
    assert resident.bytes / GIB == pytest.approx(row.gib, rel=0.002 if marlin else 0.02)


def test_marlins_layout_is_known_to_half_a_percent() -> None:
    """Its experts are rounded up to multiples of 256 and 128, and repacked in tensors of the same sizes.

    gpt-oss-120b: 36 layers of 128 experts whose three matrices are 2,944 by 3,072 instead of 2,880 by 2,880.
    """
    resident, plain = (
        _stored("openai/gpt-oss-120b", "0.24.0", (8, 0)),
        _stored("openai/gpt-oss-120b", "0.24.0", (9, 0)),
    )
    elements = 36 * 128 * 3 * (2944 * 3072 - 2880 * 2880)
    biases = 36 * 128 * (2 * (2944 - 2880) + 3072 - 2880) * 2

    assert resident.parameter_bytes - plain.parameter_bytes == elements // 2 + elements // 32 + biases
    assert resident.high - resident.low < 0.01 * resident.bytes


@pytest.mark.parametrize("release", ["0.28.0", "0.33.0"])
def test_thor_builds_experts_and_routers_as_gpus_outside_the_data_center_do(release: str) -> None:
    """Compute capability 11.0 is in no family with data center Blackwell (10.0).

    vLLM 0.28.0, GateLinear: no kernel computes routers in 32 bits from a matrix of 16; 0.31.0,
    TrtLlmBf16Experts: the kernel that experts are rounded up for does not run.
    """
    model = bundled("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16")
    thor, desktop, data_center = (
        parameter_bytes(model, Parallelism(compute_capability=capability), Version(release))
        for capability in ((11, 0), (12, 0), (10, 0))
    )
    assert thor == desktop
    assert thor != data_center
