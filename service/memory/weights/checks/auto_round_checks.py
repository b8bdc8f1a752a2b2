"""Layers of AutoRound that a release has no kernel for."""

from collections.abc import Iterator

from service.architecture.weight_schemes import WeightFormat, WeightScheme
from service.engines.refusal import EngineRefusal, Stage
from service.engines.rules.auto_round import AutoRoundRules
from service.memory.weights.checks.packed_kernels import on_marlin
from service.memory.weights.modules import Linear


def auto_round_faults(linear: Linear, scheme: WeightScheme, rules: AutoRoundRules) -> Iterator[EngineRefusal]:
    """Yield what AutoRound's own choice of a kernel raises; since 0.22.0 it has Marlin, and later humming."""
    if scheme.format is not WeightFormat.GPTQ or not rules.linear_refusal:
        return
    if str(scheme.bits) not in rules.humming_bits and not on_marlin(scheme):
        words = rules.linear_refusal.format(bits=scheme.bits, symmetric=scheme.symmetric)
        yield EngineRefusal(
            Stage.MODEL, words, type="NotImplementedError", detail=f"The layer is {linear.name}."
        )


def auto_round_experts(scheme: WeightScheme) -> Iterator[EngineRefusal]:
    """Yield what AutoRound's fp8 raises about experts: vLLM 0.29.0 to 0.33.0, INCScheme.get_moe_method."""
    if scheme.format is WeightFormat.FP8:
        yield EngineRefusal(
            Stage.MODEL, "INCFp8Scheme does not support MoE layers.", type="NotImplementedError"
        )
