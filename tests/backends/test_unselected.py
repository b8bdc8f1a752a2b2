"""Backends that no selector is asked about, against what they say of themselves."""

from dataclasses import replace
from typing import Any

import pytest
from packaging.version import Version

from service.backends.attention_request import AttentionRequest
from service.backends.backend import KernelBlockSizes
from service.backends.backend_rules import UnknownBackend, release_rules
from service.backends.unselected import UnselectedLayer, unselected_backend
from service.engines.refusal import EngineRefusal, Stage
from service.gpus.capability import ComputeCapability
from tests.backends.recorded import records

HOPPER = ComputeCapability(9, 0)
V4 = AttentionRequest(
    head_size=512, dtype="bfloat16", kv_cache_dtype="fp8", num_heads=64, num_kv_heads=1, mla=True, sparse=True
)
MIMO = AttentionRequest(
    head_size=192, head_size_v=128, dtype="bfloat16", kv_cache_dtype="auto", num_heads=64, num_kv_heads=4
)

TRITON_UNQUANTIZED = (
    "TritonAttentionDiffKVBackend does not yet support quantized KV cache (got kv_cache_dtype='fp8')."
)
TRITON_BEFORE_ADA = (
    "FP8 KV cache is not supported by the Triton attention backend on this GPU (compute capability 8.0); "
    "native FP8 (fp8e4nv) requires SM89+. Re-run with --kv-cache-dtype bfloat16."
)


def name_of(record: dict[str, Any]) -> str:
    return f"{record['release']}-{record['layer']}"


@pytest.mark.parametrize("record", records("unselected.json"), ids=name_of)
def test_a_backend_is_as_its_own_class_says(record: dict[str, Any]) -> None:
    layer = UnselectedLayer(record["layer"])
    backend = unselected_backend(layer, Version(record["release"]), HOPPER, request=V4)
    sizes = backend.kernel_block_sizes
    answer = {
        "name": "" if backend.nameless else backend.name,
        "fixed": list(sizes.fixed),
        "multiples_of": list(sizes.multiples_of),
        "preferred": sizes.preferred(),
        "indexes_kv_by_block_stride": backend.indexes_kv_by_block_stride,
    }
    assert {fact: answer[fact] for fact in record["answer"]} == record["answer"]


def test_every_kind_is_named_by_the_newest_release() -> None:
    assert set(release_rules(Version("0.33.0")).unselected) == set(UnselectedLayer)


@pytest.mark.parametrize(
    ("release", "gpu", "chosen", "backend"),
    [
        ("0.23.0", "8.9", None, "FLASH_ATTN_DIFFKV"),  # the only one there is, whether FA3 runs or not
        ("0.24.0", "8.9", None, "TRITON_ATTN_DIFFKV"),
        ("0.24.0", "9.0", None, "FLASH_ATTN_DIFFKV"),
        ("0.24.0", "9.0", "TRITON_ATTN_DIFFKV", "TRITON_ATTN_DIFFKV"),
        ("0.24.0", "9.0", "FLASHINFER", "FLASH_ATTN_DIFFKV"),  # other choices are passed over
        ("0.33.0", "10.0", None, "FLASH_ATTN_DIFFKV"),  # FA4 reads 192 beside 128
        ("0.33.0", "12.0", None, "TRITON_ATTN_DIFFKV"),
    ],
)
def test_values_of_another_size_have_backends_of_their_own(
    release: str, gpu: str, chosen: str | None, backend: str
) -> None:
    selected = unselected_backend(
        UnselectedLayer.DIFFERING_VALUES,
        Version(release),
        ComputeCapability.parse(gpu),
        request=MIMO,
        chosen=chosen,
    )
    assert selected.name == backend


@pytest.mark.parametrize(
    ("release", "gpu", "kv_cache_dtype", "refusal"),
    [
        ("0.32.0", "10.0", "fp8", "FlashAttention does not support fp8 kv-cache on this device."),
        ("0.33.0", "9.0", "nvfp4", None),  # claimed, as the release does
        (
            "0.31.0",
            "12.0",
            "fp8",
            TRITON_UNQUANTIZED,
        ),
        ("0.33.0", "8.9", "fp8", None),
        (
            "0.32.0",
            "8.0",
            "fp8",
            TRITON_BEFORE_ADA,
        ),
    ],
)
def test_quantized_caches_of_differing_values(
    release: str, gpu: str, kv_cache_dtype: str, refusal: str | None
) -> None:
    def select() -> None:
        unselected_backend(
            UnselectedLayer.DIFFERING_VALUES,
            Version(release),
            ComputeCapability.parse(gpu),
            request=replace(MIMO, kv_cache_dtype=kv_cache_dtype),
        )

    if refusal is None:
        select()
        return
    with pytest.raises(EngineRefusal) as raised:
        select()
    assert raised.value.message == refusal


@pytest.mark.parametrize(
    ("release", "gpu", "chosen", "backend", "cache_dtype"),
    [
        ("0.20.2", "9.0", None, "V4_FLASHMLA_SPARSE", "fp8_ds_mla"),
        ("0.23.0", "12.0", None, "FLASHMLA_SPARSE_DSV4", "fp8_ds_mla"),
        ("0.24.0", "12.0", None, "FLASHINFER_MLA_SPARSE_DSV4", "fp8_ds_mla"),
        ("0.24.0", "12.0", "FLASHMLA_SPARSE", "FLASHMLA_SPARSE_DSV4", "fp8_ds_mla"),
        ("0.33.0", "10.0", "FLASHINFER_MLA_SPARSE_DSV4", "FLASHINFER_MLA_SPARSE_DSV4", "fp8"),
        ("0.33.0", "8.0", None, "FLASHMLA_SPARSE_DSV4", "fp8_ds_mla"),  # nobody asks what the GPU can
    ],
)
def test_compressed_layers_of_deepseek_v4(
    release: str, gpu: str, chosen: str | None, backend: str, cache_dtype: str
) -> None:
    selected = unselected_backend(
        UnselectedLayer.DEEPSEEK_V4_COMPRESSED,
        Version(release),
        ComputeCapability.parse(gpu),
        request=V4,
        chosen=chosen,
    )
    assert (selected.name, selected.cache_dtype) == (backend, cache_dtype)
    assert selected.kernel_block_sizes == KernelBlockSizes(fixed=(256,))


def test_deepseek_v4_wants_its_own_name_of_a_sparse_backend() -> None:
    with pytest.raises(EngineRefusal) as refusal:
        unselected_backend(
            UnselectedLayer.DEEPSEEK_V4_COMPRESSED,
            Version("0.28.0"),
            ComputeCapability(10, 0),
            request=V4,
            chosen="FLASHINFER_MLA_SPARSE",
        )
    assert refusal.value.stage is Stage.BACKEND
    assert refusal.value.message == (
        "FLASHINFER_MLA_SPARSE is not a DeepSeek V4 attention backend. Use FLASHINFER_MLA_SPARSE_DSV4 for "
        "DeepSeek V4 FlashInfer sparse MLA."
    )


def test_a_release_without_such_layers_names_nothing() -> None:
    with pytest.raises(UnknownBackend, match="deepseek_v4_window"):
        unselected_backend(UnselectedLayer.DEEPSEEK_V4_WINDOW, Version("0.19.1"), HOPPER)
