"""Starts that are planned as another release, or with the config of a similar model, and say so."""

import asyncio

import pytest

from service.advisor.candidates.verdict import Verdict
from service.application.models.similar_models import similar_models
from service.application.plans.log_requests import log_request
from service.application.schemas.explanation import ExplainBody
from service.explanation.explanation_types import Agreement, Explanation
from service.explanation.log_facts import nearest_release
from service.startup_log.log import read_log
from tests.explanation.shared_logs import services

# Qwen3-8B has 36 layers of 8 heads of 128: 2 x 36 x 8 x 128 x 2 = 147,456 bytes a token. 4 GiB hold
# 29,127 tokens, 1,820 whole blocks of 16, which are 29,120 tokens.
OF_8B = """\
(APIServer pid=1) INFO 01-01 10:00:00 [utils.py:325] vLLM API server version 0.19.0
(APIServer pid=1) INFO 01-01 10:00:00 [utils.py:261] non-default args: {'model': '%s', 'max_model_len': 8192}
(APIServer pid=1) INFO 01-01 10:00:01 [model.py:514] Resolved architecture: Qwen3ForCausalLM
(EngineCore pid=2) INFO 01-01 10:00:31 [gpu_model_runner.py:1] Model loading took 9.01 GiB memory
(EngineCore pid=2) INFO 01-01 10:00:41 [gpu_worker.py:298] Available KV cache memory: 4.00 GiB
(EngineCore pid=2) INFO 01-01 10:00:41 [kv_cache_utils.py:1087] GPU KV cache size: %s tokens
"""


def _explained(log: str) -> Explanation:
    async def answer() -> Explanation:
        read = read_log(log)
        return (await log_request(read, ExplainBody(log=""), services())).explain(read)

    return asyncio.run(answer())


@pytest.mark.parametrize(
    ("name", "architecture", "known"),
    [
        ("someone/Qwen3-8B-my-finetune-v2", "Qwen3ForCausalLM", "Qwen/Qwen3-8B"),
        ("someone/Qwen3-8B-GPTQ-Int4", None, "Qwen/Qwen3-8B"),
        ("/kaggle/input/qwen-3/transformers/8b/1", "Qwen3ForCausalLM", "Qwen/Qwen3-8B"),
        ("/data/models/gpt-oss-20b-abliterated", None, "openai/gpt-oss-20b"),
        ("unsloth/Qwen3.8-27B-NVFP4", "Qwen3_5ForConditionalGeneration", "Qwen/Qwen3.8-27B"),
    ],
)
def test_a_derived_models_name_leads_to_its_base(name: str, architecture: str | None, known: str) -> None:
    found = [each.id for each in similar_models(name, architecture, services().snapshot) if each.named]
    assert known in found


@pytest.mark.parametrize(
    ("name", "architecture"),
    [
        # Another generation, another size, another number of active parameters, another class.
        ("Qwen/Qwen2-7B", None),
        ("someone/Qwen3-9B", None),
        ("someone/Qwen3-30B-A5B", None),
        ("Qwen/Qwen3-8B", "Qwen3MoeForCausalLM"),
        ("someone/Qwen3-8B-Vision", None),
        ("nvidia/Llama-3.1-Nemotron-Nano-VL-8B-V1", None),
        ("/models/my-model", None),
        ("", None),
    ],
)
def test_another_model_is_not_taken_by_its_name(name: str, architecture: str | None) -> None:
    found = [each.id for each in similar_models(name, architecture, services().snapshot) if each.named]
    assert found == []


def test_a_fine_tune_is_planned_with_its_bases_layers() -> None:
    explanation = _explained(OF_8B % ("someone/Qwen3-8B-finetune-AWQ", "29,120"))
    findings = {each.name: each for each in explanation.findings}

    assert explanation.request is not None
    assert explanation.request.model.id == "someone/Qwen3-8B-finetune-AWQ"
    assert findings["kv_cache_tokens"].agreement is Agreement.AGREES
    # Its weights are quantized, those of the base are not: that is no difference between log and plan.
    assert findings["model_loading_gib"].agreement is Agreement.NOT_COMPARED
    assert explanation.verdict is Verdict.UNCERTAIN
    assert [each.certain for each in explanation.assumptions if each.field == "model"] == [False]


def test_figures_of_the_cache_find_the_model_of_a_class() -> None:
    # Qwen3-4B has as many bytes a token and other weights. 8,190,735,360 parameters take 15.26 GiB.
    explanation = _explained((OF_8B % ("someone/unheard-of", "29,120")).replace("9.01", "15.27"))
    (assumed,) = [each for each in explanation.assumptions if each.field == "model"]

    assert "Qwen3_8B" in assumed.taken or "Qwen3-8B" in assumed.taken
    assert "figures of cache and weights" in assumed.why


def test_a_cache_alone_does_not_tell_the_model() -> None:
    assert _explained(OF_8B % ("someone/unheard-of", "29,120")).request is None


def test_figures_that_do_not_fit_leave_the_start_unplanned() -> None:
    for name in ("someone/Qwen3-8B-finetune", "someone/unheard-of"):
        explanation = _explained(OF_8B % (name, "31,111"))
        assert explanation.request is None
        assert [each.field for each in explanation.missing] == ["model"]


@pytest.mark.parametrize(
    ("specified", "planned"),
    [
        ("0.8.5", "0.10.2"),
        ("0.10.0rc1.dev3+gabc", "0.10.2"),
        ("0.19.7", "0.19.1"),
        ("0.1.dev1+gdeadbee", "0.33.0"),
        ("latest", "0.33.0"),
    ],
)
def test_the_nearest_release_is_planned(specified: str, planned: str) -> None:
    assert nearest_release(specified) == planned


def test_a_plan_of_the_nearest_release_calls_nothing_different() -> None:
    log = (OF_8B % ("Qwen/Qwen3-8B", "31,111")).replace("version 0.19.0", "version 0.9.2")
    explanation = _explained(log)
    (assumed,) = [each for each in explanation.assumptions if each.field == "engine.version"]

    assert explanation.request is not None
    assert (assumed.taken, assumed.certain) == ("0.10.2", False)
    assert "0.9.2 is not modelled" in assumed.why
    assert explanation.verdict is Verdict.UNCERTAIN
    assert Agreement.DIFFERS not in {each.agreement for each in explanation.findings}
    assert any("another release" in each.why for each in explanation.findings)


def test_a_doubtful_plan_tests_no_fix_with_estimated_memory() -> None:
    log = (OF_8B % ("Qwen/Qwen3-8B", "1")).replace("version 0.19.0", "version 0.9.2").splitlines()[:4]
    failure = "torch.OutOfMemoryError: CUDA out of memory. GPU 0 has a total capacity of 23.64 GiB"
    explanation = _explained("\n".join((*log, failure)))

    assert explanation.ending is not None
    assert explanation.ending.cause == "out_of_memory"
    assert explanation.ending.fixes == ()
    assert explanation.ending.remedy
