"""What it costs that weights of few bits are multiplied in 16, by the size of a step."""

from math import floor, log10

from service.advisor.candidates.lever_costs import UNPACKED, UNPACKED_FROM
from service.architecture.layers.experts import MixtureOfExperts
from service.architecture.model import ModelArchitecture
from service.gpus.gpu_type import GpuType
from service.speed.gpu_speed import gpu_speed
from service.speed.multiplication import Precision, is_unpacked
from service.speed.step_work import OPERATIONS_PER_ELEMENT

HALF_BYTES = 2


def unpacked_words(architecture: ModelArchitecture, gpu: GpuType) -> str:
    """Return which steps are slower with weights that are unpacked; nothing where none are.

    A step of few tokens takes as long as its weights are read, one of many as long as it is multiplied. Where
    multiplying takes as long as reading 16-bit weights, fewer bytes gain nothing, and the unpacking is added.
    """
    quantization, capability = architecture.quantization, gpu.compute_capability
    if quantization is None or capability is None:
        return ""
    numbers = (capability.major, capability.minor)
    schemes = [group.scheme for group in quantization.schemes] + [quantization.expert_scheme]
    if not any(scheme is not None and is_unpacked(scheme, numbers) for scheme in schemes):
        return ""
    peaks = gpu_speed(gpu)
    # Of experts each multiplies its own tokens alone, a few of the step's.
    if peaks is None or any(isinstance(each.feed_forward, MixtureOfExperts) for each in architecture.layers):
        return UNPACKED
    tokens = peaks.operations[Precision.HALF] / peaks.bandwidth * HALF_BYTES / OPERATIONS_PER_ELEMENT
    return UNPACKED_FROM.format(tokens=f"{_two_digits(tokens):,}")


def _two_digits(value: float) -> int:
    return round(round(value), 1 - floor(log10(value)))
