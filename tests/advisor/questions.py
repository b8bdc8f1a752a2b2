"""Plans of one model on one GPU type."""

from service.advisor.candidates.plan_types import Candidate, GpuPlan
from service.advisor.plan import plan
from service.advisor.request.plan_request import (
    EngineChoice,
    Model,
    Objective,
    PlanRequest,
    Workload,
)
from service.engines.flags import ServeFlags
from service.gpus.catalog import find_gpu
from tests.accuracy.oracle import bundled_architecture

LLAMA = "meta-llama/Llama-3.1-8B"
GEMMA = "google/gemma-4-31B-it"
QWEN = "Qwen/Qwen3.6-35B-A3B"
DEEPSEEK = "deepseek-ai/DeepSeek-V3.1"


def ask_all(
    model: str = LLAMA,
    version: str = "0.32.0",
    flags: ServeFlags | None = None,
    *,
    gpu: str = "h100-sxm-80gb",
    patches: tuple[str, ...] = (),
    workload: Workload | None = None,
    objective: Objective = Objective.BALANCED,
    with_levers: bool = False,
    siblings: tuple[str, ...] = (),
) -> GpuPlan:
    request = PlanRequest(
        model=Model(model, None, "bundled", bundled_architecture(model)),
        gpus=(find_gpu(gpu),),
        engine=EngineChoice.of(version, patches),
        serve=flags or ServeFlags(),
        workload=workload,
        objective=objective,
        with_levers=with_levers,
        siblings=siblings,
    )
    return plan(request).plans[0]


def ask(
    model: str = LLAMA,
    version: str = "0.32.0",
    flags: ServeFlags | None = None,
    *,
    gpu: str = "h100-sxm-80gb",
    patches: tuple[str, ...] = (),
    workload: Workload | None = None,
) -> Candidate:
    (candidate,) = ask_all(model, version, flags, gpu=gpu, patches=patches, workload=workload).candidates
    return candidate
