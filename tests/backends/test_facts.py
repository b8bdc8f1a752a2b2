"""Facts about single backends, worked out by hand from the releases' documents and code."""

from dataclasses import replace
from typing import Any

import pytest
from packaging.version import Version

from service.backends.attention_request import AttentionRequest, AttentionType
from service.backends.backend import KernelBlockSizes
from service.backends.backend_rules import Forced
from service.backends.forced import forced_attention, model_cache_dtype
from service.backends.selection import select_backend
from service.engines.refusal import EngineRefusal, Stage
from service.gpus.capability import ComputeCapability

LLAMA = AttentionRequest(head_size=128, dtype="bfloat16", kv_cache_dtype="auto", num_heads=32, num_kv_heads=8)
DEEPSEEK = AttentionRequest(
    head_size=576,
    dtype="bfloat16",
    kv_cache_dtype="auto",
    num_heads=128,
    num_kv_heads=1,
    mla=True,
    qk_nope_head_dim=128,
)

DEEPSEEK_V32 = replace(
    DEEPSEEK, sparse=True, index_topk=2048, qk_rope_head_dim=64, kv_lora_rank=512, num_heads=128
)

ATTENTION = (
    "FP8 KV cache is not supported by the Triton attention backend on NVIDIA GeForce RTX 3090 "
    "(compute capability {}); native FP8 (fp8e4nv) requires SM89+. Re-run with --kv-cache-dtype {}."
)
LATENT = ATTENTION.replace("attention backend", "MLA backend")


def capability(text: str) -> ComputeCapability:
    return ComputeCapability.parse(text)


def with_dtype(request: AttentionRequest, kv_cache_dtype: str) -> AttentionRequest:
    return replace(request, kv_cache_dtype=kv_cache_dtype)


@pytest.mark.parametrize(
    ("release", "gpu", "kv_cache_dtype", "backend"),
    [
        ("0.10.2", "7.5", "auto", "FLEX_ATTENTION"),
        ("0.10.2", "8.9", "auto", "FLASH_ATTN"),
        ("0.10.2", "10.0", "fp8", "FLASHINFER"),
        ("0.11.0", "8.9", "fp8", "TRITON_ATTN"),
        ("0.11.0", "9.0", "fp8", "FLASH_ATTN"),
        ("0.11.1", "8.9", "fp8", "FLASHINFER"),
        ("0.16.0", "9.0", "fp8_e5m2", "FLASH_ATTN"),
        ("0.23.0", "7.5", "auto", "FLASHINFER"),  # FlashInfer leaves Turing in 0.24
        ("0.24.0", "7.5", "auto", "TRITON_ATTN"),
        ("0.24.0", "8.6", "auto", "FLASH_ATTN"),
        ("0.24.0", "8.6", "fp8", "FLASHINFER"),
        ("0.24.0", "8.9", "fp8_e5m2", "FLASHINFER"),
        ("0.26.0", "9.0", "fp8", "FLASH_ATTN"),  # FA3 reads fp8 on Hopper
        ("0.22.0", "9.0", "fp8_e5m2", "FLASHINFER"),
        ("0.24.0", "10.0", "auto", "FLASHINFER"),
        ("0.24.0", "12.0", "fp8", "FLASHINFER"),
        ("0.20.2", "8.6", "int8_per_token_head", "TRITON_ATTN"),
        ("0.24.0", "8.6", "int8_per_token_head", "TRITON_ATTN"),  # the SM89 gate looks at the fp8 prefix
        ("0.25.0", "9.0", "int4_per_token_head", "TRITON_ATTN"),
        ("0.20.0", "9.0", "turboquant_4bit_nc", "TURBOQUANT"),
        ("0.31.0", "10.0", "nvfp4", "FLASHINFER"),
        # flashinfer.py of 0.32.0, _nvfp4_kv_on_fa2: families 8.x, 9.x and 12.x read it by FA2.
        ("0.32.0", "8.0", "nvfp4", "FLASHINFER"),
        ("0.32.0", "9.0", "nvfp4", "FLASHINFER"),
        ("0.32.0", "12.0", "nvfp4", "FLASHINFER"),
    ],
)
def test_default_backend_of_a_llama_layer(release: str, gpu: str, kv_cache_dtype: str, backend: str) -> None:
    request = with_dtype(LLAMA, kv_cache_dtype)
    assert select_backend(request, Version(release), capability(gpu)).name == backend


@pytest.mark.parametrize(
    ("release", "gpu", "kv_cache_dtype", "backend", "block_size"),
    [
        ("0.11.2", "8.0", "auto", "TRITON_MLA", 16),
        ("0.14.1", "9.0", "fp8", "FLASHMLA", 64),
        ("0.14.1", "10.0", "auto", "CUTLASS_MLA", 128),
        ("0.15.0", "10.0", "auto", "FLASHINFER_MLA", 32),
        ("0.19.0", "9.0", "auto", "FLASH_ATTN_MLA", 16),
        ("0.19.0", "9.0", "fp8", "FLASHMLA", 64),
        ("0.24.0", "10.0", "fp8", "FLASHINFER_MLA", 32),
        ("0.24.0", "8.0", "auto", "TRITON_MLA", 16),
        ("0.23.0", "12.0", "auto", "TRITON_MLA", 16),
        ("0.24.0", "12.0", "auto", "TRITON_MLA", 16),
    ],
)
def test_default_backend_of_a_latent_layer(
    release: str, gpu: str, kv_cache_dtype: str, backend: str, block_size: int
) -> None:
    selected = select_backend(with_dtype(DEEPSEEK, kv_cache_dtype), Version(release), capability(gpu))
    assert (selected.name, selected.kernel_block_sizes.preferred()) == (backend, block_size)


@pytest.mark.parametrize(
    ("sizes", "accepted", "refused", "minimum", "preferred"),
    [
        (KernelBlockSizes(multiples_of=(16,)), (16, 48, 528), (8, 24), 16, 16),
        (KernelBlockSizes(fixed=(16, 32, 64)), (16, 48, 1024), (8, 40), 16, 16),
        (KernelBlockSizes(fixed=(32, 64)), (32, 96), (16, 48), 32, 32),
        (KernelBlockSizes(fixed=(64,)), (64, 128), (16, 32, 96), 64, 64),
        (KernelBlockSizes(multiples_of=(1,)), (1, 17), (), 1, 16),
    ],
)
def test_kernel_block_sizes(
    sizes: KernelBlockSizes, accepted: tuple[int, ...], refused: tuple[int, ...], minimum: int, preferred: int
) -> None:
    assert all(sizes.accepts(size) for size in accepted)
    assert not any(sizes.accepts(size) for size in refused)
    assert (sizes.minimum, sizes.preferred()) == (minimum, preferred)


@pytest.mark.parametrize("sizes", [{}, {"fixed": (0,)}, {"multiples_of": (-16,)}])
def test_kernel_block_sizes_are_positive(sizes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        KernelBlockSizes(**sizes)


@pytest.mark.parametrize(("release", "indexes"), [("0.23.0", False), ("0.24.0", True), ("0.32.0", True)])
def test_pages_may_be_padded_from_0_24(release: str, indexes: bool) -> None:
    backend = select_backend(LLAMA, Version(release), capability("9.0"))
    assert backend.indexes_kv_by_block_stride is indexes


def test_turboquant_pages_are_not_indexed_by_stride_while_that_was_asked() -> None:
    request = with_dtype(LLAMA, "turboquant_k8v4")
    assert not select_backend(request, Version("0.28.0"), capability("9.0")).indexes_kv_by_block_stride


@pytest.mark.parametrize(
    ("release", "kv_cache_dtype", "message"),
    [
        ("0.19.0", "fp8_e5m2", "Unrecognized FP8 dtype: fp8_e5m2"),
        ("0.21.0", "int8_per_token_head", "Unrecognized FP8 dtype: int8_per_token_head"),
        ("0.22.0", "nvfp4", "--kv-cache-dtype nvfp4 requires sm100f, please try a different dtype or remove"),
    ],
)
def test_some_layers_are_accepted_and_fail_when_run(release: str, kv_cache_dtype: str, message: str) -> None:
    backend = select_backend(with_dtype(LLAMA, kv_cache_dtype), Version(release), capability("9.0"))
    assert backend.failure_when_run is not None
    assert (backend.failure_when_run.type, backend.failure_when_run.message) == ("ValueError", message)


@pytest.mark.parametrize(
    ("gpu", "dtype", "words"),
    [
        # flashinfer.py of 0.33.0: 8.x, 9.x and 12.x plan FA2; XQA decodes on SM12x; 10.x has trtllm-gen.
        ("8.9", "nvfp4", "FA2"),
        ("9.0", "nvfp4", "not with FA3"),
        ("12.0", "nvfp4", "XQA reads it"),
        ("10.0", "nvfp4", None),
        ("9.0", "fp8", None),
        ("9.0", "auto", None),
    ],
)
def test_fa2_alone_unpacks_an_nvfp4_cache(gpu: str, dtype: str, words: str | None) -> None:
    backend = select_backend(with_dtype(LLAMA, dtype), Version("0.33.0"), capability(gpu))
    if words is None:
        assert backend.unpacked_in_prompts is None
    else:
        assert words in (backend.unpacked_in_prompts or "")


@pytest.mark.parametrize("gpu", ["8.0", "9.0", "12.0"])
def test_an_nvfp4_cache_is_for_blackwell_alone_up_to_0_31(gpu: str) -> None:
    with pytest.raises(EngineRefusal):
        select_backend(with_dtype(LLAMA, "nvfp4"), Version("0.31.0"), capability(gpu))


@pytest.mark.parametrize("kv_cache_dtype", ["auto", "fp8", "fp8_e4m3"])
def test_ordinary_layers_do_not_fail_when_run(kv_cache_dtype: str) -> None:
    backend = select_backend(with_dtype(LLAMA, kv_cache_dtype), Version("0.20.2"), capability("9.0"))
    assert backend.failure_when_run is None


@pytest.mark.parametrize(
    ("layer", "gpu", "stage", "message"),
    [
        (
            AttentionRequest(
                head_size=96, dtype="bfloat16", kv_cache_dtype="fp8", num_heads=8, num_kv_heads=8
            ),
            "8.6",
            Stage.BACKEND,
            ATTENTION.format("8.6", "bfloat16"),
        ),
        (
            AttentionRequest(
                head_size=128, dtype="float16", kv_cache_dtype="fp8", num_heads=8, num_kv_heads=8
            ),
            "7.5",
            Stage.BACKEND,
            ATTENTION.format("7.5", "float16"),
        ),
        (
            with_dtype(DEEPSEEK, "fp8_e4m3"),
            "8.6",
            Stage.DTYPE,
            LATENT.format("8.6", "bfloat16"),
        ),
    ],
)
def test_triton_declines_fp8_before_ada(
    layer: AttentionRequest, gpu: str, stage: Stage, message: str
) -> None:
    with pytest.raises(EngineRefusal) as refusal:
        select_backend(layer, Version("0.26.0"), capability(gpu), device_name="NVIDIA GeForce RTX 3090")
    assert (refusal.value.stage, refusal.value.type, refusal.value.message) == (stage, "ValueError", message)
    assert refusal.value.find_fixes() == (f"--kv-cache-dtype {layer.dtype}",)


@pytest.mark.parametrize("release", ["0.22.1", "0.24.0", "0.30.0"])
def test_gpt_oss_with_turboquant_has_no_backend(release: str) -> None:
    # FlashAttention is held at 2, which has no sinks, so an unquantized layer falls to Triton ...
    forced = forced_attention(
        Version(release), capability("8.0"), head_sizes=[64], kv_cache_dtype="turboquant_k8v4"
    )
    assert forced == Forced(flash_attn_version=2)
    boundary = AttentionRequest(
        head_size=64,
        dtype="bfloat16",
        kv_cache_dtype="auto",
        num_heads=32,
        num_kv_heads=4,
        sinks=True,
        flash_attn_version=2,
    )
    assert select_backend(boundary, Version(release), capability("8.0")).name == "TRITON_ATTN"
    # ... and a quantized one to nobody.
    inner = replace(boundary, kv_cache_dtype="turboquant_k8v4")
    with pytest.raises(EngineRefusal, match=r"TURBOQUANT: \[attention sinks not supported"):
        select_backend(inner, Version(release), capability("8.0"))


@pytest.mark.parametrize(
    ("release", "gpu", "kv_cache_dtype", "chosen", "forced"),
    [
        ("0.19.0", "9.0", "auto", None, Forced(backend="TRITON_ATTN")),
        ("0.23.0", "10.0", "fp8", None, Forced(backend="TRITON_ATTN")),
        ("0.23.0", "9.0", "auto", "FLASHINFER", Forced()),
        ("0.24.0", "9.0", "auto", None, Forced(flash_attn_version=4)),
        ("0.24.0", "8.6", "auto", None, Forced(backend="TRITON_ATTN")),
        ("0.24.0", "12.0", "auto", None, Forced(backend="TRITON_ATTN")),
        ("0.24.0", "9.0", "auto", "TRITON_ATTN", Forced()),
        ("0.24.0", "9.0", "turboquant_k8v4", None, Forced(flash_attn_version=2)),
        ("0.30.0", "9.0", "fp8", None, Forced(flash_attn_version=4)),
        ("0.31.0", "9.0", "fp8", None, Forced()),  # FA3 or FA4 by layer
        ("0.31.0", "10.0", "fp8", None, Forced(flash_attn_version=4)),
    ],
)
def test_gemma_4_of_two_head_sizes(
    release: str, gpu: str, kv_cache_dtype: str, chosen: str | None, forced: Forced
) -> None:
    answer = forced_attention(
        Version(release),
        capability(gpu),
        head_sizes=[256, 512],
        kv_cache_dtype=kv_cache_dtype,
        chosen=chosen,
        gemma4=True,
    )
    first = Forced(answer.backend, 2) if kv_cache_dtype.startswith("turboquant") else answer
    assert answer == first == forced


def test_gemma_4_of_one_head_size_is_left_alone() -> None:
    answer = forced_attention(
        Version("0.24.0"), capability("9.0"), head_sizes=[256, 256], kv_cache_dtype="auto", gemma4=True
    )
    assert answer == Forced()


@pytest.mark.parametrize(
    ("release", "gpu", "kv_cache_dtype", "backend", "stored"),
    [
        ("0.11.2", "9.0", "fp8_ds_mla", "FLASHMLA_SPARSE", "fp8_ds_mla"),
        ("0.18.0", "9.0", "fp8", "FLASHMLA_SPARSE", "fp8_ds_mla"),
        ("0.19.0", "10.0", "fp8", "FLASHINFER_MLA_SPARSE", "fp8"),  # 576 plain bytes, not 656
        ("0.24.0", "12.0", "auto", "FLASHINFER_MLA_SPARSE_SM120", "fp8_ds_mla"),
        ("0.25.0", "9.0", "auto", "FLASH_ATTN_MLA_SPARSE", "auto"),
        ("0.32.0", "9.0", "fp8", "FLASHMLA_SPARSE", "fp8_ds_mla"),
        ("0.32.0", "9.0", "fp8_e4m3", "FLASHINFER_MLA_SPARSE_SM90", "fp8_e4m3"),
        ("0.32.0", "10.0", "nvfp4_ds_mla", "FLASHMLA_SPARSE", "nvfp4_ds_mla"),
    ],
)
def test_sparse_layers_and_what_their_caches_hold(
    release: str, gpu: str, kv_cache_dtype: str, backend: str, stored: str
) -> None:
    selected = select_backend(with_dtype(DEEPSEEK_V32, kv_cache_dtype), Version(release), capability(gpu))
    assert (selected.name, selected.cache_dtype) == (backend, stored)


def test_few_heads_on_blackwell_go_to_flash_attention_4_from_0_33() -> None:
    few = replace(DEEPSEEK_V32, num_heads=16)
    names = [
        select_backend(few, Version(release), capability("10.0")).name
        for release in ("0.16.0", "0.17.0", "0.32.0", "0.33.0")
    ]
    assert names == [
        *("FLASHMLA_SPARSE", "FLASHINFER_MLA_SPARSE", "FLASHINFER_MLA_SPARSE", "FLASH_ATTN_MLA_SPARSE_FA4")
    ]


def test_a_cache_spec_of_quantized_sparse_mla_on_blackwell_keeps_blocks_of_64() -> None:
    layer = with_dtype(DEEPSEEK_V32, "nvfp4_ds_mla")
    backend = select_backend(layer, Version("0.32.0"), capability("10.0"))
    assert backend.kernel_block_sizes == KernelBlockSizes(multiples_of=(64,))
    assert backend.spec_block_sizes == KernelBlockSizes(fixed=(64,))


@pytest.mark.parametrize(
    ("class_name", "release", "gpu", "requested", "given"),
    [
        ("DeepseekV32ForCausalLM", "0.11.0", "9.0", "auto", "fp8_ds_mla"),
        ("DeepseekV32ForCausalLM", "0.11.1", "9.0", "auto", "auto"),
        ("DeepseekV32ForCausalLM", "0.17.1", "8.0", "fp8_e5m2", "fp8_ds_mla"),
        ("DeepseekV32ForCausalLM", "0.18.0", "9.0", "fp8", "fp8"),
        ("DeepseekV32ForCausalLM", "0.33.0", "9.0", "bfloat16", "auto"),
        ("GlmMoeDsaForCausalLM", "0.31.0", "10.0", "auto", "auto"),
        ("GlmMoeDsaForCausalLM", "0.32.0", "10.0", "auto", "fp8_e4m3"),
        ("GlmMoeDsaForCausalLM", "0.32.0", "9.0", "auto", "auto"),
        ("LlamaForCausalLM", "0.17.1", "9.0", "fp8", "fp8"),
    ],
)
def test_what_a_models_class_makes_of_the_cache_dtype(
    class_name: str, release: str, gpu: str, requested: str, given: str
) -> None:
    assert model_cache_dtype(class_name, requested, Version(release), capability(gpu)) == given


@pytest.mark.parametrize(
    ("release", "gpu", "sparse", "qk_nope_head_dim", "backend"),
    [
        ("0.12.0", "10.0", False, 128, "CUTLASS_MLA"),
        ("0.12.0", "10.0", True, 128, "CUTLASS_MLA"),  # which cannot serve it
        ("0.12.0", "10.3", False, 128, None),
        ("0.13.0", "10.3", False, 128, "CUTLASS_MLA"),
        ("0.13.0", "10.0", True, 128, None),
        ("0.15.1", "10.0", False, 128, "FLASHINFER_MLA"),
        ("0.15.1", "10.0", False, 64, None),
        ("0.17.1", "9.0", False, 128, None),
        ("0.18.0", "10.0", False, 128, None),
    ],
)
def test_blackwell_had_its_latent_backend_set(
    release: str, gpu: str, sparse: bool, qk_nope_head_dim: int, backend: str | None
) -> None:
    forced = forced_attention(
        Version(release),
        capability(gpu),
        head_sizes=[576],
        kv_cache_dtype="auto",
        mla=True,
        sparse=sparse,
        qk_nope_head_dim=qk_nope_head_dim,
    )
    assert forced == Forced(backend=backend)


@pytest.mark.parametrize(
    ("gpu", "mla", "chosen", "refused"),
    [
        ("8.0", False, None, True),
        ("8.9", False, None, True),
        ("8.9", False, "TRITON_ATTN", False),
        ("8.6", False, "TRITON_ATTN", True),
        ("8.6", False, "FLASHINFER", False),
        ("9.0", False, None, False),
        ("10.0", False, None, False),
        ("8.0", True, None, False),  # passes for FlashMLA, which then does not run
        ("9.0", True, "TRITON_MLA", True),
    ],
)
def test_the_gate_of_0_10_2_for_quantized_caches(
    gpu: str, mla: bool, chosen: str | None, refused: bool
) -> None:
    def force() -> Forced:
        return forced_attention(
            Version("0.10.2"), capability(gpu), head_sizes=[128], kv_cache_dtype="fp8", mla=mla, chosen=chosen
        )

    if not refused:
        force()
        return
    with pytest.raises(EngineRefusal) as refusal:
        force()
    assert (refusal.value.stage, refusal.value.type) == (Stage.DTYPE, "NotImplementedError")
    assert refusal.value.message == "VLLM_USE_V1=1 is not supported with --kv-cache-dtype."
    assert "V0 engine" in refusal.value.detail


@pytest.mark.parametrize(
    ("attn_type", "backend"),
    [
        (AttentionType.ENCODER_ONLY, "FLASH_ATTN"),
        (AttentionType.ENCODER_DECODER, "FLASH_ATTN"),
    ],
)
def test_other_types_of_attention(attn_type: AttentionType, backend: str) -> None:
    request = replace(LLAMA, attn_type=attn_type)
    assert select_backend(request, Version("0.24.0"), capability("9.0")).name == backend
    # FlashInfer, first on Blackwell, knows decoders alone.
    assert select_backend(request, Version("0.24.0"), capability("10.0")).name == backend


TOKENSPEED = replace(DEEPSEEK, kv_cache_dtype="fp8", qk_rope_head_dim=64, v_head_dim=128, kv_lora_rank=512)


@pytest.mark.parametrize("release", ["0.21.0", "0.25.1", "0.28.0", "0.33.0"])
def test_tokenspeed_runs_the_sizes_of_deepseek_r1_on_blackwell(release: str) -> None:
    """requirements/cuda.txt has tokenspeed-mla since 0.21.0: InferenceX runs Kimi K2.6 on B200 with it."""
    backend = select_backend(TOKENSPEED, Version(release), capability("10.0"), chosen="TOKENSPEED_MLA")
    assert backend.kernel_block_sizes == KernelBlockSizes(fixed=(32, 64))
    # FlashInfer is asked before it, and takes the same layer.
    assert select_backend(TOKENSPEED, Version(release), capability("10.0")).name == "FLASHINFER_MLA"


@pytest.mark.parametrize(
    ("request_", "gpu", "reason"),
    [
        (TOKENSPEED, "9.0", "'compute capability not supported'"),
        (with_dtype(TOKENSPEED, "auto"), "10.0", "'kv_cache_dtype not supported'"),
        (
            replace(TOKENSPEED, qk_nope_head_dim=192, v_head_dim=256),
            "10.3",
            (
                "'tokenspeed_mla requires DeepSeek R1 MLA dimensions (qk_nope_head_dim=128, "
                "qk_rope_head_dim=64, v_head_dim=128), got (192, 64, 256)'"
            ),
        ),
    ],
)
def test_tokenspeed_says_what_it_cannot_run(request_: AttentionRequest, gpu: str, reason: str) -> None:
    """By hand from mla/tokenspeed_mla.py of 0.28.0, supports_combination and what is checked before it."""
    with pytest.raises(EngineRefusal) as refusal:
        select_backend(request_, Version("0.28.0"), capability(gpu), chosen="TOKENSPEED_MLA")
    assert refusal.value.message.endswith(f"Reason: [{reason}]")


SINKS = AttentionRequest(
    head_size=64, dtype="bfloat16", kv_cache_dtype="auto", num_heads=64, num_kv_heads=8, sinks=True
)


@pytest.mark.parametrize("release", ["0.10.2", "0.11.0"])
@pytest.mark.parametrize(("gpu", "fails"), [("8.0", True), ("9.0", True), ("10.0", False), ("10.3", True)])
def test_flashinfer_of_0_11_takes_sinks_where_trtllm_runs(release: str, gpu: str, fails: bool) -> None:
    """FlashInferMetadataBuilder.__init__ of 0.11.0 raises; a published start on an A100 says so."""
    failure = select_backend(SINKS, Version(release), capability(gpu), chosen="FLASHINFER").failure_at_setup
    assert (failure is not None) is fails
    assert failure is None or (failure.type, failure.message) == (
        "NotImplementedError",
        (
            "FlashInfer backend currently does not support attention sinks, please use trtllm on blackwell "
            "or flash attention on earlier GPUs."
        ),
    )


@pytest.mark.parametrize(("gpu", "refused"), [("8.0", True), ("9.0", False), ("10.0", True)])
def test_flash_attention_of_0_11_asserts_version_3_for_sinks(gpu: str, refused: bool) -> None:
    """FlashAttentionImpl.__init__ of 0.11.0; FlashAttention 3 runs on Hopper alone."""
    if refused:
        with pytest.raises(EngineRefusal, match="Sinks are only supported in FlashAttention 3"):
            select_backend(SINKS, Version("0.11.0"), capability(gpu), chosen="FLASH_ATTN")
    else:
        assert (
            select_backend(SINKS, Version("0.11.0"), capability(gpu), chosen="FLASH_ATTN").name
            == "FLASH_ATTN"
        )


def test_sinks_are_refused_by_selection_from_0_11_1() -> None:
    """FlashInferBackend.supports_sink of 0.11.1, which validate_configuration asks of a named backend too."""
    with pytest.raises(EngineRefusal, match="sink"):
        select_backend(SINKS, Version("0.11.1"), capability("9.0"), chosen="FLASHINFER")
