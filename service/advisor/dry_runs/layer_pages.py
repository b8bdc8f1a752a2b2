"""The caches of a model's layers before the engine forms groups of them."""

from service.advisor.candidates.plan_types import Candidate
from service.advisor.dry_runs.dry_run import PlainSteps
from service.advisor.dry_runs.engine_steps import UNMODELLED
from service.engines.refusal import EngineRefusal
from service.gpus.gpu_type import GpuType
from service.kv_cache.capacity import ungrouped_caches
from service.kv_cache.specs import SpecLayers


def layer_pages(candidate: Candidate, gpu: GpuType) -> tuple[SpecLayers, ...]:
    """Return the caches of the first stage's layers, each spec once; empty where there are none.

    A start that is refused because its pages cannot be made equal has these, and no groups.
    """
    if candidate.start is not None:
        return candidate.start.layout.layers[0]
    steps = PlainSteps(candidate.model, candidate.rules)
    try:
        configuration = steps.configure(candidate.flags, gpu)
        backends = steps.build_model(configuration)
        return ungrouped_caches(configuration.architecture, configuration.engine_config, backends)[0]
    except (EngineRefusal, *UNMODELLED):
        return ()
