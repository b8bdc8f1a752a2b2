"""Bytes of a rank's modules, by the checkpoint's quantization and the release."""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, assert_never

from service.architecture.quantization import AUTO_ROUND
from service.architecture.weight_schemes import WeightFormat, WeightScheme
from service.memory.weights.modules import (
    Experts,
    Linear,
    Module,
    OutputEmbedding,
    PlainModule,
)
from service.memory.weights.names.spellings import OUTPUT
from service.memory.weights.schemes.module_schemes import AWQ_METHODS, GPTQ_METHODS, ModuleSchemes
from service.memory.weights.schemes.quantized import (
    experts_bytes,
    linear_bytes,
    plain_experts,
    plain_linear,
    runs_on_marlin,
    weight_only_experts,
)
from service.units import round_up

HOPPER: Final = 9
AMPERE: Final = (8, 0)
_ON_MARLIN: Final = frozenset({WeightFormat.AWQ, WeightFormat.GPTQ})
AS_STORED: Final = AWQ_METHODS | GPTQ_METHODS
"""Methods of which a layer is quantized if the checkpoint has it so: quantizing tools leave routers alone.

A list of unquantized modules decides where there is one.

Source: vLLM 0.19.0 to 0.33.0, maybe_update_config of AutoAWQConfig and AutoGPTQConfig: tensors' types decide.
"""
_FLOATS: Final = frozenset({WeightFormat.FP8, WeightFormat.MXFP8})
"""Formats whose elements are of a type of PyTorch, which changes where a module is made of another."""


@dataclass(frozen=True)
class ModuleBytes(ModuleSchemes):
    """Bytes of modules, by their schemes and the release."""

    element_bytes: int
    compute_capability: tuple[int, int]
    plain_output: bool = False
    """The model's class builds its output embedding without the checkpoint's quantization."""

    def module(self, module: Module) -> int:
        """Return the bytes of one module."""
        match module:
            case PlainModule():
                return module.elements * (module.element_bytes or self.element_bytes)
            case OutputEmbedding():
                head = self._head(module)
                return 0 if module.tied and self.scheme_of(head) is None else self._linear(head)
            case Linear():
                return self._linear(module)
            case Experts():
                return self._experts(module)
        assert_never(module)

    def _head(self, head: OutputEmbedding) -> Linear:
        quantization = self.quantization
        quantizable = (
            quantization is not None
            and not self.plain_output
            and (
                quantization.output
                or (quantization.by_modelopt and self.layout.quantized_output)
                or (self.layout.named_output and not head.tied and self.names_output)
            )
        )
        return Linear(OUTPUT, head.hidden_size, (head.rows,), quantizable=quantizable)

    def _linear(self, linear: Linear) -> int:
        scheme = self._scheme(linear.name, linear.parts) if linear.quantizable else None
        if scheme is None or (linear.cast and scheme.format in _FLOATS):
            return plain_linear(linear, self.element_bytes)
        if linear.router and self._router_is_stored_plain():
            return plain_linear(linear, self.element_bytes)
        if scheme.format is WeightFormat.GPTQ:
            scheme = self._ordered(scheme)
        elif scheme.activation_order:
            scheme = replace(scheme, repeated_scales=self.layout.activation_order_indices)
        return linear_bytes(linear, scheme, self.element_bytes)

    def _router_is_stored_plain(self) -> bool:
        quantization = self.quantization
        return quantization is not None and quantization.method in AS_STORED and not quantization.ignored

    def _experts(self, experts: Experts) -> int:
        base = self._base_scheme()
        if base is not None and not runs_on_marlin(experts, base, self.layout):
            return self._weight_only(experts, base)
        scheme = self._expert_scheme(experts)
        if scheme is not None and self.quantization is not None:
            # Source: vLLM 0.19.0 to 0.33.0, modelopt.py: no create_weights of experts registers biases.
            bias = experts.bias and not self.quantization.by_modelopt
            gated = experts.gated or self.quantization.method in self.layout.doubled_experts
            experts = replace(experts, bias=bias, gated=gated)
        if scheme is None and (experts.plain_softmax or experts.other_gate):
            # Source: vLLM 0.32.0, experts/trtllm_bf16_moe.py _supports_routing_method: another kernel runs;
            # 0.33.0, _supports_activation; asked of gpt-oss, Gemma 4 and MiniMax M3 on 10.0.
            return plain_experts(experts, self.element_bytes)
        if scheme is None:
            return plain_experts(self._rounded(experts, mxfp4=False), self.element_bytes)
        if self._rounds(scheme):
            experts = self._rounded(experts, mxfp4=True, capability=self._kernels(experts, scheme))
        if scheme.format in _ON_MARLIN:
            if not runs_on_marlin(experts, scheme, self.layout):
                return self._weight_only(experts, scheme)
            if scheme.format is WeightFormat.GPTQ:
                experts = replace(experts, bias=experts.bias or self.layout.gptq_expert_biases)
                scheme = replace(scheme, zero_points_as_scales=self.layout.gptq_zero_points_as_scales)
        ordered = self._ordered(scheme)
        if (
            scheme.named_order
            and self.layout.repeated_named_orders
            and runs_on_marlin(experts, scheme, self.layout)
        ):
            ordered = _with_order(scheme, repeated=True)
        return experts_bytes(experts, ordered, self.element_bytes)

    def _weight_only(self, experts: Experts, scheme: WeightScheme) -> int:
        """Return the bytes of experts that Marlin does not take.

        Source: vLLM 0.19.0 to 0.23.0, gptq.py GPTQConfig.get_quant_method: symmetric whatever the checkpoint
        is; 0.20.2, inc.py apply_gptq_quant_layer: as the checkpoint is.
        """
        method = "" if self.quantization is None else self.quantization.method
        return weight_only_experts(experts, scheme, self.element_bytes, gptq_zero_points=method in AUTO_ROUND)

    def _base_scheme(self) -> WeightScheme | None:
        """Return GPTQ's scheme of all modules that no pattern of ``dynamic`` names, if there is one.

        Experts whose sizes Marlin does not take have this scheme, whatever ``dynamic`` says of them.

        Source: vLLM 0.19.0 to 0.32.0, get_quant_method of GPTQMarlinConfig and AutoGPTQConfig.
        """
        if self.quantization is None or not self.quantization.schemes:
            return None
        last = self.quantization.schemes[-1]
        by_pattern = last.scheme is not None and last.scheme.format is WeightFormat.GPTQ and not last.targets
        return last.scheme if by_pattern else None

    def _rounds(self, scheme: WeightScheme) -> bool:
        """Whether the sizes of experts are rounded up for kernels of MXFP4."""
        w4a8 = scheme.format is WeightFormat.MX and scheme.byte_activations
        return (
            scheme.format is WeightFormat.MXFP4
            or scheme.rounded_experts
            or (w4a8 and self.layout.rounded_w4a8_experts)
        )

    def _kernels(self, experts: Experts, scheme: WeightScheme) -> tuple[int, int]:
        """Return the compute capability whose kernels of MXFP4 run.

        Hopper's take 16-bit activations and the function of gpt-oss alone, whose experts have biases.

        Source: vLLM 0.33.0, fused_moe/oracle/mxfp4.py: Marlin; asked of gpt-oss on 9.0; 0.19.0 to 0.33.0,
        gpt_oss_triton_kernels_moe.py _supports_activation; asked of Qwen 2 MoE on 9.0 in 0.24.0.
        """
        hopper = self.compute_capability[0] == HOPPER
        other = scheme.byte_activations or not experts.bias
        return AMPERE if hopper and other else self.compute_capability

    def _rounded(
        self, experts: Experts, *, mxfp4: bool, capability: tuple[int, int] | None = None
    ) -> Experts:
        rounding = self.layout.rounding(capability or self.compute_capability, mxfp4=mxfp4)
        return replace(
            experts,
            hidden_size=round_up(experts.hidden_size, rounding.hidden),
            intermediate_size=round_up(experts.intermediate_size, rounding.intermediate),
        )

    def _ordered(self, scheme: WeightScheme) -> WeightScheme:
        if scheme.format is WeightFormat.PACKED and scheme.byte_activations:
            return replace(scheme, channel_scales=self.layout.w4a8_channel_scales)
        if not self.layout.activation_order_indices:
            return scheme
        return _with_order(scheme, repeated=scheme.activation_order)


@lru_cache(maxsize=256)
def _with_order(scheme: WeightScheme, *, repeated: bool) -> WeightScheme:
    return replace(scheme, activation_order=True, repeated_scales=repeated)
