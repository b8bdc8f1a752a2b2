"""Which scheme of a checkpoint's quantization each module has, by the names in the checkpoint's lists."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final, TypeAlias

from service.architecture.long_lists import LONG_LISTS
from service.architecture.quantization import AUTO_ROUND, Quantization
from service.architecture.weight_schemes import (
    MXFP4_GROUP,
    Granularity,
    WeightFormat,
    WeightScheme,
)
from service.memory.weights.modules import Experts, Linear, Module
from service.memory.weights.names.module_names import PREFIXES, ModuleNames, bare, module_names
from service.memory.weights.names.spellings import EXPERTS, LAYERS, OUTPUT, Spelling, spelled
from service.memory.weights.weight_layout import QuantizedLayout

AWQ_METHODS: Final = frozenset({"auto_awq", "awq", "awq_marlin"})
NAME_LISTS: Final = AWQ_METHODS | {"fp8"}
"""Methods that look for names, or parts of them, in their lists: quant_utils.py is_layer_skipped."""
GPTQ_METHODS: Final = frozenset({"auto_gptq", "gptq", "gptq_marlin"})
COMPRESSED_TENSORS: Final = "compressed-tensors"
MODELOPT_MIXED: Final = "modelopt_mixed"
TEXT_MODEL: Final = "language_model.model."
"""What the engine puts before the names of a text model within another class."""
WRITTEN_TEXT_MODEL: Final = "model.language_model."
"""What checkpoints put there."""
EXPERT_PROJECTIONS: Final = ("gate_proj", "up_proj", "down_proj")
_LEFT_BY_MODELOPT: Final = ("vision_tower", "vision_model", "vit_large_projector")
"""Parts of names of modules that ModelOpt's checkpoints leave unquantized, whatever their lists say.

Source: vLLM 0.11.2 to 0.33.0, ModelOptQuantConfigBase.get_quant_method.
"""


FoundSchemes: TypeAlias = dict[tuple[str, tuple[str, ...]], WeightScheme | None]
"""Schemes that were found, by a module's name and its projections."""


@dataclass(frozen=True)
class ModuleSchemes:
    """Schemes of modules, by the checkpoint's quantization and the release."""

    quantization: Quantization | None
    layout: QuantizedLayout
    maps_parts: bool
    """The model's class says of which projections a fused one is made, so lists may name these."""
    spelling: Spelling
    """What the model's class calls its modules."""

    @property
    def by_name(self) -> bool:
        """Whether equal modules may be stored in different schemes, because of their names."""
        quantization = self.quantization
        if quantization is None or not quantization.schemes:
            return False
        return bool(quantization.ignored) or any(group.targets for group in quantization.schemes)

    def scheme_of(self, module: Module) -> WeightScheme | None:
        """Return the scheme that the checkpoint names for a module, ``None`` for an unquantized one."""
        if isinstance(module, Experts):
            return self._expert_scheme(module)
        if isinstance(module, Linear) and module.quantizable:
            return self._scheme(module.name, module.parts)
        return None

    def _declared_scheme(self) -> WeightScheme | None:
        """Return the scheme that the config states for routed experts alone, if it states one."""
        declared = None if self.quantization is None else self.quantization.expert_scheme
        if (
            declared is not None
            and declared.format is WeightFormat.NVFP4
            and not self.layout.declared_nvfp4_experts
        ):
            return WeightScheme(WeightFormat.MXFP4, Granularity.GROUP, bits=4, group_size=MXFP4_GROUP)
        return declared

    def _expert_scheme(self, experts: Experts) -> WeightScheme | None:
        quantization, parts = self.quantization, experts.parts
        if quantization is not None and quantization.method == COMPRESSED_TENSORS:
            parts = parts if self.layout.checkpoint_names else EXPERT_PROJECTIONS
        if quantization is not None and quantization.method in GPTQ_METHODS:
            # Source: vLLM 0.19.0 to 0.32.0, get_moe_quant_method: ``dynamic`` has the name of all of them.
            parts = ()
        return self._declared_scheme() or self._scheme(experts.name, parts)

    @property
    def names_output(self) -> bool:
        """Whether a group of compressed-tensors names the output embedding, which is no linear layer."""
        if self.quantization is None or self.quantization.method != COMPRESSED_TENSORS:
            return False
        prefixes, names = self._names(OUTPUT, ())
        return any(found is not None and self._is_named(found, names, prefixes) for found, _ in self._groups)

    @property
    def leaves_packed(self) -> bool:
        """Whether the checkpoint stores layers packed that the release builds unquantized."""
        schemes = (scheme for _, scheme in self._groups if scheme is not None)
        return any(not self._builds(scheme) for scheme in schemes)

    def lacks_names_of(self, module: Module) -> bool:
        """Whether experts are built unquantized because the checkpoint's lists name them otherwise."""
        quantization = self.quantization
        return (
            isinstance(module, Experts)
            and quantization is not None
            and quantization.method == COMPRESSED_TENSORS
            and self._expert_scheme(module) is None
            and self._scheme(module.name, EXPERT_PROJECTIONS) is not None
        )

    def unmatched_name(self, module: Module) -> str | None:
        """Return the name of a module that is refused: no group is for it, and no list leaves it.

        Of experts the first projection of the first is looked up.
        """
        method = None if self.quantization is None else self.quantization.method
        if method != COMPRESSED_TENSORS or not self.layout.names_every_layer or not self._groups:
            return None
        if isinstance(module, Experts):
            prefixes, names = _named(self.spelling, module.name, EXPERT_PROJECTIONS)
            names = names[1:2]
        elif isinstance(module, Linear) and module.quantizable and not self.spelling.leaves(module.name):
            prefixes, names = self._names(module.name, module.parts)
        else:
            return None
        if any(self._ignored(each, prefixes) for each in names):
            return None
        by_type = not (isinstance(module, Experts) and self._own_experts)
        named = (
            by_type if targets is None else any(targets.has(each, prefixes) for each in names)
            for targets, _ in self._groups
        )
        if any(named):
            return None
        return names[0] if prefixes == PREFIXES else prefixes[0] + names[0]

    def shards_of(self, linear: Linear) -> tuple[tuple[str, ...], str, tuple[str, ...]]:
        """Return the prefixes a fused module may have, its name after them, and those of its projections."""
        parts = linear.parts if self.maps_parts else ()
        prefixes, names = _named(self.spelling, linear.name, parts)
        _, parts = spelled(self.spelling, linear.name, parts)
        parent = names[0].rpartition(".")[0]
        return prefixes, names[0], tuple(f"{parent}.{part}" for part in parts)

    def ignores(self, name: str, prefixes: tuple[str, ...]) -> bool:
        """Return whether a list leaves a module of some name unquantized."""
        return self._ignored(name, prefixes)

    def group_scheme(self, name: str, prefixes: tuple[str, ...]) -> WeightScheme | None:
        """Return the scheme of the group that a name belongs to, whatever a list leaves."""
        found = (scheme for targets, scheme in self._groups if targets is None or targets.has(name, prefixes))
        return next(found, None)

    def names_whole(self, name: str, prefixes: tuple[str, ...]) -> bool:
        """Return whether a group names a module itself, and not by a pattern."""
        return any(targets is not None and targets.lists(name, prefixes) for targets, _ in self._groups)

    def _names(self, name: str, parts: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the prefixes that a module may have, the engine's first, and its names after them."""
        return _named(self.spelling, name, parts if self.maps_parts else ())

    def _scheme(self, name: str, parts: tuple[str, ...]) -> WeightScheme | None:
        """Return the scheme of a module, which is looked for in all groups once."""
        known = self._schemes
        if (name, parts) not in known:
            known[name, parts] = self._found_scheme(name, parts)
        return known[name, parts]

    @cached_property
    def _schemes(self) -> FoundSchemes:
        return _found_schemes(self.quantization, self.layout, self.maps_parts, self.spelling)

    def _found_scheme(self, name: str, parts: tuple[str, ...]) -> WeightScheme | None:
        quantization = self.quantization
        if quantization is None or not quantization.schemes:
            return None
        if quantization.by_modelopt and any(part in name for part in _LEFT_BY_MODELOPT):
            return None
        if self.spelling.leaves(name):
            return None
        prefixes, names = self._names(name, parts)
        experts = name.endswith(EXPERTS)
        if self._is_left(names, prefixes, experts=experts):
            return None
        prefixes = self._target_prefixes(prefixes)
        by_type = not (experts and self._own_experts)
        for targets, scheme in self._groups:
            if by_type if targets is None else self._is_named(targets, names, prefixes):
                return scheme if scheme is not None and self._builds(scheme) else None
        return None

    def _is_left(self, names: tuple[str, ...], prefixes: tuple[str, ...], *, experts: bool) -> bool:
        """Whether a list leaves a module, by its own name or by those of its projections.

        Source: vLLM 0.20.2 and 0.33.0, ModelOptQuantConfigBase.is_layer_excluded: of the projections of a
        fused module whole names alone count, not patterns.
        """
        quantization = self.quantization
        if quantization is None or not quantization.by_modelopt or experts:
            return any(self._ignored(each, prefixes) for each in self._listed_names(names, experts=experts))
        listed = module_names(quantization.ignored)
        return self._ignored(names[0], prefixes) or any(listed.lists(each, prefixes) for each in names[1:])

    def _target_prefixes(self, prefixes: tuple[str, ...]) -> tuple[str, ...]:
        """Return the prefixes under which a layer's algorithm is looked up, whatever the class maps.

        Source: vLLM 0.22.1 to 0.33.0, ModelOptMixedPrecisionConfig._quantized_layer_prefix_candidates.
        """
        method = None if self.quantization is None else self.quantization.method
        if method != MODELOPT_MIXED or not self.layout.mixed_text_names or prefixes[:1] != (TEXT_MODEL,):
            return prefixes
        return (*prefixes, WRITTEN_TEXT_MODEL)

    def _listed_names(self, names: tuple[str, ...], *, experts: bool) -> tuple[str, ...]:
        """Return the names of a module by which a list may leave it unquantized.

        Source: vLLM 0.15.0 to 0.33.0, CompressedTensorsMoEMethod.get_moe_method: experts by the projections
        of the first one alone.
        """
        method = "" if self.quantization is None else self.quantization.method
        if experts:
            by_projections = method == COMPRESSED_TENSORS
        else:
            by_projections = method in NAME_LISTS and not self.layout.fused_names
        projections = names[1:] or names
        return projections if by_projections else names

    def _is_named(self, targets: ModuleNames, names: tuple[str, ...], prefixes: tuple[str, ...]) -> bool:
        for each in names:
            if targets.has(each, prefixes):
                return True
        method = "" if self.quantization is None else self.quantization.method
        by_ends = method in AUTO_ROUND and self.layout.exceptions_by_ends
        return by_ends and targets.end(names[0], prefixes)

    @cached_property
    def _ignored(self) -> Callable[[str, tuple[str, ...]], bool]:
        return (lambda _, __: False) if self.quantization is None else _ignores(self.quantization)

    @property
    def _own_experts(self) -> bool:
        """Whether no group of compressed-tensors for every linear layer is for the routed experts."""
        method = None if self.quantization is None else self.quantization.method
        return self.spelling.own_experts and method == COMPRESSED_TENSORS

    @cached_property
    def _groups(self) -> tuple[tuple[ModuleNames | None, WeightScheme | None], ...]:
        """Each group's targets, ``None`` for every linear layer, and its scheme."""
        groups = () if self.quantization is None else self.quantization.schemes
        return tuple((module_names(each.targets) if each.targets else None, each.scheme) for each in groups)

    def _builds(self, scheme: WeightScheme) -> bool:
        """Whether a layer of this scheme is built quantized: always, but for mixed ModelOpt checkpoints."""
        if self.quantization is None or self.quantization.method != MODELOPT_MIXED:
            return True
        if scheme.format is WeightFormat.MXFP8:
            return self.layout.mixed_mxfp8
        return self.layout.weight_only_nvfp4 or not scheme.weight_only


@LONG_LISTS.emptied
@lru_cache(maxsize=64)
def _found_schemes(
    quantization: Quantization | None, layout: QuantizedLayout, maps_parts: bool, spelling: Spelling
) -> FoundSchemes:
    """Return where schemes are kept: they are the same on any number of GPUs as in the whole checkpoint."""
    del quantization, layout, maps_parts, spelling
    return {}


def _ignores(quantization: Quantization) -> Callable[[str, tuple[str, ...]], bool]:
    """Return whether a checkpoint leaves a module of some name unquantized, after any of some prefixes.

    Source: vLLM 0.19.0 to 0.33.0, is_layer_skipped of AWQ's configs (``match_mode="substring"``) and
    ModelOptQuantConfigBase.is_layer_excluded; 0.24.0, is_layer_skipped_bnb.
    """
    ignored = module_names(quantization.ignored)
    if quantization.method in AWQ_METHODS or quantization.by_modelopt:
        return lambda name, prefixes: ignored.has(name, prefixes) or ignored.occurs_in(name, prefixes)
    if quantization.method == "bitsandbytes":
        return lambda name, _: name in ignored or ignored.within(name)
    return ignored.has


@lru_cache(maxsize=1 << 15)
def _named(spelling: Spelling, name: str, parts: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    known = spelling.prefixes if name.startswith(LAYERS) else ()
    experts = name.endswith(EXPERTS)
    return known or PREFIXES, tuple(_spellings(*spelled(spelling, name, parts), experts=experts))


def _spellings(name: str, parts: tuple[str, ...], *, experts: bool) -> Iterator[str]:
    """Yield the names that a checkpoint may use for a module."""
    name = bare(name)
    yield name
    if experts:
        yield from (f"{name}.0.{part}" for part in parts)
        return
    parent, dot, _ = name.rpartition(".")
    yield from (f"{parent}{dot}{part}" for part in parts[:1])
