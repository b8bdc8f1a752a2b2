"""Which checkpoints a release loads, and how it reads them."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from service.engines.cases import ActivationTypes, QuantizationOverride


class ParamsFile(StrEnum):
    """When a model is read by its params.json, Mistral's own format."""

    WITHOUT_CONFIG = "without_config"
    """Where there is no config.json."""
    FIRST = "first"
    """Wherever there is one."""
    WITH_CONSOLIDATED_WEIGHTS = "with_consolidated_weights"
    """Beside weights in Mistral's own files alone."""


@dataclass(frozen=True, slots=True)
class CheckpointRules:
    """Which checkpoints a release loads, and how it reads them."""

    params_file: ParamsFile
    """When a model is read by its params.json and not by its config.json."""
    params_parts: frozenset[str]
    """What is read of a params.json."""
    params_class: str
    """Class of a config made of a params.json, as transformers spells it."""
    quantization_methods: frozenset[str]
    """Values of --quantization that the release knows."""
    online_quantization: frozenset[str]
    """Values of --quantization that quantize all linear layers of 16-bit weights while they load."""
    online_fp8: str
    """Value of --quantization that stores 16-bit weights in fp8 while they load: the name that is not
    deprecated.
    """
    online_on_meta: bool
    """Whether such weights have no data when --cpu-offload-gb or groups would move them to the host."""
    deprecated_quantization: frozenset[str]
    """Values of --quantization that it takes with --allow-deprecated-quantization alone."""
    quantization_overrides: tuple[QuantizationOverride, ...]
    """Formats of checkpoints that a release runs by a method of another name, or whatever --quantization
    says.
    """
    modelopt_by_file: bool
    """Whether checkpoints with a file of ModelOpt's are run as its whatever --quantization says, not FP8 ones
    alone.
    """
    quantization_min_capability: Mapping[str, str]
    """Least compute capability (x10) of each checkpoint format."""
    activation_types: tuple[ActivationTypes, ...]
    """Types that models may run in by the format of their checkpoint; formats that are not named run in
    any.
    """
    plain_awq: bool
    """Whether AWQ that Marlin cannot run, or that ``--quantization awq`` names, gets kernels of float16."""
    plain_gptq: bool
    """Whether GPTQ checkpoints that Marlin cannot run are loaded by the plain kernels."""
    activation_order: bool
    """Whether groups of inputs may be in the order of their activations (GPTQ's desc_act)."""
    clamped_nvfp4_majors: frozenset[str]
    """Major compute capabilities with kernels for NVFP4 experts behind a clamp; none listed: not limited."""
    left_to_transformers: frozenset[str]
    """Classes that transformers' own code runs instead, and whose layers it builds otherwise: all of them
    attend.
    """
    head_dim_is_rotary: frozenset[str]
    """Model types whose config class takes head_dim for the rotary size (qk_rope_head_dim)."""
    miscounted_layers: Mapping[str, str]
    """Classes of which a release may build other layers than the config says, and why."""
    thinker_alone: frozenset[str]
    """Classes that read nothing of a config without ``thinker_config``, and build their default sizes."""
