"""Sizes of layers that a release's ModelOpt methods do not build: vLLM 0.15.1 to 0.33.0, modelopt.py."""

from collections.abc import Iterator
from typing import Final

from service.architecture.weight_schemes import Granularity, WeightFormat, WeightScheme
from service.engines.refusal import EngineRefusal, Stage
from service.engines.rules.layouts import LayoutRules
from service.memory.weights.modules import Experts, Linear

NVFP4_UNIT: Final = 16
NVFP4_INPUTS: Final = "Unsupported model when in features size is not multiple of 16"
MXFP8_UNIT: Final = 32
MXFP8_HIDDEN: Final = f"MXFP8 MoE requires hidden_size divisible by {MXFP8_UNIT}, got {{size}}."
MXFP8_WIDTH: Final = (
    f"MXFP8 MoE requires intermediate_size_per_partition divisible by {MXFP8_UNIT}, got {{size}}."
)


def modelopt_linear(linear: Linear, scheme: WeightScheme, rules: LayoutRules) -> Iterator[EngineRefusal]:
    """Yield what a release raises about the sizes of a linear layer on one rank."""
    inputs, outputs = linear.inputs, sum(linear.outputs)
    if scheme.format is WeightFormat.FP8 and scheme.granularity is Granularity.BLOCK:
        high, wide = scheme.block or (128, 128)
        if outputs % high and rules.modelopt_block_outputs:
            yield _refuse(rules.modelopt_block_outputs.format(block=high, size=outputs))
        if inputs % wide:
            yield _refuse(rules.modelopt_block_inputs.format(block=wide, size=inputs))
    if scheme.format is WeightFormat.NVFP4 and inputs % NVFP4_UNIT:
        yield _refuse(NVFP4_INPUTS)
    if scheme.format is WeightFormat.MXFP8 and inputs % MXFP8_UNIT:
        yield _refuse(rules.modelopt_mxfp8_inputs.format(group=MXFP8_UNIT, size=inputs))


def modelopt_experts(experts: Experts, scheme: WeightScheme) -> Iterator[EngineRefusal]:
    """Yield what a release raises about the sizes of experts on one rank."""
    if scheme.format is not WeightFormat.MXFP8:
        return
    if experts.hidden_size % MXFP8_UNIT:
        yield _refuse(MXFP8_HIDDEN.format(size=experts.hidden_size))
    if experts.intermediate_size % MXFP8_UNIT:
        yield _refuse(MXFP8_WIDTH.format(size=experts.intermediate_size))


def _refuse(words: str) -> EngineRefusal:
    return EngineRefusal(Stage.MODEL, words)
