"""Parameters of drafts against what real engines allocate."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from packaging.version import Version

from service.advisor.candidates.engine_start import Start
from service.memory.parallelism import Parallelism
from service.memory.weights.counts.draft_weights import draft_parameters
from service.memory.weights.counts.parameters import parameter_bytes_per_stage
from tests.kv_cache.drafts import drafted, recorded_rows, start_of

FORMER_LOADER = Version("0.24.0")
"""Up to here the instrument shared less of multimodal models' drafts than the engine: the data's README."""

HASHED = {
    "deepseek-ai/DeepSeek-V4-Flash",
    "nvidia/DeepSeek-V4-Pro-NVFP4",
    "DeepseekV4ForCausalLM/deepseek-v4-blocks",
    "DeepseekV4ForCausalLM/deepseek-v4-small",
}
"""DeepSeek V4: its own layers differ by tables of hashed routes, so the draft's part alone is compared."""


def shares_alike(row: Mapping[str, Any]) -> bool:
    release, method = Version(row["engine_version"]), row["serve"]["speculative_config"].get("method") or ""
    prediction = "mtp" in method
    multimodal = row["config"].startswith(("Qwen/Qwen3.5", "Qwen/Qwen3.6"))
    heads = row["config"].startswith(("Glm4", "deepseek", "zai"))
    return not prediction or not (
        (multimodal and release <= FORMER_LOADER) or (heads and release < Version("0.20.0"))
    )


ROWS = [
    row
    for row in recorded_rows()
    if row["serve"]["speculative_config"].get("method") != "ngram"
    and "parameter_bytes_per_pp_rank" in row["expect"]
    and row["expect"]["starts"]
    and shares_alike(row)
    and row["config"] not in HASHED
]


def deployment_of(row: Mapping[str, Any], started: Start) -> Parallelism:
    serve, capability = row["serve"], started.engine_config.compute_capability
    return Parallelism(
        tensor_parallel_size=serve["tensor_parallel_size"],
        pipeline_parallel_size=serve.get("pipeline_parallel_size", 1),
        enable_expert_parallel=serve.get("enable_expert_parallel", False),
        compute_capability=(capability.major, capability.minor),
        dtype=started.engine_config.dtype,
    )


@pytest.mark.parametrize("name", sorted({row["config"] for row in ROWS}))
def test_bytes_are_those_that_the_release_allocates(name: str) -> None:
    differences = set()
    for row in ROWS:
        if row["config"] != name:
            continue
        started = start_of(row)
        architecture, release = started.architecture, started.engine_config.release
        deployment = deployment_of(row, started)
        # Without a checkpoint the engine takes the model's output for that of EAGLE 3.
        draft = architecture.draft
        assert draft is not None or "gpu" in row["serve"]["speculative_config"]["method"]
        headless = replace(architecture, draft=draft and replace(draft, output_rows=0))
        *others, last = parameter_bytes_per_stage(architecture, deployment, release)
        ours = [*others, last + draft_parameters(headless, deployment, release).bytes]
        if ours != row["expect"]["parameter_bytes_per_pp_rank"]:
            differences.add((row["id"], row["engine_version"]))
    assert not differences


def test_prediction_layers_kept_outputs_of_their_own_at_first() -> None:
    row = next(row for row in ROWS if row["config"] == "deepseek-ai/DeepSeek-V3")
    architecture = start_of(row).architecture
    alone = Parallelism(tensor_parallel_size=8)
    before, after = (
        draft_parameters(architecture, alone, Version(release)).bytes for release in ("0.15.1", "0.16.0")
    )
    assert before - after == 129280 // 8 * 7168 * 2


def test_a_head_may_bring_its_own_embedding() -> None:
    row = next(row for row in ROWS if row["serve"]["speculative_config"].get("method") == "eagle3")
    estimate = draft_parameters(start_of(row).architecture, Parallelism(), Version("0.32.0"))
    assert estimate.low == estimate.bytes < estimate.high


@pytest.mark.parametrize(
    ("release", "rows", "kept_rows", "kept_at_most"),
    [
        # as many rows as the model: equal to its output, or trained
        ("0.20.0", 128_256, 0, 128_256),
        ("0.10.2", 128_256, 128_256, 128_256),
        # a vocabulary of its own
        ("0.20.0", 32_000, 32_000, 32_000),
    ],
)
def test_an_output_that_may_equal_the_models_is_not_kept(
    release: str, rows: int, kept_rows: int, kept_at_most: int
) -> None:
    row = next(row for row in ROWS if row["serve"]["speculative_config"].get("method") == "eagle3")
    architecture = start_of(row).architecture
    assert architecture.draft is not None
    row_bytes = architecture.hidden_size * 2
    none, some = (
        draft_parameters(
            replace(architecture, draft=replace(architecture.draft, output_rows=each)),
            Parallelism(),
            Version(release),
        )
        for each in (0, rows)
    )

    assert architecture.vocab_size == 128_256
    assert some.bytes - none.bytes == kept_rows * row_bytes
    assert some.high - none.high == kept_at_most * row_bytes


FLASH, BLOCKS = "deepseek-ai/DeepSeek-V4-Flash", "DeepseekV4ForCausalLM/deepseek-v4-blocks"
PLAIN = {1: 156_006_389_980, 4: 39_982_256_476, 8: 20_644_900_892}
"""Parameter bytes of DeepSeek V4 Flash without a draft on rank 0, by ranks: vLLM 0.26.0 to 0.32.0."""


@pytest.mark.parametrize(
    ("release", "ranks", "name", "drafted_bytes"),
    [
        # The same with a draft: MTP, or DSpark where the config has its layers.
        ("0.26.0", 1, FLASH, 159_600_177_736),
        ("0.28.0", 8, FLASH, 21_133_848_392),
        ("0.26.0", 4, BLOCKS, 42_761_924_088),
        ("0.28.0", 4, BLOCKS, 42_861_228_536),
        ("0.28.0", 8, BLOCKS, 22_193_227_128),
        ("0.32.0", 4, BLOCKS, 42_867_520_376),
    ],
)
def test_drafts_of_deepseek_v4(release: str, ranks: int, name: str, drafted_bytes: int) -> None:
    drafts = drafted(name).drafts
    architecture = replace(drafted(name), draft=drafts.parallel or drafts.own)
    deployment = Parallelism(tensor_parallel_size=ranks, compute_capability=(9, 0))
    ours = draft_parameters(architecture, deployment, Version(release)).bytes

    # The scales of blocks that ranks share, and the bias of hashed routes, are within 32 KB.
    assert ours == pytest.approx(drafted_bytes - PLAIN[ranks], abs=32_000)
