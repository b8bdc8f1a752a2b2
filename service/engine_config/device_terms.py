"""What a configuration takes from a GPU type."""

from dataclasses import dataclass, field

from service.architecture.model import ModelArchitecture
from service.architecture.quantization import Quantization
from service.engine_config import checkpoint_checks, model_dtype, weight_quantization, written_fields
from service.engine_config.request_limits import batch_defaults
from service.engine_config.sparse_weights import check_sparse_weights
from service.engines.cases import BatchDefaults
from service.engines.engine_rules import EngineRules
from service.engines.flags import ServeFlags
from service.engines.model_classes import check_model_class
from service.engines.refusal import EngineRefusal
from service.gpus.capability import ComputeCapability
from service.gpus.gpu_type import GpuType


@dataclass(frozen=True, slots=True)
class DeviceTerms:
    """What a configuration takes from a GPU type: types with equal terms are configured alike."""

    dtype: str
    """Type that the model runs in there."""
    quantization: Quantization | None
    """How weights are quantized once they are loaded."""
    unloadable: EngineRefusal | None
    """Why the checkpoint cannot be loaded there, if so."""
    batch: BatchDefaults
    name: str = field(compare=False)
    compute_capability: ComputeCapability = field(compare=False)

    @classmethod
    def of(
        cls, architecture: ModelArchitecture, flags: ServeFlags, rules: EngineRules, gpu: GpuType
    ) -> "DeviceTerms":
        """Return the terms of a GPU type.

        Raises:
            EngineRefusal: the release does not have the model's class, or not in the requested type.
            ValueError: the GPU has no compute capability.
        """
        if gpu.compute_capability is None:
            raise ValueError(f"{gpu.id} has no compute capability")
        written_fields.check_written_fields(architecture, rules)
        check_model_class(architecture.class_name, rules.release)
        dtype = model_dtype.resolve_model_dtype(architecture, flags.dtype, gpu, rules.dtypes)
        quantization, unloadable = architecture.quantization, None
        try:
            quantization = weight_quantization.run_with(quantization, flags.quantization)
            checkpoint_checks.check_modelopt_algorithm(quantization, rules.layouts)
            check_sparse_weights(quantization, rules.kernels)
            checkpoint_checks.check_checkpoint(
                quantization, dtype, gpu.compute_capability, rules.checkpoints, flag=flags.quantization
            )
            checkpoint_checks.check_gguf(quantization, dtype, gpu.compute_capability, rules.gguf)
            checkpoint_checks.check_method(quantization, rules.layouts, rules.auto_round)
        except EngineRefusal as refusal:
            unloadable = refusal
        batch = batch_defaults(rules.batches, gpu)
        return cls(dtype, quantization, unloadable, batch, gpu.name, gpu.compute_capability)
