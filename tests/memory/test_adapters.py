"""Room for LoRA adapters, against what the engine's own manager allocates on the meta device."""

from dataclasses import replace
from itertools import chain
from typing import Any

import pytest
from packaging.version import Version

from service.advisor.candidates.plan_types import Candidate
from service.advisor.dry_runs.dry_run import dry_run
from service.advisor.request.plan_request import Model, PlanRequest
from service.engines.flags import ServeFlags
from service.engines.json_object import JsonObject
from service.engines.releases import find_release, rules_for
from service.gpus.catalog import find_gpu
from service.memory.budget_types import Estimate
from service.memory.exchange import low_latency_bytes
from service.memory.parallelism import Parallelism
from service.memory.weights.counts.parameters import layer_modules_of
from service.memory.weights.resident.adapters import AdapterRoom, AdapterSlots
from tests.memory.recorded import bundled, records

LLAMA = "meta-llama/Llama-3.1-8B"
QWEN_MOE = "Qwen/Qwen3-30B-A3B-Instruct-2507"
MIB = 2**20


def room(row: dict[str, Any]) -> Estimate:
    release, flags = Version(row["release"]), row["flags"]
    architecture = replace(bundled(row["model"]), quantization=None)
    deployment = Parallelism(
        tensor_parallel_size=row["tensor_parallel_size"],
        enable_expert_parallel=row["enable_expert_parallel"],
    )
    slots = AdapterSlots(
        flags["max_loras"],
        flags["max_lora_rank"],
        element_bytes=2,
        extra_vocabulary=flags.get("lora_extra_vocab_size", 0),
        fully_sharded=flags.get("fully_sharded_loras", False),
        targets=frozenset(flags.get("lora_target_modules", ())),
    )
    modules = tuple(chain.from_iterable(layer_modules_of(architecture, deployment, release)))
    stage = AdapterRoom(architecture, rules_for(release).adapters, slots, deployment.shards)
    return stage.of_stage(modules, first=True, last=True)


def label(row: dict[str, Any]) -> str:
    return f"{row['model']}-tp{row['tensor_parallel_size']}-{'-'.join(map(str, row['flags'].values()))}"


@pytest.mark.parametrize("row", records("adapters.json"), ids=label)
def test_the_room_is_what_the_engine_allocates(row: dict[str, Any]) -> None:
    found = room(row)

    assert found.low <= row["bytes"] <= found.high
    assert found.bytes == row["bytes"]
    # Only routers and the like, whose class may have no adapters, are uncertain.
    assert found.high - found.low <= 0.02 * found.high


def test_dense_models_are_exact() -> None:
    rows = [
        row for row in records("adapters.json") if "A3B" not in row["model"] and "8x7B" not in row["model"]
    ]

    assert len([row for row in rows if room(row).low == room(row).high == row["bytes"]]) >= 7


def test_an_adapter_that_adds_tokens_by_hand() -> None:
    """0.11.0, Llama 3.1 8B, one adapter of rank 8 with 256 tokens more, of 2 bytes each.

    Layers: 32 x 8 x ((3 x 4096 + 6144) + (4096 + 4096) + (2 x 4096 + 28672) + (14336 + 4096)) values.
    Embedding: 8 x (128256 + 256 + 4096) + 256 x 4096; output: 8 x (4096 + 128512) + 256 x 4096.
    """
    row = {
        "model": LLAMA,
        "release": "0.11.0",
        "tensor_parallel_size": 1,
        "enable_expert_parallel": False,
        "flags": {"max_loras": 1, "max_lora_rank": 8, "lora_extra_vocab_size": 256},
    }
    layers = 32 * 8 * (18_432 + 8192 + 36_864 + 18_432)
    ends = 8 * (128_512 + 4096) + 256 * 4096 + 8 * (4096 + 128_512) + 256 * 4096

    assert room(row).bytes == 2 * (layers + ends)


def test_experts_had_no_adapters_before_0_11_1() -> None:
    row = next(row for row in records("adapters.json") if row["model"] == QWEN_MOE)

    assert room({**row, "release": "0.11.0"}).high < 0.05 * room({**row, "release": "0.11.1"}).low


def test_whole_experts_have_the_room_of_whole_experts() -> None:
    """32 of 128 experts of 768 on each of 4 ranks take as much as 128 experts of 192 but for their inputs.

    By hand, a layer, one adapter of rank 16: 32 x 16 x (2 x 2048 + 2 x 768 + 768 + 2048) values.
    """
    row = next(
        row
        for row in records("adapters.json")
        if row["model"] == QWEN_MOE and row["tensor_parallel_size"] == 4
    )
    flags = {"max_loras": 1, "max_lora_rank": 16, "lora_target_modules": ["experts"]}

    found = room({**row, "enable_expert_parallel": True, "flags": flags})

    assert found.bytes == 48 * (32 * 16 * (2 * 2048 + 2 * 768 + 768 + 2048) * 2 + 2 * 4)


def planned(model_id: str, release: str, **flags: Any) -> Candidate:  # noqa: ANN401 - values of flags
    model = Model(model_id, None, "bundled", bundled(model_id))
    request = PlanRequest(model, (find_gpu("h200-sxm-141gb"),))
    given = ServeFlags(**{"max_model_len": 8192, **flags})
    return dry_run(request, given, rules_for(find_release(release)), request.gpus[0])


def test_weights_contain_the_room_for_adapters() -> None:
    row = next(row for row in records("adapters.json") if row["model"] == LLAMA)
    without = planned(LLAMA, "0.32.0").memory
    served = planned(LLAMA, "0.32.0", enable_lora=True, **row["flags"]).memory

    assert without is not None
    assert served is not None
    assert served.adapters.bytes == row["bytes"] == served.weights.bytes - without.weights.bytes
    assert without.adapters.bytes == 0
    # Every process stores as many whole adapters as a batch may have, unless --max-cpu-loras says more.
    assert served.host.adapters.high == row["bytes"]


@pytest.mark.parametrize(
    ("model", "release", "flags", "words"),
    [
        (LLAMA, "0.32.0", {"max_lora_rank": 24}, "invalid choice: 24 (choose from 1, 8, 16, 32, 64"),
        (LLAMA, "0.11.0", {"max_lora_rank": 1}, "max_lora_rank (1) must be one of (8, 16, 32"),
        (LLAMA, "0.19.0", {"max_loras": 4, "max_cpu_loras": 2}, "max_cpu_loras (2) must be >= max_loras (4)"),
        ("openai/gpt-oss-20b", "0.11.0", {}, "GptOssForCausalLM does not support LoRA yet."),
        (QWEN_MOE, "0.19.0", {"enable_expert_parallel": True}, "EP support for Fused MoE LoRA"),
        (
            QWEN_MOE,
            "0.32.0",
            {"enable_expert_parallel": True, "fully_sharded_loras": True},
            "does not support enable_expert_parallel=True together",
        ),
    ],
)
def test_what_the_engine_refuses(model: str, release: str, flags: dict[str, Any], words: str) -> None:
    refused = planned(model, release, enable_lora=True, **flags)

    assert refused.error is not None
    assert words in refused.error.message


def test_a_rank_is_not_checked_without_adapters() -> None:
    assert planned(LLAMA, "0.32.0", max_lora_rank=24).error is None


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"enable_eplb": True}, "enable_expert_parallel must be True to use EPLB."),
        ({"enable_eplb": True, "enable_expert_parallel": True}, "EPLB requires tensor, prefill-context"),
        (
            {"eplb_config": JsonObject.of({"num_redundant_experts": 4})},
            "num_redundant_experts is set to 4 but EPLB is not enabled.",
        ),
    ],
)
def test_balancing_that_the_engine_refuses(flags: dict[str, Any], words: str) -> None:
    refused = planned(QWEN_MOE, "0.32.0", **flags)

    assert refused.error is not None
    assert words in refused.error.message


def test_spare_experts_are_weights_of_every_rank() -> None:
    """By hand: 32 spare experts on 4 ranks are 8 more in each of 48 layers, 3 x 2048 x 768 values of 2 bytes;
    experts of other ranks are received into the room of one layer, 40 experts.
    """
    flags = {"tensor_parallel_size": 4, "enable_expert_parallel": True}
    config = JsonObject.of({"num_redundant_experts": 32})
    plain = planned(QWEN_MOE, "0.32.0", **flags).memory
    spare = planned(QWEN_MOE, "0.32.0", **flags, enable_eplb=True, eplb_config=config).memory

    expert = 3 * 2048 * 768 * 2
    assert plain is not None
    assert spare is not None
    assert spare.weights.bytes - plain.weights.bytes == 48 * 8 * expert + 40 * expert


def test_offloaded_blocks_are_the_hosts_memory() -> None:
    """20 GiB for each of 2 replicas, whatever the ranks; 0.13.0 offloads only with a backend."""
    flags = {"data_parallel_size": 2, "tensor_parallel_size": 2, "kv_offloading_size": 20.0}
    newest = planned(LLAMA, "0.32.0", **flags).memory
    unnamed = planned(LLAMA, "0.13.0", **flags).memory
    named = planned(LLAMA, "0.13.0", **flags, kv_offloading_backend="native").memory

    assert newest is not None
    assert unnamed is not None
    assert named is not None
    assert (newest.host.blocks.bytes, unnamed.host.blocks.bytes) == (40 * 1024 * MIB, 0)
    assert named.host.blocks.bytes == newest.host.total.bytes == 40 * 1024 * MIB


@pytest.mark.parametrize(("release", "gib"), [("0.22.1", 20), ("0.23.0", 0)])
def test_lmcache_takes_its_size_from_its_server_since_0_23(release: str, gib: int) -> None:
    """LMCacheMPConnector: the blocks are the memory of a process of its own."""
    found = planned(LLAMA, release, kv_offloading_size=20.0, kv_offloading_backend="lmcache").memory

    assert found is not None
    assert found.host.blocks.bytes == gib * 1024 * MIB


def test_a_backend_without_a_size_is_refused_until_0_14() -> None:
    refused = planned(LLAMA, "0.13.0", kv_offloading_backend="native")

    assert refused.error is not None
    assert "You must set kv_offloading_size" in refused.error.message
    assert planned(LLAMA, "0.14.0", kv_offloading_backend="native").error is None


@pytest.mark.parametrize(("release", "groups"), [("0.19.0", 1), ("0.32.0", 7)])
def test_offloading_turned_the_hybrid_manager_off_until_0_22(release: str, groups: int) -> None:
    """Gemma 3 27B: 62 layers, 10 of them with full attention, so 7 groups of 10 layers at most."""
    found = planned("google/gemma-3-27b-it", release, kv_offloading_size=8.0).kv_cache

    assert found is not None
    assert len(found.groups) == groups


def test_offloaded_weights_are_the_hosts_memory() -> None:
    """8 GiB on each of 2 ranks, and no more than one parameter beyond."""
    found = planned(LLAMA, "0.32.0", tensor_parallel_size=2, cpu_offload_gb=4.0).memory

    assert found is not None
    assert 8 * 1024 * MIB <= found.host.weights.high <= (8 * 1024 + 2 * 120) * MIB


def test_processed_images_take_at_most_a_cache_for_each_process() -> None:
    """4 GiB for one API server and one engine; none for text; --mm-processor-cache-gb 0 stores nothing."""
    images = planned("google/gemma-3-27b-it", "0.32.0").memory
    text = planned(LLAMA, "0.32.0").memory
    none = planned("google/gemma-3-27b-it", "0.32.0", mm_processor_cache_gb=0.0).memory

    assert images is not None
    assert text is not None
    assert none is not None
    assert images.host.media_cache.high == 8 * 1024 * MIB
    assert text.host.media_cache.high == none.host.media_cache.high == 0


def test_memory_for_videos_in_the_api_server_is_not_left_for_the_cache() -> None:
    whole = planned("google/gemma-3-27b-it", "0.32.0").memory
    less = planned("google/gemma-3-27b-it", "0.32.0", mm_ipc_gpu_memory_gb=2.0).memory

    assert whole is not None
    assert less is not None
    assert whole.available_kv.bytes - less.available_kv.bytes == 2 * 1024 * MIB


def test_graphs_are_captured_with_adapters_and_without() -> None:
    """0.11.1, CudagraphDispatcher: cudagraph_specialize_lora; 0.11.0 has no such case."""
    for release, doubles in (("0.11.0", False), ("0.19.0", True)):
        plain = planned(LLAMA, release).memory
        served = planned(LLAMA, release, enable_lora=True).memory

        assert plain is not None
        assert served is not None
        assert (served.captured_graphs.bytes > 1.5 * plain.captured_graphs.bytes) is doubles


def test_a_sleeping_engine_has_its_weights_in_the_hosts_memory() -> None:
    """Two logs of typhoon-ocr-7b on 0.22.0, with sleep mode and without: 15.67 GiB of weights in both."""
    awake = planned(LLAMA, "0.22.0").memory
    sleeps = planned(LLAMA, "0.22.0", enable_sleep_mode=True).memory

    assert awake is not None
    assert sleeps is not None
    assert sleeps.weights == awake.weights
    assert sleeps.host.sleeping_weights.high == awake.weights.high
    assert awake.host.sleeping_weights.high == 0


def test_deepep_has_buffers_of_its_own() -> None:
    """1 GiB within a node, and once more between nodes: vLLM 0.13.0, DeepEPHTAll2AllManager."""
    flags: dict[str, Any] = {"data_parallel_size": 4, "enable_expert_parallel": True}
    plain = planned(QWEN_MOE, "0.32.0", **flags).memory
    buffers = planned(QWEN_MOE, "0.32.0", **flags, all2all_backend="deepep_high_throughput").memory

    assert plain is not None
    assert buffers is not None
    assert buffers.non_torch.bytes - plain.non_torch.bytes == 1024 * MIB
    assert buffers.non_torch.high - plain.non_torch.high > 1024 * MIB


def test_low_latency_buffers_of_deepep_by_hand() -> None:
    """256 experts, batches of 256 tokens, 7,168 values (DeepSeek V3): DeepEP's LowLatencyLayout.

    A message has 16 + 2 x 7,168 bytes, an answer 2 x 7,168 + 56 x 4 = 14,560: both buffers have room for
    answers, and there are two of each: 2 x 256 x 256 x (14,560 + 14,560) bytes.
    """
    assert low_latency_bytes(7168, 256, 256) == 2 * 256 * 256 * (14_560 + 14_560)


@pytest.mark.parametrize(
    ("release", "flags", "batch"),
    [
        ("0.19.0", {}, 8192),
        ("0.20.0", {}, 256),
        ("0.32.0", {}, 256),
        ("0.32.0", {"max_num_batched_tokens": 1024}, 1024),
        ("0.32.0", {"all2all_backend": "allgather_reducescatter"}, 8192),
        ("0.32.0", {"enable_expert_parallel": False}, 8192),
    ],
)
def test_batches_that_are_sent_whole_are_small(release: str, flags: dict[str, Any], batch: int) -> None:
    """vLLM 0.20.0 and 0.33.0, ParallelConfig.use_batched_dp_moe; an H200 has 8,192 tokens otherwise."""
    sent = {
        "data_parallel_size": 4,
        "enable_expert_parallel": True,
        "all2all_backend": "deepep_low_latency",
        **flags,
    }
    start = planned(QWEN_MOE, release, **sent).start

    assert start is not None
    assert start.engine_config.max_num_batched_tokens == batch


@pytest.mark.parametrize(
    ("model", "flags", "words"),
    [
        ("google/gemma-3-27b-it", {"skip_mm_profiling": True}, "--skip-mm-profiling"),
        (QWEN_MOE, {"enable_dbo": True}, "--enable-dbo"),
    ],
)
def test_what_is_not_reserved_is_said(model: str, flags: dict[str, Any], words: str) -> None:
    assert any(words in warning for warning in planned(model, "0.32.0", **flags).warnings)
    assert not any(words in warning for warning in planned(model, "0.32.0").warnings)
