"""Which kernel computes routed experts where a flag or a variable names one, and whether it can."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from packaging.version import Version

from service.architecture.layers.experts import MixtureOfExperts
from service.architecture.model import ModelArchitecture
from service.architecture.weight_schemes import Granularity, WeightFormat, WeightScheme
from service.bundled_toml import read_toml
from service.engine_config.engine_config import EngineConfig
from service.engine_config.environment import FLASHINFER, named_fp8_experts
from service.engines.arguments.arguments import arguments_of
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal, Stage
from service.nearest_names import few_of, nearest

MEGA_MOE: Final = "deep_gemm_mega_moe"
"""DeepGEMM's kernel that sends tokens to experts and computes them in one step."""
AUTO: Final = "auto"
UNQUANTIZED: Final = "unquantized"
FP8_BLOCK: Final = "fp8_block"
_DEEPSEEK_V4: Final = "DeepseekV4ForCausalLM"
_MEGA_MAJOR: Final = 10


@dataclass(frozen=True, slots=True)
class _Runs:
    """Weights that a kernel is known to run."""

    kernel: str
    formats: frozenset[str]
    majors: frozenset[int]
    since: Version


@cache
def _tables() -> Mapping[str, Any]:
    return read_toml("service.engine_config", "expert_kernels.toml")


@cache
def _known() -> tuple[_Runs, ...]:
    return tuple(
        _Runs(each["kernel"], frozenset(each["formats"]), frozenset(each["majors"]), Version(each["since"]))
        for each in _tables()["runs"]
    )


def named_kernel(architecture: ModelArchitecture, flags: ServeFlags, release: Version) -> str | None:
    """Return the kernel that is named for the model's experts; ``None``: the release chooses.

    The flag comes before variables, which the release reads for experts in 8-bit floats alone.

    Source: vLLM 0.19.0 and 0.22.0, fused_moe/oracle/fp8.py select_fp8_moe_backend; config/kernel.py.
    """
    if not _has_experts(architecture):
        return None
    named = (flags.moe_backend or AUTO).lower().replace("-", "_")
    if named != AUTO:
        return named
    eight_bits = expert_formats(architecture) & {WeightFormat.FP8.value, FP8_BLOCK}
    return named_fp8_experts(flags, release) if eight_bits else None


def check_expert_kernel(architecture: ModelArchitecture, engine_config: EngineConfig) -> None:
    """Refuse DeepGEMM's joined kernel where the code of DeepSeek V4 does.

    Source: vLLM 0.22.0 to 0.32.0, models/deepseek_v4/nvidia/model.py.

    Raises:
        EngineRefusal: stage ``model``.
    """
    if engine_config.expert_kernel != MEGA_MOE or architecture.class_name != _DEEPSEEK_V4:
        return
    cause = None
    if not engine_config.enable_expert_parallel:
        cause = "split_experts"
    elif engine_config.compute_capability.major != _MEGA_MAJOR:
        cause = "other_gpu"
    if cause is not None:
        raise EngineRefusal(Stage.MODEL, _tables()["refusals"][cause], type="NotImplementedError")


def kernel_doubts(architecture: ModelArchitecture, engine_config: EngineConfig) -> tuple[str, ...]:
    """Say that the kernel named for the experts may not run them; empty where it is known to."""
    return tuple(_doubts(architecture, engine_config))


def _doubts(architecture: ModelArchitecture, engine_config: EngineConfig) -> Iterator[str]:
    kernel, release = engine_config.expert_kernel, engine_config.release
    if kernel is None:
        return
    choices = arguments_of(release)["moe_backend"].choices if "moe_backend" in arguments_of(release) else ()
    formats = expert_formats(architecture)
    if choices and kernel not in {*choices, FLASHINFER}:
        words = few_of(nearest(kernel, choices), choices, "`dryserve engines values moe_backend` lists all")
        yield (
            f"vLLM {release} has no --moe-backend {kernel}; {words}. Another build starts with memory that "
            "is not modelled."
        )
    elif not _is_known_to_run(kernel, formats, architecture, engine_config):
        yield (
            f"Whether the kernel {kernel} runs experts stored as {' and '.join(sorted(formats))} on compute "
            f"capability {engine_config.compute_capability} is not modelled: the engine fails if it cannot."
        )


def _is_known_to_run(
    kernel: str, formats: frozenset[str], architecture: ModelArchitecture, engine_config: EngineConfig
) -> bool:
    major = engine_config.compute_capability.major
    if kernel == MEGA_MOE:
        return architecture.class_name == _DEEPSEEK_V4 and formats == {WeightFormat.MXFP4.value}
    runs = [
        each.formats
        for each in _known()
        if each.kernel == kernel and major in each.majors and engine_config.release >= each.since
    ]
    return formats <= frozenset[str]().union(*runs)


def expert_formats(architecture: ModelArchitecture) -> frozenset[str]:
    """Return the formats in which experts may be stored: one, unless modules of the model differ."""
    quantization = architecture.quantization
    if quantization is None:
        return frozenset({UNQUANTIZED})
    if quantization.expert_scheme is not None:
        return frozenset({_format(quantization.expert_scheme)})
    return frozenset(_format(group.scheme) for group in quantization.schemes) or frozenset({"unknown"})


def _format(scheme: WeightScheme | None) -> str:
    if scheme is None:
        return UNQUANTIZED
    blocks = scheme.format is WeightFormat.FP8 and scheme.granularity is Granularity.BLOCK
    return FP8_BLOCK if blocks else scheme.format.value


def _has_experts(architecture: ModelArchitecture) -> bool:
    return any(isinstance(layer.feed_forward, MixtureOfExperts) for layer in architecture.distinct_layers)
