"""Defaults and refusals of a start, release by release."""

from dataclasses import replace

import pytest
from packaging.version import Version

from service.architecture.context_length import RopeScaling
from service.architecture.quantization import Quantization
from service.engine_config.engine_config import EngineConfig
from service.engine_config.resolution import resolve_engine_config
from service.engine_config.scheduling_checks import UnmodelledEngine
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal, Stage
from service.engines.releases import rules_for
from service.gpus.catalog import find_gpu
from tests.accuracy.oracle import bundled_architecture
from tests.accuracy.recorded import RECURRENT
from tests.accuracy.startups_models import find_model

LLAMA, QWEN, GEMMA4 = "meta-llama/Llama-3.1-8B", "Qwen/Qwen3.6-35B-A3B", "google/gemma-4-31B-it"


PLAIN = ServeFlags()


def engine_config(
    model: str, release: str, flags: ServeFlags = PLAIN, gpu: str = "h100-sxm-80gb"
) -> EngineConfig:
    return resolve_engine_config(
        bundled_architecture(model), flags, rules_for(Version(release)), find_gpu(gpu)
    )


@pytest.mark.parametrize(
    ("release", "gpu", "limits"),
    [
        ("0.10.2", "h100-sxm-80gb", (8192, 1024)),
        ("0.27.1", "a100-sxm-80gb", (2048, 256)),  # an A100 counts as small whatever its memory
        ("0.27.1", "b200-180gb", (8192, 1024)),
        ("0.28.0", "b200-180gb", (16384, 1024)),
        ("0.27.1", "gb10-128gb", (2048, 256)),  # NVML does not tell its memory: a log of 0.27.1 has 2,048
        ("0.32.0", "gb10-128gb", (2048, 256)),
        ("0.33.0", "gb10-128gb", (2048, 256)),
    ],
)
def test_default_batches(release: str, gpu: str, limits: tuple[int, int]) -> None:
    found = engine_config(LLAMA, release, gpu=gpu)
    assert (found.max_num_batched_tokens, found.max_num_seqs) == limits


@pytest.mark.parametrize(
    ("model", "release", "gpu", "tokens"),
    [
        (GEMMA4, "0.21.0", "rtx-5090-32gb", 2048),
        (GEMMA4, "0.22.0", "rtx-5090-32gb", 2496),
        ("google/gemma-4-12B-it", "0.25.1", "rtx-5090-32gb", 2496),
        ("google/gemma-4-12B-it", "0.25.1", "h100-sxm-80gb", 8192),
    ],
)
def test_the_longest_video_raises_the_default_batch(model: str, release: str, gpu: str, tokens: int) -> None:
    """32 frames of 78 tokens; a log of gemma-4-12B on an RTX 5090 has the cache of such a batch (t027)."""
    architecture = find_model(model).model.architecture
    found = resolve_engine_config(architecture, PLAIN, rules_for(Version(release)), find_gpu(gpu))

    assert found.max_num_batched_tokens == tokens


@pytest.mark.parametrize(("release", "tokens"), [("0.11.0", 8192), ("0.11.1", 64)])
def test_a_default_batch_holds_no_more_than_all_requests(release: str, tokens: int) -> None:
    found = engine_config(LLAMA, release, ServeFlags(max_num_seqs=4, max_model_len=16))
    assert found.max_num_batched_tokens == tokens


@pytest.mark.parametrize(
    ("release", "stages", "batches"),
    [
        ("0.13.0", 1, 1),
        ("0.14.1", 1, 2),
        ("0.14.1", 4, 4),
        ("0.22.1", 4, 4),  # the second runner for Qwen 3 alone
        ("0.23.0", 4, 5),  # and for Llama
        ("0.28.0", 4, 5),
        ("0.33.0", 4, 5),
    ],
)
def test_batches_in_flight(release: str, stages: int, batches: int) -> None:
    assert (
        engine_config(LLAMA, release, ServeFlags(pipeline_parallel_size=stages)).concurrent_batches == batches
    )


@pytest.mark.parametrize(
    ("release", "requested", "caching", "mode"),
    [
        ("0.17.0", None, False, "none"),
        ("0.17.0", True, True, "align"),
        ("0.27.1", None, False, "none"),
        ("0.28.0", None, True, "align"),
        ("0.33.0", False, False, "none"),
    ],
)
def test_prefix_caching_beside_recurrent_states(
    release: str, requested: bool | None, caching: bool, mode: str
) -> None:
    found = engine_config(QWEN, release, ServeFlags(enable_prefix_caching=requested))
    assert (found.enable_prefix_caching, found.mamba_cache_mode) == (caching, mode)


@pytest.mark.parametrize("release", ["0.11.0", "0.14.1"])
def test_older_releases_switch_caching_off_beside_recurrent_states(release: str) -> None:
    found = engine_config("Qwen/Qwen3-Next-80B-A3B-Instruct", release, ServeFlags(enable_prefix_caching=True))
    assert not found.enable_prefix_caching


@pytest.mark.parametrize(
    ("release", "flag", "dtype"), [("0.16.0", "float32", "bfloat16"), ("0.17.0", "float32", "float32")]
)
def test_the_type_of_recurrent_states(release: str, flag: str, dtype: str) -> None:
    found = engine_config("Qwen/Qwen3-Next-80B-A3B-Instruct", release, ServeFlags(mamba_ssm_cache_dtype=flag))
    assert found.recurrent_state_dtype == dtype


@pytest.mark.parametrize(
    ("release", "ranks", "parallel", "error", "words"),
    [
        ("0.12.0", 8, 3, "AssertionError", "tp_size=8 must be divisible bydcp_size=3."),
        ("0.16.0", 8, 3, "ValidationError", "tp_size=8 must be divisible bydcp_size=3."),
        ("0.26.0", 8, 3, "ValidationError", "tp_size=8 must be divisible by dcp_size=3."),
        ("0.12.0", 8, 2, "ValidationError", "must be greater than total num kv heads 8 when enable"),
        ("0.27.0", 8, 2, "ValidationError", "greater than the model's total number of KV heads (8)"),
        ("0.26.0", 16, 4, "ValidationError", "num kv heads 8) = 2, but got 4"),
        ("0.27.0", 16, 4, "ValidationError", "exceeds the maximum supported value (2)"),
    ],
)
def test_decode_context_parallelism_needs_repeated_heads(
    release: str, ranks: int, parallel: int, error: str, words: str
) -> None:
    with pytest.raises(EngineRefusal) as caught:
        engine_config(
            LLAMA, release, ServeFlags(tensor_parallel_size=ranks, decode_context_parallel_size=parallel)
        )
    assert (caught.value.stage, caught.value.type) == (Stage.CONFIG, error)
    assert words in caught.value.message


def test_decode_context_parallelism_of_repeated_heads_is_let_through() -> None:
    found = engine_config(
        LLAMA, "0.33.0", ServeFlags(tensor_parallel_size=16, decode_context_parallel_size=2)
    )
    assert found.decode_context_parallel_size == 2


@pytest.mark.parametrize(
    ("dtype", "release", "words"),
    [
        ("nvfp4", "0.19.1", "'fp8_inc' or 'fp8_ds_mla' [type=literal_error, input_value='nvfp4'"),
        ("fp6", "0.33.0", "Invalid kv_cache_dtype: 'fp6'. Valid values are: ['auto', 'float16', 'bfloat16'"),
    ],
)
def test_an_unknown_cache_dtype_is_refused_in_the_releases_words(
    dtype: str, release: str, words: str
) -> None:
    with pytest.raises(EngineRefusal) as caught:
        engine_config(LLAMA, release, ServeFlags(kv_cache_dtype=dtype))
    assert words in caught.value.message


def test_a_model_of_a_later_release_is_refused() -> None:
    with pytest.raises(EngineRefusal, match="Gemma4ForConditionalGeneration") as caught:
        engine_config(GEMMA4, "0.18.1")
    assert caught.value.detail is not None
    assert "0.19.0" in caught.value.detail
    assert engine_config(GEMMA4, "0.19.0").max_model_len > 0


@pytest.mark.parametrize(
    ("release", "flags", "words"),
    [
        ("0.31.0", ServeFlags(mamba_cache_mode="all"), None),
        ("0.32.0", ServeFlags(mamba_cache_mode="all"), "Input should be 'align' or 'none'"),
        ("0.12.0", ServeFlags(mamba_ssm_cache_dtype="float16"), "Input should be 'auto' or 'float32'"),
        ("0.13.0", ServeFlags(mamba_ssm_cache_dtype="float16"), None),
        ("0.21.0", ServeFlags(mamba_ssm_cache_dtype="bfloat16"), "'auto', 'float32' or 'float16'"),
        ("0.22.0", ServeFlags(mamba_ssm_cache_dtype="bfloat16"), None),
        ("0.27.1", ServeFlags(mamba_block_size=64), "can only be set with --enable-prefix-caching"),
        ("0.28.0", ServeFlags(mamba_block_size=64), None),
        ("0.32.0", ServeFlags(enable_chunked_prefill=False), "required for mamba cache mode 'align'"),
        ("0.33.0", ServeFlags(enable_chunked_prefill=False), "required for Mamba prefix caching"),
    ],
)
def test_flags_about_states_are_those_of_the_release(
    release: str, flags: ServeFlags, words: str | None
) -> None:
    model = "Qwen/Qwen3-Next-80B-A3B-Instruct"
    if words is None:
        assert engine_config(model, release, flags).release == Version(release)
        return
    with pytest.raises(EngineRefusal, match=words) as caught:
        engine_config(model, release, flags)
    assert (caught.value.stage, caught.value.type) == (Stage.CONFIG, "ValidationError")


def test_linear_attention_keeps_no_32_bits_before_0_20_1() -> None:
    model, gpu = RECURRENT.architecture("MiniMaxText01ForCausalLM/MiniMax-Text-01"), find_gpu("h100-sxm-80gb")
    flags = ServeFlags(mamba_cache_dtype="float32", max_model_len=8192)

    with pytest.raises(EngineRefusal, match="fp32 state for minimax"):
        resolve_engine_config(model, flags, rules_for(Version("0.20.0")), gpu)
    assert (
        resolve_engine_config(model, flags, rules_for(Version("0.20.1")), gpu).conv_state_dtype == "float32"
    )


def test_a_batch_holds_whole_prompts_where_they_are_not_split() -> None:
    flags = ServeFlags(enable_chunked_prefill=False, max_num_batched_tokens=512, max_model_len=1024)

    with pytest.raises(EngineRefusal, match="smaller than max_model_len"):
        engine_config(LLAMA, "0.19.0", flags)


def test_bitsandbytes_is_refused_since_0_28() -> None:
    """QuantizationMethods of vLLM 0.28.0 no longer names it."""
    requested = ServeFlags(quantization="bitsandbytes")

    assert engine_config(LLAMA, "0.27.1", requested).dtype == "bfloat16"
    with pytest.raises(EngineRefusal, match="Unknown quantization method: bitsandbytes") as caught:
        engine_config(LLAMA, "0.28.0", requested)
    assert caught.value.stage is Stage.CONFIG


def test_a_deprecated_method_is_refused_whether_stored_or_asked_for() -> None:
    """vLLM 0.14.0 to 0.33.0, ModelConfig._verify_quantization: without the flag, the checkpoint's method."""
    plain = bundled_architecture("meta-llama/Llama-3.1-8B")
    stored = replace(plain, quantization=Quantization("fbgemm_fp8"))
    gpu, requested = find_gpu("h100-sxm-80gb"), ServeFlags(quantization="fbgemm_fp8")

    assert resolve_engine_config(stored, ServeFlags(), rules_for(Version("0.13.0")), gpu).dtype == "bfloat16"
    for model, flags in ((stored, ServeFlags()), (stored, requested), (plain, requested)):
        with pytest.raises(EngineRefusal, match=r"method %s is deprecated .*'fbgemm_fp8'\)") as caught:
            resolve_engine_config(model, flags, rules_for(Version("0.14.0")), gpu)
        assert caught.value.stage is Stage.CONFIG


def test_a_longer_context_is_taken_where_the_config_names_it_beside_the_derived_one() -> None:
    """vLLM 0.32.0, _get_and_verify_max_len: ``model_max_length`` bounds what may be asked for."""
    architecture = bundled_architecture(LLAMA)
    context = replace(architecture.context, length=4096, model_max_length=8192, scalings=())
    model, rules = replace(architecture, context=context), rules_for(Version("0.32.0"))
    gpu = find_gpu("h100-sxm-80gb")

    assert resolve_engine_config(model, ServeFlags(max_model_len=8192), rules, gpu).max_model_len == 8192
    with pytest.raises(EngineRefusal, match=r"\(8193\) is greater than the derived max_model_len"):
        resolve_engine_config(model, ServeFlags(max_model_len=8193), rules, gpu)


def test_scaling_that_leaves_no_token_fails_where_blocks_are_counted() -> None:
    """``int(2048 * 0.0001)`` is 0, by which the engine divides."""
    architecture = bundled_architecture(LLAMA)
    scaling = RopeScaling("linear", 0.0001, None)
    context = replace(architecture.context, length=2048, scalings=(scaling,))
    with pytest.raises(EngineRefusal, match="division by zero") as caught:
        resolve_engine_config(
            replace(architecture, context=context), PLAIN, rules_for(Version("0.32.0")), find_gpu("t4-16gb")
        )
    assert (caught.value.stage, caught.value.type) == (Stage.MEMORY, "ZeroDivisionError")


def test_a_gpu_of_unknown_capability_is_no_device_to_plan_for() -> None:
    gpu = replace(find_gpu("h100-sxm-80gb"), compute_capability=None)
    with pytest.raises(ValueError, match="h100-sxm-80gb has no compute capability"):
        resolve_engine_config(bundled_architecture(LLAMA), PLAIN, rules_for(Version("0.32.0")), gpu)


@pytest.mark.parametrize("written", ["FLASHINFER", "flashinfer", "FlashInfer"])
@pytest.mark.parametrize("release", ["0.13.0", "0.28.0"])
def test_the_case_of_a_backends_name_does_not_matter(release: str, written: str) -> None:
    """vLLM 0.13.0 and later, config/attention.py: AttentionBackendEnum[value.upper()]."""
    assert (
        engine_config(LLAMA, release, ServeFlags(attention_backend=written)).attention_backend == "FLASHINFER"
    )


@pytest.mark.parametrize(("release", "backend"), [("0.17.1", "AUTO"), ("0.18.0", None)])
def test_auto_leaves_the_backend_to_the_engine_since_0_18(release: str, backend: str | None) -> None:
    assert engine_config(LLAMA, release, ServeFlags(attention_backend="auto")).attention_backend == backend


@pytest.mark.parametrize(
    ("model", "flag", "releases"),
    [
        # models/deepseek_v4/quant_config.py claims the fp8 of DeepSeek V4, whatever the flag says.
        ("deepseek-ai/DeepSeek-V4-Flash", "deepseek_v4_fp8", ("0.20.0", "0.25.1", "0.33.0")),
        ("deepseek-ai/DeepSeek-V4-Flash", "fp8", ("0.20.0", "0.25.1", "0.33.0")),
        ("Qwen/Qwen3-235B-A22B-FP8", "deepseek_v4_fp8", ("0.20.0", "0.28.0")),
        # humming.py claims every checkpoint where it is asked for.
        ("Qwen/Qwen3-235B-A22B-FP8", "humming", ("0.20.0", "0.28.0")),
        # auto_gptq.py and its predecessors take the kernel's name, too.
        ("TheBloke/Llama-2-13B-chat-GPTQ", "marlin", ("0.10.2", "0.20.0", "0.28.0")),
        ("TheBloke/Llama-2-13B-chat-GPTQ", "gptq_marlin", ("0.10.2", "0.20.0", "0.28.0")),
        ("openai/gpt-oss-20b", "mxfp4", ("0.10.2", "0.20.0", "0.33.0")),
    ],
)
def test_a_flag_that_the_checkpoints_own_method_claims(
    model: str, flag: str, releases: tuple[str, ...]
) -> None:
    for release in releases:
        assert engine_config(model, release, ServeFlags(quantization=flag)).release == Version(release)


@pytest.mark.parametrize(
    ("model", "flag", "release", "stored"),
    [
        ("Qwen/Qwen3-235B-A22B-FP8", "deepseek_v4_fp8", "0.19.1", "fp8"),
        ("Qwen/Qwen3-235B-A22B-FP8", "humming", "0.19.1", "fp8"),
        ("Qwen/Qwen3-235B-A22B-FP8", "auto_awq", "0.28.0", "fp8"),
        ("openai/gpt-oss-20b", "fp8", "0.19.1", "mxfp4"),
        ("TheBloke/Llama-2-13B-chat-GPTQ", "auto_gptq", "0.21.0", "gptq"),
    ],
)
def test_a_flag_that_no_method_claims(model: str, flag: str, release: str, stored: str) -> None:
    words = f"in the model config \\({stored}\\) does not match .* argument \\({flag}\\)"
    with pytest.raises(EngineRefusal, match=words):
        engine_config(model, release, ServeFlags(quantization=flag))


@pytest.mark.parametrize(
    ("algorithm", "method", "since", "before"),
    [
        ("W4A16_NVFP4", "modelopt_fp4", "0.21.0", "0.20.2"),
        ("MXFP8", "modelopt_mxfp8", "0.16.0", "0.15.1"),
        ("MIXED_PRECISION", "modelopt_mixed", "0.17.0", "0.16.0"),
        ("FP8_PB_WO", "modelopt", "0.14.0", "0.13.0"),
    ],
)
def test_modelopts_algorithms_are_taken_since(algorithm: str, method: str, since: str, before: str) -> None:
    """layers/quantization/modelopt.py QUANT_ALGOS of each release."""
    stored = Quantization(method, algorithm=algorithm, names_modelopt=True)
    architecture = replace(bundled_architecture(LLAMA), quantization=stored)
    gpu = find_gpu("b200-180gb")
    assert resolve_engine_config(architecture, PLAIN, rules_for(Version(since)), gpu).release == Version(
        since
    )
    with pytest.raises(EngineRefusal, match="ModelOpt currently only supports: ") as caught:
        resolve_engine_config(architecture, PLAIN, rules_for(Version(before)), gpu)
    assert caught.value.stage is Stage.CONFIG


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (
            ServeFlags(offload_group_size=2, offload_num_in_group=3),
            r"offload_num_in_group \(3\) must be <= offload_group_size \(2\)",
        ),
        (ServeFlags(offload_backend="prefetch"), r"offload_num_in_group \(1\) must be <= .* \(0\)"),
        (
            ServeFlags(offload_group_size=2, offload_prefetch_step=0),
            r"offload_prefetch_step \(0\) must be >= 1 when prefetch",
        ),
    ],
)
def test_groups_of_offloaded_layers_are_checked(flags: ServeFlags, words: str) -> None:
    """vLLM 0.28.0, config/offload.py OffloadConfig.validate_offload_config."""
    with pytest.raises(EngineRefusal, match=words):
        engine_config(LLAMA, "0.28.0", flags)


@pytest.mark.parametrize("name", ["max_num_partial_prefills", "max_long_partial_prefills"])
def test_several_partial_prefills_are_refused_and_one_is_not(name: str) -> None:
    """vLLM 0.12.0 and 0.22.0, EngineArgs._check_feature_supported; 0.11.0 falls back to V0."""
    gpu, model = find_gpu("h100-sxm-80gb"), bundled_architecture("Qwen/Qwen3-8B")
    one, several = (replace(ServeFlags(), **{name: count}) for count in (1, 4))  # type: ignore[arg-type]
    rules = rules_for(Version("0.22.0"))

    with pytest.raises(EngineRefusal, match=r"^Concurrent Partial Prefill is not supported") as refusal:
        resolve_engine_config(model, several, rules, gpu)
    assert refusal.value.type == "NotImplementedError"
    resolve_engine_config(model, one, rules, gpu)
    with pytest.raises(UnmodelledEngine, match="V0"):
        resolve_engine_config(model, several, rules_for(Version("0.11.0")), gpu)
