"""Fixes of models with recurrent states, of which CUDA graphs need one for each sequence."""

from service.advisor.candidates.plan_types import GpuPlan
from service.advisor.candidates.verdict import Verdict
from service.advisor.plan import plan
from service.advisor.request.plan_request import EngineChoice, Model, PlanRequest
from service.engines.flags import ServeFlags
from service.gpus.catalog import find_gpu
from tests.accuracy.oracle import bundled_architecture


def planned(model: str, gpu: str, flags: ServeFlags | None = None, siblings: tuple[str, ...] = ()) -> GpuPlan:
    answer = plan(
        PlanRequest(
            model=Model(model, None, "bundled", bundled_architecture(model)),
            gpus=(find_gpu(gpu),),
            counts=(1,),
            engine=EngineChoice.of("0.33.0"),
            serve=flags or ServeFlags(),
            siblings=siblings,
            search=flags is None or flags.kv_cache_dtype is None,
        )
    )
    return answer.plans[0]


def test_combined_fix_has_as_many_sequences_as_states() -> None:
    """The weights as 4 bits, the text alone, a context and fewer sequences are enough, with CUDA graphs."""
    refused = planned("Qwen/Qwen3.5-27B", "rtx-5090-32gb")
    fixes = [fix for each in refused.candidates if each.error is not None for fix in each.error.fixes]
    assert any("--max-num-seqs" in fix.change for fix in fixes)
    for fix in fixes:
        assert "--enforce-eager" not in fix.change
        assert fix.verdict is Verdict.STARTS
        assert fix.max_concurrency is not None
        assert fix.max_concurrency >= 1


def test_published_checkpoint_of_a_hybrid_is_a_fix() -> None:
    siblings = ("Qwen/Qwen3.5-27B-GPTQ-Int4",)
    refused = planned("Qwen/Qwen3.5-27B", "rtx-5090-32gb", siblings=siblings)
    fixes = [fix for each in refused.candidates if each.error is not None for fix in each.error.fixes]
    assert siblings[0] in {fix.checkpoint for fix in fixes}


def test_unknown_quantization_is_left_out_with_a_context_that_fits() -> None:
    """On one RTX 4090 16-bit weights of Qwen3-8B leave no room for 40,960 tokens."""
    refused = planned("Qwen/Qwen3-8B", "rtx-4090-24gb", ServeFlags(quantization="gguf"))
    fixes = [fix for each in refused.candidates if each.error is not None for fix in each.error.fixes]
    assert any(fix.change.startswith("without --quantization --max-model-len") for fix in fixes)
    assert {fix.gpus for fix in fixes} == {1}
