"""In which type tensor cores multiply quantized weights, and where weights are unpacked for it."""

from enum import StrEnum
from typing import Final

from service.architecture.weight_schemes import WeightFormat, WeightScheme


class Precision(StrEnum):
    """Type in which a matrix is multiplied, by the bits of its activations."""

    HALF = "half"
    BYTE = "byte"
    NIBBLE = "nibble"


_ACTIVATIONS: Final = {
    WeightFormat.FP8: (Precision.BYTE, (8, 9)),
    WeightFormat.INT8: (Precision.BYTE, (7, 5)),
    WeightFormat.MXFP8: (Precision.BYTE, (10, 0)),
    WeightFormat.NVFP4: (Precision.NIBBLE, (10, 0)),
    WeightFormat.MX: (Precision.NIBBLE, (10, 0)),
    WeightFormat.MXFP4: (Precision.NIBBLE, (10, 0)),
}
"""Type in which a format is multiplied, and the compute capability from which tensor cores multiply it.

Source: PTX ISA 8.7, mma (s8 from sm_75, e4m3 from sm_89, block_scale from sm_100 and sm_120), tcgen05.mma.
"""


def multiplied_as(scheme: WeightScheme, capability: tuple[int, int]) -> Precision:
    """Return the type in which a GPU multiplies weights of a scheme: 16 bits where it has no narrower one."""
    precision, since = _ACTIVATIONS.get(scheme.format, (Precision.HALF, (0, 0)))
    return Precision.HALF if scheme.weight_only or capability < since else precision


def is_unpacked(scheme: WeightScheme, capability: tuple[int, int]) -> bool:
    """Whether weights of a scheme are unpacked to 16 bits for each multiplication.

    Those beside activations of eight bits are unpacked to eight.
    """
    return multiplied_as(scheme, capability) is Precision.HALF and not scheme.byte_activations
