"""The weights of a checkpoint for engines that have no model of them here: on each rank, and by layer.

Tensor parallel ranks hold the same parts of a checkpoint in every engine that splits layers, so these are the
bytes that the newest modelled release of vLLM allocates. What an engine repacks is within the interval.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from service.architecture.model import ModelArchitecture
from service.engine_plans.engine_question import ModelElements
from service.engines.releases import resolve_release
from service.gpus.gpu_type import GpuType
from service.memory.budget_types import Basis, Estimate
from service.memory.interval import around
from service.memory.parallelism import ELEMENT_BYTES, Parallelism
from service.memory.weights.counts.parameters import layer_tensors, parameter_bytes

LESS: Final = 0.99
MORE: Final = 1.04
SOURCE: Final = (
    "parameters of one rank, as vLLM splits them; 1 % less to 4 % more in other engines is assumed"
)
OLDEST_CAPABILITY: Final = (9, 0)


def weights_on_rank(model: ModelArchitecture, gpu: GpuType) -> Callable[[int], Estimate]:
    """Return what gives the bytes of weights on one rank, by the number of ranks."""
    newest, known = resolve_release(None).release, gpu.compute_capability
    capability = OLDEST_CAPABILITY if known is None else (known.major, known.minor)

    def of(ranks: int) -> Estimate:
        deployment = Parallelism(tensor_parallel_size=ranks, compute_capability=capability)
        size = parameter_bytes(model, deployment, newest)
        return around(size, size * LESS, size * MORE, Basis.COMPUTED, SOURCE)

    return of


def elements_of(model: ModelArchitecture) -> ModelElements:
    """Return the elements of a model's weights, without its towers and its embedding."""
    newest, plain = resolve_release(None).release, replace(model, quantization=None)
    element = ELEMENT_BYTES[model.dtype]
    layers = (sum(size for _, size in tensors) for tensors in layer_tensors(plain, Parallelism(), newest))
    return ModelElements(
        tuple(size // element for size in layers), model.vocab_size * model.hidden_size + model.hidden_size
    )
