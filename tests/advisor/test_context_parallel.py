"""Decode context parallelism on backends and models that do not take part in it.

Expected words are those that users report and that the releases' own code holds.
"""

import pytest

from service.advisor.candidates.plan_types import Candidate
from service.advisor.candidates.verdict import Verdict
from service.advisor.dry_runs.dry_run import dry_run
from service.advisor.request.plan_request import Model, PlanRequest
from service.engines.flags import ServeFlags
from service.engines.refusal import Stage
from service.engines.releases import find_release, rules_for
from service.gpus.catalog import find_gpu
from tests.accuracy.oracle import bundled_architecture

SPARSE = "deepseek-ai/DeepSeek-V3.2"
LATENT = "deepseek-ai/DeepSeek-V3"
GROUPED = "Qwen/Qwen3-32B"


def candidate(model_id: str, gpu: str, release: str, **flags: object) -> Candidate:
    model = Model(model_id, None, "bundled", bundled_architecture(model_id))
    request = PlanRequest(model, (find_gpu(gpu),))
    specified = ServeFlags(**flags)  # type: ignore[arg-type]
    return dry_run(request, specified, rules_for(find_release(release)), request.gpus[0])


@pytest.mark.parametrize(
    ("release", "words"),
    [
        # gpustack's published failure of DeepSeek V3.2 with -tp 8 -dcp 8 on H200, vLLM 0.13.0.
        (
            "0.13.0",
            (
                "DCP requires attention impls to return the softmax lse for decode, but the impl "
                "FlashMLASparseImpl does not return the softmax lse for decode."
            ),
        ),
        # vLLM 0.28.0, v1/worker/cp_utils.py.
        (
            "0.28.0",
            (
                "Decode Context Parallelism (DCP) requires attention implementations to return the softmax "
                "LSE during decode, but FlashMLASparseImpl does not. Try a different backend by setting "
                "--attention-backend or disable DCP."
            ),
        ),
    ],
)
def test_a_backend_that_returns_no_lse_fails_once_the_cache_is_sized(release: str, words: str) -> None:
    found = candidate(
        SPARSE, "h200-sxm-141gb", release, tensor_parallel_size=8, decode_context_parallel_size=8
    )

    assert found.verdict is Verdict.REFUSED
    assert found.error is not None
    assert (found.error.type, found.error.message, found.error.stage) == (
        "AssertionError",
        words,
        Stage.CACHE_SETUP,
    )


def test_a_window_refuses_context_parallelism_when_the_cache_is_sized() -> None:
    """vLLM 0.33.0, v1/kv_cache_interface.py SlidingWindowSpec: asserted before backends are asked."""
    found = candidate(
        "deepseek-ai/DeepSeek-V4-Flash",
        "h200-sxm-141gb",
        "0.33.0",
        tensor_parallel_size=4,
        decode_context_parallel_size=2,
    )

    assert found.verdict is Verdict.REFUSED
    assert found.error is not None
    assert (found.error.type, found.error.message) == ("AssertionError", "DCP not support sliding window.")


@pytest.mark.parametrize(
    ("model_id", "gpu", "release", "backend", "impl"),
    [
        # can_return_lse_for_decode of the backend's implementation class in each release; None: it is True.
        (LATENT, "h200-sxm-141gb", "0.11.0", None, None),  # FlashAttnMLAImpl
        (LATENT, "h200-sxm-141gb", "0.10.2", "TRITON_MLA", "TritonMLAImpl"),
        (LATENT, "h200-sxm-141gb", "0.11.0", "TRITON_MLA", None),
        (LATENT, "b200-180gb", "0.13.0", None, None),  # CutlassMLAImpl
        (LATENT, "b200-180gb", "0.24.0", None, "FlashInferMLAImpl"),
        (LATENT, "b200-180gb", "0.25.1", None, None),
        (GROUPED, "h100-sxm-80gb", "0.13.0", "FLASH_ATTN", None),
        (GROUPED, "h100-sxm-80gb", "0.13.0", "FLASHINFER", None),
        (GROUPED, "h100-sxm-80gb", "0.13.0", "TRITON_ATTN", "TritonAttentionImpl"),
        (GROUPED, "h100-sxm-80gb", "0.13.0", "FLEX_ATTENTION", "FlexAttentionImpl"),
        (GROUPED, "h100-sxm-80gb", "0.28.0", "TRITON_ATTN", "TritonAttentionImpl"),
        (SPARSE, "b200-180gb", "0.24.0", "FLASHINFER_MLA_SPARSE", "FlashInferMLASparseImpl"),
        (SPARSE, "b200-180gb", "0.25.1", "FLASHINFER_MLA_SPARSE", None),
    ],
)
def test_which_backends_take_part(
    model_id: str, gpu: str, release: str, backend: str | None, impl: str | None
) -> None:
    ranks = 16 if model_id == GROUPED else 8
    found = candidate(
        model_id,
        gpu,
        release,
        tensor_parallel_size=ranks,
        decode_context_parallel_size=2,
        attention_backend=backend,
        max_model_len=32768,
    )

    if impl is None:
        assert found.error is None
    else:
        assert found.error is not None
        assert found.error.stage is Stage.CACHE_SETUP
        assert impl in found.error.message


def test_a_backend_that_returns_no_lse_starts_without_context_parallelism() -> None:
    found = candidate(SPARSE, "h200-sxm-141gb", "0.13.0", tensor_parallel_size=8, max_model_len=81_920)

    assert found.verdict is Verdict.STARTS


@pytest.mark.parametrize(("release", "fails"), [("0.13.0", True), ("0.24.0", True), ("0.25.1", False)])
def test_an_fp8_cache_of_latent_attention_fails_at_the_first_decode(release: str, fails: bool) -> None:
    """vLLM 0.13.0, mla/common.py MLACommonImpl.forward; 0.24.0 mla_attention.py MLAAttention.forward_impl."""
    found = candidate(
        LATENT,
        "h200-sxm-141gb",
        release,
        tensor_parallel_size=8,
        decode_context_parallel_size=8,
        kv_cache_dtype="fp8",
        attention_backend="FLASHMLA",
        max_model_len=32768,
    )

    assert any("DCP not support fp8 kvcache now." in doubt for doubt in found.doubts) is fails


@pytest.mark.parametrize(
    ("release", "caching", "fails"),
    [("0.24.0", True, True), ("0.24.0", False, False), ("0.26.0", True, False)],
)
def test_prefixes_of_several_groups_are_not_shared_out(release: str, caching: bool, fails: bool) -> None:
    """vLLM 0.24.0, HybridKVCacheCoordinator.__init__, which caches of one group or none do not reach."""
    found = candidate(
        "Qwen/Qwen3-Next-80B-A3B-Instruct",
        "h100-sxm-80gb",
        release,
        tensor_parallel_size=8,
        decode_context_parallel_size=2,
        enable_prefix_caching=caching,
        max_model_len=32768,
    )

    refused = found.error is not None and found.error.message == "DCP not support hybrid attn now."
    assert refused is fails
