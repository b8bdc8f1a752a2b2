"""What one more token costs in a model's cache, against the caches that its layers are given."""

from collections.abc import Iterable, Iterator
from fractions import Fraction

import pytest

from service.advisor.dry_runs.dry_run import dry_start
from service.architecture.layers.attention import Attention
from service.architecture.layers.compressed_attention import CompressedAttention
from service.architecture.model import ModelArchitecture
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal
from service.engines.releases import RELEASES, rules_for
from service.gpus.catalog import find_gpu
from service.hub.bundled.snapshot import BundledSnapshot
from service.kv_cache.formats import UnmodelledCacheDtype
from service.kv_cache.per_token import token_bytes
from service.kv_cache.specs import WINDOWED_KINDS, AttentionSpec, CacheKind, each_layer
from tests.accuracy.oracle import bundled_architecture
from tests.accuracy.recorded import LATE, RECORDINGS, SPARSE

WHOLE = frozenset({CacheKind.FULL_ATTENTION, CacheKind.MLA_ATTENTION, CacheKind.SINK_FULL_ATTENTION})
"""Kinds that keep something of every token."""
WINDOWED = WINDOWED_KINDS | {CacheKind.CHUNKED_LOCAL_ATTENTION}


def _bytes(specs: Iterable[AttentionSpec], kinds: frozenset[CacheKind]) -> Fraction:
    """Return the bytes of one token in caches of some kinds, as their pages are made of them."""
    shares = (Fraction(spec.bytes_per_token, spec.tokens_per_state) for spec in specs if spec.kind in kinds)
    return sum(shares, Fraction(0))


def _few_of_each_class() -> Iterator[ModelArchitecture]:
    """Yield the recorded models, and one bundled model of each class."""
    yield from (recording.architecture(name) for recording in RECORDINGS for name in recording.configs)
    bundled = [bundled_architecture(name) for name in BundledSnapshot().ids() if name not in UNREAD]
    yield from {architecture.class_name: architecture for architecture in bundled}.values()


UNREAD = {"Logics-MLLM/Logics-Thinking"}


def test_a_token_costs_what_the_layers_caches_are_made_of() -> None:
    """On one rank of the newest release: all that is kept at first, and what is not bounded later."""
    rules, gpu, compared = rules_for(RELEASES[-1]), find_gpu("h200-sxm-141gb"), 0
    for architecture in _few_of_each_class():
        tokens = token_bytes(architecture)
        try:
            start = dry_start(architecture, ServeFlags(max_model_len=8192), rules, gpu)
        except (EngineRefusal, UnmodelledCacheDtype):
            continue
        mixers = [mixer for _, mixer in architecture.attention_layers]
        # The engine turns the type of compressed caches to that of their kernels.
        compresses = any(isinstance(mixer, CompressedAttention) for mixer in mixers)
        kept = tokens.get("fp8_ds_mla" if compresses else start.engine_config.kv_cache_dtype)
        if kept is None:
            assert not tokens
            continue
        specs = [spec for group in start.layout.groups for _, spec in each_layer(group.layers)]
        attending = [spec for spec in specs if isinstance(spec, AttentionSpec)]
        assert kept.later == _bytes(attending, WHOLE), architecture.class_name
        # What a compressor or short convolutions hold of the last few tokens counts as a state does.
        packs = any(isinstance(mixer, Attention) and mixer.convolutions for mixer in mixers)
        if not compresses and not packs:
            assert kept.first == _bytes(attending, WHOLE | WINDOWED), architecture.class_name
        compared += 1
    assert compared > 250


@pytest.mark.parametrize(
    ("architecture", "dtype", "first", "later"),
    [
        # 512 + 64 elements of a vector; sparse kernels' slots, 656 bytes, are for models that pick tokens.
        (bundled_architecture("deepseek-ai/DeepSeek-V3"), "auto", 61 * 576 * 2, 61 * 576 * 2),
        (bundled_architecture("deepseek-ai/DeepSeek-V3"), "fp8_ds_mla", None, None),
        # 128 bytes of an indexer's key and a scale of 4 beside the slot.
        (bundled_architecture("deepseek-ai/DeepSeek-V3.2"), "fp8_ds_mla", 61 * 788, 61 * 788),
        # 43 windows of 584 bytes a token; 21 layers keep a slot and a key for 4 tokens, 20 a slot for 128.
        (
            bundled_architecture("deepseek-ai/DeepSeek-V4-Flash"),
            "fp8_ds_mla",
            43 * 584 + 21 * Fraction(584 + 132, 4) + 20 * Fraction(584, 128),
            21 * Fraction(584 + 132, 4) + 20 * Fraction(584, 128),
        ),
        (bundled_architecture("deepseek-ai/DeepSeek-V4-Flash"), "int8_per_token_head", None, None),
        # 3 layers of 12 attend, with 2 heads of 256 + 256; 4 tokens have one key of 128 in 16 bits.
        (LATE.architecture("Qwen4ExpForCausalLM/qsa"), "fp8", 3 * (1024 + 64), 3 * (1024 + 64)),
        # 4 heads of 192 + 192: two layers see all, with 256 bytes for 8 tokens; six have windows.
        (LATE.architecture("Step5ForCausalLM/sparse"), "auto", 8 * 3072 + 2 * 32, 2 * 3072 + 2 * 32),
        # Of 34 layers 0, 1, 5, ... 33 pick for themselves, the others take what these picked.
        (SPARSE.architecture("HYV4ForCausalLM/defaults"), "auto", 34 * 1152 + 10 * 132, 34 * 1152 + 10 * 132),
    ],
)
def test_worked_by_hand(
    architecture: ModelArchitecture, dtype: str, first: int | Fraction | None, later: int | Fraction | None
) -> None:
    kept = token_bytes(architecture).get(dtype)
    assert (kept and kept.first, kept and kept.later) == (first, later)
