"""Checkpoints that a release builds and cannot read, and logs of builds that read them.

vLLM 0.21.0, ModelOptMixedPrecisionConfig.get_quant_method, builds layers of FP8 and NVFP4 alone quantized;
0.22.1 those of W4A16_NVFP4 too. The experts of nvidia/Qwen3.6-35B-A3B-NVFP4 are stored so.
"""

import pytest

from service.advisor.candidates.verdict import Verdict
from service.advisor.dry_runs.dry_run import dry_run
from service.advisor.request.plan_request import EngineChoice, PlanRequest
from service.engines.flags import ServeFlags
from service.engines.releases import find_release, rules_for
from service.explanation.explain import explain
from service.explanation.explanation_types import Agreement
from service.gpus.catalog import find_gpu
from service.startup_log.log import read_log
from tests.accuracy.startups_models import find_model

MODEL = "nvidia/Qwen3.6-35B-A3B-NVFP4"
GPU = find_gpu("h100-sxm-80gb")
LOG = """\
INFO 07-15 00:15:05 [utils.py:306]  version 0.21.0+2325b6f0.dev
INFO 07-15 00:17:34 [gpu_model_runner.py:5008] Model loading took 20.37 GiB memory and 126.141590 seconds
"""
"""spped2000/thaillm-nvfp4-dgx-spark, results/ref_qwen36-35b-nvfp4/server.log: the figure and the version."""


@pytest.mark.parametrize(("release", "verdict"), [("0.21.0", Verdict.UNCERTAIN), ("0.22.1", Verdict.STARTS)])
def test_a_plan_doubts_a_checkpoint_whose_packed_layers_the_release_builds_plain(
    release: str, verdict: Verdict
) -> None:
    flags = ServeFlags(max_model_len=8192, max_num_seqs=8)
    request = PlanRequest(find_model(MODEL).model, (GPU,), EngineChoice.of(release), flags)
    found = dry_run(request, flags, rules_for(find_release(release)), GPU)

    assert found.verdict is verdict
    assert any("W4A16_NVFP4" in doubt for doubt in found.doubts) == (verdict is Verdict.UNCERTAIN)


@pytest.mark.parametrize(
    ("release", "agreement"), [("0.21.0", Agreement.NOT_COMPARED), ("0.23.0", Agreement.WITHIN)]
)
def test_weights_that_another_build_loaded_are_not_held_against_the_plan(
    release: str, agreement: Agreement
) -> None:
    request = PlanRequest(find_model(MODEL).model, (GPU,), EngineChoice.of(release), ServeFlags())
    findings = explain(read_log(LOG), request).findings

    assert {each.agreement for each in findings if each.name == "model_loading_gib"} == {agreement}
