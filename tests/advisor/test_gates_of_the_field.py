"""Gates that people ran into, in the engine's words."""

from dataclasses import replace
from typing import Any

import pytest

from service.advisor.candidates.plan_types import Candidate
from service.advisor.candidates.verdict import Verdict
from service.advisor.plan import plan
from service.advisor.request.plan_request import EngineChoice, Model, PlanRequest
from service.architecture.config import read_document
from service.architecture.reading import read_architecture
from service.engines.flags import ServeFlags
from service.engines.refusal import Stage
from service.gpus.capability import ComputeCapability
from service.gpus.catalog import find_gpu
from tests.accuracy.startups_models import find_model
from tests.advisor.questions import GEMMA, QWEN, ask
from tests.api.plan_bodies import LLAMA_CONFIG

INT4 = {
    "quant_method": "compressed-tensors",
    "format": "pack-quantized",
    "ignore": ["lm_head"],
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "weights": {
                "num_bits": 4,
                "type": "int",
                "strategy": "group",
                "group_size": 128,
                "symmetric": True,
            },
        }
    },
}
"""A four-bit checkpoint without any cache scales, as llm-compressor writes it."""
NO_E5M2 = "fp8_e5m2 kv-cache is not supported with fp8 checkpoints."
NO_E4NV = "type fp8e4nv not supported in this architecture"
NO_TRITON_FP8 = (
    "FP8 KV cache is not supported by the Triton attention backend on NVIDIA A10G (compute capability 8.6); "
    "native FP8 (fp8e4nv) requires SM89+. Re-run with --kv-cache-dtype bfloat16."
)


def _flags(dtype: str, ranks: int = 1) -> ServeFlags:
    return ServeFlags(
        tensor_parallel_size=ranks,
        kv_cache_dtype=dtype,
        max_model_len=8192,
        kv_cache_memory_bytes=4 << 30,
        max_num_seqs=16,
    )


def _ask_quantized(quantization: Any, version: str, dtype: str) -> Candidate:  # noqa: ANN401 - JSON
    document = {**LLAMA_CONFIG, "quantization_config": quantization}
    model = Model("a/b", None, "inline", read_architecture(read_document(document)))
    request = PlanRequest(model, (find_gpu("h100-sxm-80gb"),), EngineChoice.of(version), _flags(dtype))
    (candidate,) = plan(request).plans[0].candidates
    return candidate


@pytest.mark.parametrize("quantization", [INT4, {"quant_method": "fp8", "activation_scheme": "dynamic"}])
def test_fp8_e5m2_is_refused_for_any_quantization_that_can_bring_scales(quantization: object) -> None:
    error = _ask_quantized(quantization, "0.19.0", "fp8_e5m2").error

    assert error is not None
    assert (error.type, error.stage, error.message) == ("ValueError", Stage.DTYPE, NO_E5M2)
    assert "not only fp8" in error.detail
    assert "--kv-cache-dtype fp8" in error.fix


def test_0_24_exempts_compressed_tensors_without_a_scheme_from_that_gate() -> None:
    error = _ask_quantized(INT4, "0.24.0", "fp8_e5m2").error

    assert error is None or error.message != NO_E5M2


def test_weights_whose_quantization_is_ignored_have_a_warning() -> None:
    """A trimmed hf_quant_config.json: vLLM 0.11.0 to 0.32.0 build such a model in 16 bits."""
    trimmed = _ask_quantized({"quantization": {"quant_algo": "FP8"}}, "0.28.0", "auto")
    whole = _ask_quantized({"quant_method": "modelopt", "quant_algo": "FP8"}, "0.28.0", "auto")

    assert trimmed.memory is not None
    assert whole.memory is not None
    assert trimmed.memory.weights.bytes > 1.8 * whole.memory.weights.bytes
    assert trimmed.warnings[0].startswith("The config says that the weights are quantized (quant_algo FP8)")
    assert not any("quant_algo" in warning for warning in whole.warnings)


@pytest.mark.parametrize("dtype", ["fp8", "fp8_e4m3"])
def test_fp8_e4m3_on_compute_capability_8_6_fails_once_attention_runs(dtype: str) -> None:
    """Public reports of gpt-oss-20b on an A10G: the start gets its cache, then Triton gives up."""
    candidate = ask("openai/gpt-oss-20b", "0.19.0", _flags(dtype), gpu="a10g-24gb")

    assert candidate.verdict is Verdict.UNCERTAIN
    assert NO_E4NV in candidate.warnings[0]


@pytest.mark.parametrize("dtype", ["fp8", "fp8_e4m3", "fp8_per_token_head"])
def test_0_24_refuses_it_before_it_starts(dtype: str) -> None:
    error = ask("openai/gpt-oss-20b", "0.24.0", _flags(dtype), gpu="a10g-24gb").error

    assert error is not None
    assert (error.type, error.message) == ("ValueError", NO_TRITON_FP8)
    assert error.fix[0] == "--kv-cache-dtype auto"


@pytest.mark.parametrize("version", ["0.24.0", "0.32.0"])
def test_int8_per_token_head_is_fine_there(version: str) -> None:
    candidate = ask("openai/gpt-oss-20b", version, _flags("int8_per_token_head"), gpu="a10g-24gb")

    assert candidate.verdict is Verdict.STARTS


@pytest.mark.parametrize("dtype", ["turboquant_k8v4", "turboquant_4bit_nc"])
def test_turboquant_on_hybrids_waits_for_0_21(dtype: str) -> None:
    error = ask(QWEN, "0.20.2", _flags(dtype), gpu="a100-sxm-80gb").error

    assert error is not None
    assert (error.type, error.stage) == ("NotImplementedError", Stage.DTYPE)
    assert error.message == (
        "TurboQuant KV cache is not supported for hybrid (attention + Mamba) models. Boundary layer "
        "protection requires uniform attention layers."
    )
    later = ask(QWEN, "0.32.0", _flags(dtype), gpu="a100-sxm-80gb")
    assert later.kv_cache is not None


def test_nvfp4_on_mla_is_refused_by_name_since_0_21() -> None:
    error = ask("deepseek-ai/DeepSeek-V3", "0.21.0", _flags("nvfp4", 8), gpu="b200-180gb").error

    assert error is not None
    assert error.stage is Stage.DTYPE
    assert "nvfp4 KV cache is not supported with MLA (Multi-head Latent Attention) backends." in error.message
    assert "--kv-cache-dtype fp8" in error.fix


@pytest.mark.parametrize(
    ("version", "dtype", "gpu"),
    [
        ("0.20.2", "nvfp4", "b200-180gb"),
        ("0.32.0", "int8_per_token_head", "h100-sxm-80gb"),
        ("0.32.0", "fp8_per_token_head", "h100-sxm-80gb"),
        ("0.32.0", "turboquant_k8v4", "h100-sxm-80gb"),
    ],
)
def test_no_backend_of_mla_takes_these(version: str, dtype: str, gpu: str) -> None:
    error = ask("deepseek-ai/DeepSeek-V3", version, _flags(dtype, 8), gpu=gpu).error

    assert error is not None
    assert (error.type, error.stage) == ("ValueError", Stage.BACKEND)
    assert error.message.startswith("No valid attention backend found for cuda with AttentionSelectorConfig(")
    assert f"kv_cache_dtype={dtype}" in error.message
    assert "kv_cache_dtype not supported" in error.message
    assert "--kv-cache-dtype fp8" in error.fix


def test_page_sizes_that_do_not_divide_are_refused_with_the_patch_that_pads_them() -> None:
    error = ask(GEMMA, "0.20.2", _flags("int8_per_token_head", 2), gpu="rtx-3090-24gb").error

    assert error is not None
    assert (error.type, error.stage) == ("NotImplementedError", Stage.PAGE_SIZE)
    assert error.fix[0].startswith("patch vllm#40391")
    assert "vLLM >= 0.24.0" in error.fix


def test_a_length_that_does_not_fit_is_refused_with_the_one_that_does() -> None:
    """Llama 3.1 8B stores 131,072 bytes per token: 4 GiB hold 32,768 tokens in whole blocks of 16."""
    flags = ServeFlags(tensor_parallel_size=1, kv_cache_dtype="auto", kv_cache_memory_bytes=4 << 30)
    error = ask(version="0.19.0", flags=flags).error

    assert error is not None
    assert error.stage is Stage.MEMORY
    assert error.fix[0] == "--max-model-len 32768"


@pytest.mark.parametrize(
    ("version", "gpu", "utilization", "logged"),
    [
        # Public reports of Qwen3.6-27B on one RTX PRO 6000: 615 blocks for the default of 1024 requests.
        ("0.25.1", "rtx-pro-6000-blackwell-workstation-96gb", 0.9, 615),
    ],
)
def test_more_requests_than_recurrent_states_fail_when_graphs_are_captured(
    version: str, gpu: str, utilization: float, logged: int
) -> None:
    flags = ServeFlags(tensor_parallel_size=1, kv_cache_dtype="auto", gpu_memory_utilization=utilization)
    model = find_model("Qwen/Qwen3.6-27B").model
    request = PlanRequest(model, (find_gpu(gpu),), EngineChoice.of(version), flags)
    (candidate,) = plan(request).plans[0].candidates

    assert candidate.verdict is Verdict.REFUSED
    assert candidate.error is not None
    assert (candidate.error.type, candidate.error.stage) == ("ValueError", Stage.RUN)
    assert candidate.error.message.startswith("max_num_seqs (1024) exceeds available Mamba cache blocks")
    # The engine's own remedy, "lower max_num_seqs to at most 615", as a power of two.
    assert candidate.error.fix[0] == "--max-num-seqs 512"
    count = int(candidate.error.message.partition("blocks (")[2].partition(")")[0])
    assert count == pytest.approx(logged, rel=0.05)


@pytest.mark.parametrize(
    ("version", "gpu", "built"),
    [
        ("0.19.1", "v100-sxm2-32gb", True),
        (
            "0.20.0",
            "v100-sxm2-32gb",
            False,
        ),  # "no kernel image is available", as Volta's users tell in #39878
        ("0.33.0", "v100-sxm2-32gb", False),
        ("0.33.0", "t4-16gb", True),
        ("0.19.0", "jetson-thor-128gb", False),  # the same words, in #39233
        ("0.33.0", "jetson-thor-128gb", True),
    ],
)
def test_published_builds_lack_some_gpus(version: str, gpu: str, built: bool) -> None:
    flags = ServeFlags(tensor_parallel_size=1, max_model_len=4096, kv_cache_memory_bytes=2 << 30)
    request = PlanRequest(
        find_model("Qwen/Qwen3-0.6B").model, (find_gpu(gpu),), EngineChoice.of(version), flags
    )
    candidate = plan(request).plans[0].recommended

    assert candidate is not None
    assert any("hold no kernels" in doubt for doubt in candidate.doubts) is not built
    assert candidate.verdict is (Verdict.STARTS if built else Verdict.UNCERTAIN)


@pytest.mark.parametrize("version", ["0.10.2", "0.19.1", "0.33.0"])
@pytest.mark.parametrize("capability", ["5.2", "6.1"])
def test_published_builds_lack_what_is_older_than_volta(version: str, capability: str) -> None:
    """The images say CUDA Archs 7.0 and later (vllm-project/vllm#32732); later ones begin at Turing."""
    own = replace(
        find_gpu("v100-sxm2-32gb"), id="own", compute_capability=ComputeCapability.parse(capability)
    )
    flags = ServeFlags(tensor_parallel_size=1, max_model_len=4096, kv_cache_memory_bytes=2 << 30)
    request = PlanRequest(find_model("Qwen/Qwen3-0.6B").model, (own,), EngineChoice.of(version), flags)
    candidate = plan(request).plans[0].recommended

    assert candidate is not None
    assert any(f"hold no kernels for compute capability {capability}" in each for each in candidate.doubts)
    assert not any("a build that you compile" in each for each in candidate.doubts)  # vLLM's docs ask for 7.0
    assert candidate.verdict is Verdict.UNCERTAIN


@pytest.mark.parametrize("logged", [635, 652])
def test_fewer_states_than_sequences_whatever_the_memory_are_refused(logged: int) -> None:
    """Logs of Qwen3.8-27B on RTX PRO 6000 with vLLM 0.29.0 ended so with 635 and with 652 blocks."""
    candidate, fewer = _hybrid(1024), _hybrid(512)

    assert candidate.verdict is Verdict.REFUSED
    assert candidate.error is not None
    assert candidate.error.message.startswith("max_num_seqs (1024) exceeds available Mamba cache blocks (")
    assert "--max-num-seqs 512" in candidate.error.fix
    assert candidate.kv_cache is None
    assert fewer.verdict is Verdict.STARTS
    assert fewer.kv_cache is not None
    assert fewer.kv_cache.num_blocks == pytest.approx(logged, rel=0.05)


def test_a_count_within_the_interval_leaves_it_uncertain() -> None:
    cache = _hybrid(512).kv_cache
    assert cache is not None
    candidate = _hybrid(cache.num_blocks)

    assert candidate.verdict is Verdict.UNCERTAIN
    assert candidate.error is None
    assert candidate.may_serve
    assert "exceeds available Mamba cache blocks" in candidate.warnings[0]


def test_a_cache_given_in_bytes_is_sized_and_has_its_failure() -> None:
    """4 GiB hold fewer states than 1,024, whatever the device."""
    candidate = _hybrid(1024, kv_cache_memory_bytes=4 << 30, max_model_len=4096)

    assert candidate.kv_cache is not None
    assert candidate.verdict is Verdict.UNCERTAIN
    assert candidate.error is None
    blocks = candidate.kv_cache.num_blocks
    words = f"max_num_seqs (1024) exceeds available Mamba cache blocks ({blocks})"
    assert any(words in warning for warning in candidate.warnings)
    assert not candidate.may_serve


def _hybrid(seqs: int, **more: Any) -> Candidate:  # noqa: ANN401 - flags of several types
    flags = ServeFlags(tensor_parallel_size=1, kv_cache_dtype="auto", max_num_seqs=seqs, **more)
    gpu = find_gpu("rtx-pro-6000-blackwell-workstation-96gb")
    model = find_model("Qwen/Qwen3.6-27B").model
    return plan(PlanRequest(model, (gpu,), EngineChoice.of("0.29.0"), flags)).plans[0].candidates[0]


def _offloaded(model: str, release: str, gpu: str = "rtx-4090-24gb", **flags: Any) -> Candidate:  # noqa: ANN401
    specified = ServeFlags(tensor_parallel_size=1, kv_cache_dtype="auto", max_model_len=4096, **flags)
    return ask(model, release, specified, gpu=gpu)


def test_weights_in_the_hosts_memory_make_room() -> None:
    """A 27B Gemma of 51.1 GiB starts on a 24 GB card with 40 GiB of it in the host's memory."""
    plain = _offloaded("google/gemma-3-27b-it", "0.28.0")
    moved = _offloaded("google/gemma-3-27b-it", "0.28.0", cpu_offload_gb=40.0)

    assert plain.verdict is Verdict.REFUSED
    assert moved.verdict is not Verdict.REFUSED
    assert plain.memory is not None
    assert moved.memory is not None
    whole, left = plain.memory.weights, moved.memory.weights
    assert whole.parameter_bytes - left.parameter_bytes == 40 << 30
    # Segments of the allocator have rests on the GPU alone.
    assert 0 <= whole.bytes - left.bytes - (40 << 30) < 256 << 20
    assert "--cpu-offload-gb 40.0" in moved.command


def test_layers_that_are_fetched_ahead_make_room() -> None:
    """Llama 3.1 8B on 0.28.0: of 32 layers every third, ten, but for two buffers."""
    plain = _offloaded("meta-llama/Llama-3.1-8B", "0.28.0")
    moved = _offloaded(
        "meta-llama/Llama-3.1-8B",
        "0.28.0",
        offload_group_size=3,
        offload_num_in_group=1,
        offload_prefetch_step=2,
    )

    assert plain.memory is not None
    assert moved.memory is not None
    assert plain.memory.weights.bytes - moved.memory.weights.bytes == 8 * 2 * 218_112_000


@pytest.mark.parametrize(("release", "refused"), [("0.19.1", True), ("0.20.0", False)])
def test_several_groups_of_layers_go_with_offloading_since_0_20(release: str, refused: bool) -> None:
    """vLLM 0.19.0, v1/worker/gpu_model_runner.py may_reinitialize_input_batch."""
    candidate = _offloaded("google/gemma-3-27b-it", release, gpu="h100-sxm-80gb", cpu_offload_gb=10.0)

    assert (candidate.error is not None) is refused
    if candidate.error is not None:
        assert candidate.error.type == "AssertionError"
        assert candidate.error.message.startswith("Cannot re-initialize the input batch when CPU weight")
