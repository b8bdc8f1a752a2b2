"""How far our weights are from what real releases allocate on the meta device."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Final

from packaging.version import Version
from rich.table import Table

from service.advisor.candidates.engine_start import resolved
from service.architecture.config import InvalidConfig
from service.architecture.model import ModelArchitecture
from service.architecture.quantization import Quantization
from service.architecture.reading import UnknownArchitecture
from service.architecture.weight_schemes import Names, SchemeGroup, WeightScheme
from service.backends.layer_cache_dtype import layer_cache_dtype
from service.engine_config.engine_config import EngineConfig
from service.engine_config.speculation import UnmodelledSpeculation
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal
from service.engines.releases import find_release, rules_for
from service.engines.speculative_config import SpeculativeConfig
from service.memory.constants import constants_at
from service.memory.parallelism import Parallelism
from service.memory.weights.counts.draft_weights import draft_parameters
from service.memory.weights.counts.parameters import (
    layer_modules_of,
    module_bytes_of,
    parameter_bytes_per_stage,
)
from service.memory.weights.modules import Experts, Linear
from service.memory.weights.resident.resident_weights import rotary_bytes, turboquant_buffers
from service.memory.weights.schemes.online_quantization import EXPERTS, quantized_online
from service.memory.weights.schemes.quantized import runs_on_marlin
from service.memory.weights.weight_layout import weight_layout_at
from service.memory.weights.weight_stage import WeightStage
from tests.accuracy.oracle import (
    architecture_of,
    asked_architecture,
    flags_of,
    gpu_of,
    untold_layers,
    with_draft,
)

WITHIN = 0.001
NO_CHECKPOINT: Final = "asked without a checkpoint, whose tensors say which GPTQ and AWQ layers are quantized"
"""Without tensors, no linear layer of GPTQ counts as quantized, and each router of AWQ does.

Source: vLLM 0.11.2 to 0.30.0, maybe_update_config and is_layer_gptq_quantized; GPTQ's experts do not ask it.
"""
TENSORS_PRESUMED: Final = Version("0.32.0")
"""Since this release all layers are quantized where no tensors are found: is_layer_gptq_quantized."""
NO_MODULE: Final = "-"
"""Stands in a list of unquantized modules, and names none of them."""
AS_STORED: Final = frozenset({"awq", "gptq"})
UNTOLD: Final = SpeculativeConfig(method="mtp", num_speculative_tokens=1)
"""What rows were asked whose caches show a prediction layer that their flags leave out."""


@dataclass(frozen=True, slots=True)
class Weighed:
    """One row: relative errors of the fullest stage."""

    id: str
    config: str
    release: str
    family: str
    parameters: float
    """Of what the rank's parameters take."""
    allocated: float
    """The same, with the tables and buffers that are allocated beside them."""
    cause: str | None = None
    """What the row does not say of how it was asked. The errors are those of what was asked."""


def weigh(row: Mapping[str, Any], configs: Path | None) -> Weighed | None:
    """Compare one row; ``None`` where the release did not build the model, or we do not.

    A row that does not say how it was asked is compared with what it was asked, and named.
    """
    if not row["expect"].get("parameter_bytes_per_pp_rank"):
        return None
    rules, flags = rules_for(find_release(row["engine_version"])), flags_of(row)
    try:
        name = row["config"]
        architecture = asked_architecture(name) if configs is None else architecture_of(configs / name)
        draft = row["serve"].get("speculative_config", {}).get("model")
        if draft is not None and configs is not None:
            architecture = with_draft(architecture, draft, configs)
        found = _weigh(row, architecture, flags)
        if abs(found.parameters) <= WITHIN:
            return found
        untold = without_tensors(architecture, rules.release)
        if untold is not None:
            return replace(_weigh(row, untold, flags), cause=NO_CHECKPOINT)
        cause = untold_layers(row, architecture, rules)
        if cause is None:
            return found
        return replace(_weigh(row, architecture, replace(flags, speculative_config=UNTOLD)), cause=cause)
    except (EngineRefusal, UnknownArchitecture, InvalidConfig, UnmodelledSpeculation):
        return None


def without_tensors(architecture: ModelArchitecture, release: Version) -> ModelArchitecture | None:
    """Return what a release builds of a quantized model without its checkpoint; ``None`` if the same."""
    quantization = architecture.quantization
    if quantization is None or quantization.method not in AS_STORED or not quantization.schemes:
        return None
    if quantization.method == "gptq" and release < TENSORS_PRESUMED:
        schemes = *_of_experts(architecture, quantization, release), SchemeGroup(None)
        quantization = replace(quantization, schemes=schemes, output=False)
    else:
        quantization = replace(quantization, ignored=quantization.ignored or Names.of((NO_MODULE,)))
    other = architecture.by_suffix
    return replace(
        architecture,
        quantization=quantization,
        by_suffix=None if other is None else without_tensors(other, release) or other,
    )


def _of_experts(
    architecture: ModelArchitecture, quantization: Quantization, release: Version
) -> tuple[SchemeGroup, ...]:
    """Return the groups of GPTQ's experts alone, whose schemes patterns of ``dynamic`` may change."""
    *overrides, last = quantization.schemes
    if not overrides or last.scheme is None:
        return (SchemeGroup(last.scheme, Names.of(EXPERTS)),)
    deployment = Parallelism(compute_capability=(9, 0), dtype=architecture.dtype)
    sizes = module_bytes_of(architecture, deployment, release)
    found: dict[WeightScheme | None, list[str]] = {}
    for module in chain.from_iterable(layer_modules_of(architecture, deployment, release)):
        if isinstance(module, Experts):
            prefixes, name, _ = sizes.shards_of(Linear(module.name, 0, ()))
            # Experts that Marlin does not take have the scheme of all, whatever ``dynamic`` says of them.
            on_marlin = runs_on_marlin(module, last.scheme, sizes.layout)
            scheme = sizes.scheme_of(module) if on_marlin else last.scheme
            found.setdefault(scheme, []).append(prefixes[0] + name)
    return tuple(SchemeGroup(scheme, Names.of(names)) for scheme, names in found.items())


def _weigh(row: Mapping[str, Any], architecture: ModelArchitecture, flags: ServeFlags) -> Weighed:
    rules = rules_for(find_release(row["engine_version"]))
    architecture, engine_config = resolved(architecture, flags, rules, gpu_of(row))
    architecture = quantized_online(architecture, flags.quantization)
    capability = engine_config.compute_capability
    deployment = Parallelism(
        tensor_parallel_size=engine_config.tensor_parallel_size,
        pipeline_parallel_size=engine_config.pipeline_parallel_size,
        data_parallel_size=flags.data_parallel_size,
        enable_expert_parallel=engine_config.enable_expert_parallel,
        compute_capability=(capability.major, capability.minor),
        language_model_only=flags.language_model_only,
        dtype=engine_config.dtype,
    )
    parameters, beside = _stages(architecture, deployment, engine_config)
    allocated = [own + extra for own, extra in zip(parameters, beside, strict=True)]
    expected = row["expect"]
    return Weighed(
        id=row["id"],
        config=row["config"],
        release=row["engine_version"],
        family=architecture.class_name,
        parameters=max(parameters) / max(expected["parameter_bytes_per_pp_rank"]) - 1,
        allocated=max(allocated) / max(expected["weights_bytes_per_pp_rank"]) - 1,
    )


def _stages(
    architecture: ModelArchitecture, deployment: Parallelism, engine_config: EngineConfig
) -> tuple[list[int], list[int]]:
    """Return bytes of parameters, and of what stands beside them, stage by stage."""
    *others, last = parameter_bytes_per_stage(architecture, deployment, engine_config.release)
    if architecture.draft is not None:
        last += draft_parameters(architecture, deployment, engine_config.release).bytes
    constants = constants_at(engine_config.release).resident
    layout = weight_layout_at(engine_config.release).stages
    packed = frozenset(
        index
        for index, mixer in architecture.attention_layers
        if layer_cache_dtype(index, mixer, engine_config).startswith("turboquant_")
    )
    stages = (
        WeightStage(deployment.shards, layers, engine_config.max_num_seqs, packed.intersection(layers))
        for layers in deployment.stages(architecture)
    )
    beside = [
        rotary_bytes(architecture, constants, layout, stage.layers)
        + turboquant_buffers(architecture, constants, stage)
        for stage in stages
    ]
    return [*others, last], beside


def table(weighed: Iterable[Weighed]) -> Table:
    """Return the share of rows within a thousandth, by release."""
    grid = Table(title="weights within 0.1 %", title_justify="left")
    for heading in ("release", "rows", "parameters %", "allocated %", "worst %", "asked otherwise"):
        grid.add_column(heading, justify="left" if heading == "release" else "right")
    rows = list(weighed)
    groups = {"all": rows}
    for each in rows:
        groups.setdefault(each.release, []).append(each)
    for name, group in groups.items():
        shares = (
            100 * sum(abs(error) <= WITHIN for error in errors) / len(group)
            for errors in ([e.parameters for e in group], [e.allocated for e in group])
        )
        worst = 100 * max(abs(each.parameters) for each in group)
        untold = sum(each.cause is not None for each in group)
        grid.add_row(
            name, str(len(group)), *(f"{share:.2f}" for share in shares), f"{worst:.2f}", str(untold)
        )
    return grid


def misses(weighed: Iterable[Weighed]) -> dict[str, int]:
    """Return how many rows of each config are further off."""
    counts: dict[str, int] = {}
    for each in weighed:
        if abs(each.parameters) > WITHIN:
            counts[each.config] = counts.get(each.config, 0) + 1
    return counts
