"""Facts about single backends, worked out by hand from the releases' documents and code."""

from dataclasses import replace

import pytest
from packaging.version import Version

from service.backends.backend import KernelBlockSizes
from service.backends.forced import forced_attention
from service.backends.request import AttentionRequest
from service.backends.rules import Forced
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
        ("0.32.0", "12.0", "nvfp4", "FLASHINFER"),
    ],
)
def test_default_backend_of_a_llama_layer(release: str, gpu: str, kv_cache_dtype: str, backend: str) -> None:
    request = with_dtype(LLAMA, kv_cache_dtype)
    assert select_backend(request, Version(release), capability(gpu)).name == backend


@pytest.mark.parametrize(
    ("release", "gpu", "kv_cache_dtype", "backend", "block_size"),
    [
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
def test_kernel_block_sizes_are_positive(sizes: dict[str, tuple[int, ...]]) -> None:
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
    assert refusal.value.fixes == (f"--kv-cache-dtype {layer.dtype}",)


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
