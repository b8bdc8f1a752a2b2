"""Backends of whole models, as the releases counted them."""

import pytest

from service.advisor.dry_runs.dry_run import dry_start
from service.architecture.config import read_document
from service.architecture.layers.mla import MultiHeadLatentAttention
from service.architecture.model import ModelArchitecture
from service.architecture.reading import read_architecture
from service.backends.assignment import layers_by_backend
from service.backends.layer_cache_dtype import layer_cache_dtype
from service.engine_config.resolution import resolve_engine_config
from service.engines.flags import ServeFlags
from service.engines.releases import find_release, rules_for
from service.gpus.catalog import find_gpu
from service.hub.bundled.snapshot import BundledSnapshot


def architecture_of(snapshot: BundledSnapshot, model_id: str) -> ModelArchitecture:
    fetched = snapshot.get(model_id)
    assert fetched is not None
    return read_architecture(read_document(fetched.config))


@pytest.mark.parametrize(
    ("model_id", "release", "counted"),
    [
        # The first releases have no name for recurrent backends.
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", "0.13.0", {"": 36, "FLASH_ATTN": 12}),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", "0.15.1", {"GDN_ATTN": 36, "FLASH_ATTN": 12}),
        ("Qwen/Qwen3-Next-80B-A3B-Instruct", "0.33.0", {"GDN_ATTN": 36, "FLASH_ATTN": 12}),
        ("deepseek-ai/DeepSeek-V3", "0.19.0", {"FLASH_ATTN_MLA": 61}),
    ],
)
def test_layers_are_counted_by_backend(
    snapshot: BundledSnapshot, model_id: str, release: str, counted: dict[str, int]
) -> None:
    architecture = architecture_of(snapshot, model_id)
    flags = ServeFlags(tensor_parallel_size=1, max_model_len=32768)
    start = dry_start(architecture, flags, rules_for(find_release(release)), find_gpu("h100-sxm-80gb"))
    assert layers_by_backend(architecture, start.engine_config, start.backends) == counted


@pytest.mark.parametrize(("release", "dtype"), [("0.25.0", "fp8"), ("0.26.0", "auto")])
def test_skipped_layers_reach_latent_attention_from_0_26(
    snapshot: BundledSnapshot, release: str, dtype: str
) -> None:
    architecture = architecture_of(snapshot, "deepseek-ai/DeepSeek-V3")
    flags = ServeFlags(
        tensor_parallel_size=1,
        max_model_len=32768,
        kv_cache_dtype="fp8",
        kv_cache_dtype_skip_layers=("3",),
    )
    engine_config = resolve_engine_config(
        architecture, flags, rules_for(find_release(release)), find_gpu("h100-sxm-80gb")
    )
    mixer = architecture.layers[3].mixer
    assert isinstance(mixer, MultiHeadLatentAttention)
    assert layer_cache_dtype(3, mixer, engine_config) == dtype
    assert layer_cache_dtype(4, mixer, engine_config) == "fp8"
