"""The bundled facts on attention backends, parsed once."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache, lru_cache
from typing import Any, Final, TypeVar

from packaging.version import Version

from service.backends.backend import EngineFailure, KernelBlockSizes
from service.backends.conditions import AnyOf, OutcomeRule, rules_on
from service.bundled_toml import read_toml
from service.engines.dated import read_timeline
from service.engines.refusal import Stage
from service.engines.timeline import InvalidTimeline, Timeline
from service.gpus.capability import ComputeCapability
from service.nearest_names import MOST_NEAREST, few_of, nearest, quoted

_FILES: Final = (
    "selector.toml",
    "forced.toml",
    "multi_head.toml",
    "composite.toml",
    "mla.toml",
    "sparse.toml",
    "unselected.toml",
)

T = TypeVar("T")
Rules = tuple[OutcomeRule[T], ...]


LISTS_ALL: Final = "`dryserve engines values attention_backend` and GET /v1/engines list all"


class UnknownBackend(LookupError):
    """No backend of that name is known in the release.

    Attributes:
        nearest: backends of the release that are spelt alike.
    """

    def __init__(self, words: str, nearest: tuple[str, ...] = ()) -> None:
        super().__init__(words)
        self.nearest = nearest

    @classmethod
    def named(cls, name: str, known: Iterable[str]) -> "UnknownBackend":
        """Return the error for a name that a caller gave."""
        known = sorted(known)
        alike = nearest(name, known, count=MOST_NEAREST)
        words = few_of(alike, known, LISTS_ALL)
        return cls(f"the release has no attention backend {quoted(name)}; {words}", alike)


@dataclass(frozen=True, slots=True)
class ConstructionFailure:
    """What a layer's constructor raises after its backend was chosen; the message is a template."""

    stage: Stage
    failure: EngineFailure


@dataclass(frozen=True, slots=True)
class Forced:
    """What the engine sets for a whole model before it chooses backends."""

    backend: str | None = None
    flash_attn_version: int | None = None


@dataclass(frozen=True, slots=True)
class RefusedBackend:
    """A refusal before a backend is chosen; the message is a template."""

    stage: Stage
    failure: EngineFailure
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Replacement:
    """One FlashAttention version gives way to another."""

    old: int
    new: int


@dataclass(frozen=True, slots=True)
class Traits:
    """What one backend supports in one release."""

    name: str
    mla: bool
    sparse: bool
    head_sizes: AnyOf
    dtypes: AnyOf
    kv_cache_dtypes: AnyOf
    mm_prefix: AnyOf
    sinks: AnyOf
    capabilities: AnyOf
    attn_types: AnyOf
    sliding_window: AnyOf
    context_parallel: AnyOf
    cache_dtypes: Rules[str]
    kernel_block_sizes: Rules[KernelBlockSizes]
    refusals: Rules[str]
    construction_failures: Rules[ConstructionFailure]
    run_failures: Rules[EngineFailure]
    setup_failures: Rules[EngineFailure]
    """How the builder of its metadata fails, which is made once the cache is sized."""
    no_decode_lse: Rules[str]
    """The implementation class, where it does not return the softmax LSE of a decode step."""
    unpacked_in_prompts: Rules[str]
    """Why its kernels for prompts unpack the cache in software, which takes longer; none if they do not."""
    layouts: Rules[tuple[str, ...]]
    packed_rows: Rules[int]
    indexes_kv_by_block_stride: bool
    nameless: bool
    known_as: str
    """Its name to the release, where another backend has the same; empty for its own."""
    plain_cache: bool


@dataclass(frozen=True, slots=True)
class ReleaseRules:
    """Everything that decides a layer's backend in one release."""

    backends: Mapping[str, Traits]
    multi_head_priorities: Rules[tuple[str, ...]]
    mla_priorities: Rules[tuple[str, ...]]
    selector_config: str
    attn_type_printed: str
    sink_reason: str
    no_decode_lse_message: str
    block_size_filters: bool
    mla_layers_skip: bool
    quantized_kv_cache_dtypes: frozenset[str]
    flash_attn_available: Rules[int]
    flash_attn_default: Rules[int]
    flash_attn_of_layer: Rules[Replacement]
    forced: Rules[Forced]
    forced_gemma4: Rules[Forced]
    refused_cache_dtypes: Rules[RefusedBackend]
    model_cache_dtypes: Mapping[str, Rules[str]]
    unselected: Mapping[str, Rules[str | RefusedBackend]]

    def traits(self, name: str) -> Traits:
        """Return what a backend supports.

        Raises:
            UnknownBackend: the release has no such backend, or none that is described here.
        """
        try:
            return self.backends[name]
        except KeyError:
            raise UnknownBackend.named(name, self.backends) from None


def _rules_of(
    parse_outcome: Callable[[Mapping[str, Any]], T],
) -> Callable[[Iterable[Mapping[str, Any]]], Rules[T]]:
    return lambda raw: tuple(OutcomeRule.parse(rule, parse_outcome) for rule in raw)


def _kernel_block_sizes(raw: Mapping[str, Any]) -> KernelBlockSizes:
    return KernelBlockSizes(
        tuple(raw.get("fixed", ())), tuple(raw.get("multiples_of", ())), raw.get("preference")
    )


def _construction_failure(raw: Mapping[str, Any]) -> ConstructionFailure:
    return ConstructionFailure(Stage(raw["stage"]), EngineFailure(raw["type"], raw["message"]))


def _refused(raw: Mapping[str, Any]) -> RefusedBackend:
    return RefusedBackend(
        Stage(raw["stage"]), EngineFailure(raw["type"], raw["message"]), raw.get("detail", "")
    )


def _unselected(raw: Mapping[str, Any]) -> str | RefusedBackend:
    return str(raw["backend"]) if "backend" in raw else _refused(raw)


_ATTRIBUTES: Mapping[str, Callable[[Any], Any]] = {
    "head_sizes": AnyOf.parse,
    "dtypes": AnyOf.parse,
    "kv_cache_dtypes": AnyOf.parse,
    "mm_prefix": AnyOf.parse,
    "sinks": AnyOf.parse,
    "capabilities": AnyOf.parse,
    "attn_types": AnyOf.parse,
    "sliding_window": AnyOf.parse,
    "context_parallel": AnyOf.parse,
    "cache_dtypes": _rules_of(lambda raw: str(raw["cache_dtype"])),
    "kernel_block_sizes": _rules_of(_kernel_block_sizes),
    "refusals": _rules_of(lambda raw: str(raw["reason"])),
    "construction_failures": _rules_of(_construction_failure),
    "run_failures": _rules_of(lambda raw: EngineFailure(raw["type"], raw["message"])),
    "setup_failures": _rules_of(lambda raw: EngineFailure(raw["type"], raw["message"])),
    "no_decode_lse": _rules_of(lambda raw: str(raw["impl"])),
    "unpacked_in_prompts": _rules_of(lambda raw: str(raw["reason"])),
    "packed_rows": _rules_of(lambda raw: int(raw["rows"])),
    "layouts": _rules_of(lambda raw: tuple(raw["layouts"])),
    "indexes_kv_by_block_stride": bool,
    "nameless": bool,
    "known_as": str,
    "plain_cache": bool,
}


@dataclass(frozen=True, slots=True)
class _DatedBackend:
    """One backend's own timelines; an attribute without one, or before its first date, is the base's."""

    name: str
    since: Version
    mla: bool
    sparse: bool
    own: Mapping[str, Timeline[Any]]

    @classmethod
    def parse(cls, name: str, raw: Mapping[str, Any]) -> "_DatedBackend":
        if unknown := sorted(raw.keys() - _ATTRIBUTES.keys() - {"since", "mla", "sparse"}):
            raise InvalidTimeline(f"backends.{name}: unknown keys {unknown}")
        if "since" not in raw:
            raise InvalidTimeline(f"backends.{name}: no key since")
        own = {
            attribute: Timeline.parse(f"backends.{name}.{attribute}", raw[attribute], parse)
            for attribute, parse in _ATTRIBUTES.items()
            if attribute in raw
        }
        return cls(name, Version(raw["since"]), raw.get("mla", False), raw.get("sparse", False), own)

    def at(self, release: Version, base: Mapping[str, Any]) -> Traits:
        own = {
            attribute: timeline.at(release)
            for attribute, timeline in self.own.items()
            if timeline.changes[0].since <= release
        }
        return Traits(self.name, self.mla, self.sparse, **{**base, **own})


@cache
def _bundled() -> Mapping[str, Any]:
    merged: dict[str, Any] = {"backends": {}}
    for name in _FILES:
        raw = read_toml("service.backends", name)
        merged["backends"].update(raw.pop("backends", {}))
        merged.update(raw)
    return merged


@cache
def _dated_backends() -> tuple[_DatedBackend, ...]:
    return tuple(_DatedBackend.parse(name, raw) for name, raw in _bundled()["backends"].items())


def backends_since() -> Mapping[str, Version]:
    """Return the first release of each backend, the oldest first."""
    return {each.name: each.since for each in sorted(_dated_backends(), key=lambda each: each.since)}


def _at(release: Version, path: str, parse: Callable[[Any], T]) -> T:
    raw: Any = _bundled()
    for key in path.split("."):
        raw = raw[key]
    return Timeline.parse(path, raw, parse).at(release)


def _all_at(release: Version, table: str, parse: Callable[[Any], T]) -> Mapping[str, T]:
    """Return the rules of a table's timelines, but for those of what the release does not know."""
    timelines = (
        (name, Timeline.parse(f"{table}.{name}", raw, parse)) for name, raw in _bundled()[table].items()
    )
    return {
        name: timeline.at(release) for name, timeline in timelines if timeline.changes[0].since <= release
    }


@cache
def _changes(name: str, annotation: object) -> Timeline[Any]:
    """Return the timeline of a table of dated changes, its values of the annotated type."""
    return read_timeline(name, _bundled()[name], annotation)


def _selector_config(release: Version) -> str:
    """Return the template by which a refusal prints the request."""
    parts: tuple[str, ...] = _changes("selector_config", tuple[str, ...]).at(release)
    frame: str = _changes("selector_config_frame", str).at(release)
    return frame.replace("{parts}", ", ".join(parts))


@lru_cache(maxsize=64)
def release_rules(release: Version) -> ReleaseRules:
    """Return the rules of one release.

    Raises:
        LookupError: the release is older than the first one described.
    """
    base = {attribute: _at(release, f"base.{attribute}", parse) for attribute, parse in _ATTRIBUTES.items()}
    backends = {
        backend.name: backend.at(release, base) for backend in _dated_backends() if backend.since <= release
    }
    names = _rules_of(lambda raw: tuple(raw["backends"]))
    version = _rules_of(lambda raw: int(raw["version"]))
    replacement = _rules_of(lambda raw: Replacement(raw["from"], raw["to"]))
    forced = _rules_of(lambda raw: Forced(**raw))
    return ReleaseRules(
        backends=backends,
        multi_head_priorities=_at(release, "priorities.multi_head", names),
        mla_priorities=_at(release, "priorities.mla", names),
        selector_config=_selector_config(release),
        attn_type_printed=_at(release, "attn_type_printed", str),
        sink_reason=_at(release, "sink_reason", str),
        no_decode_lse_message=_changes("no_decode_lse_message", str).at(release),
        block_size_filters=_at(release, "block_size_filters", bool),
        mla_layers_skip=_at(release, "mla_layers_skip", bool),
        quantized_kv_cache_dtypes=_changes("quantized_kv_cache_dtypes", frozenset[str]).at(release),
        flash_attn_available=_at(release, "flash_attention.available", version),
        flash_attn_default=_at(release, "flash_attention.default", version),
        flash_attn_of_layer=_at(release, "flash_attention.of_layer", replacement),
        forced=_at(release, "forced.any", forced),
        forced_gemma4=_at(release, "forced.gemma4", forced),
        refused_cache_dtypes=_at(release, "refused_cache_dtypes", _rules_of(_refused)),
        model_cache_dtypes=_all_at(
            release, "model_cache_dtypes", _rules_of(lambda raw: str(raw["cache_dtype"]))
        ),
        unselected=_all_at(release, "unselected", _rules_of(_unselected)),
    )


@lru_cache(maxsize=256)
def rules_on_gpu(release: Version, capability: ComputeCapability) -> ReleaseRules:
    """Return the rules of one release with their conditions on the GPU evaluated, once for all layers.

    Raises:
        LookupError: the release is older than the first one described.
    """
    rules = release_rules(release)
    parts = {field.name: _on(getattr(rules, field.name), capability) for field in fields(rules)}
    return ReleaseRules(**{**parts, "backends": _BackendsOnGpu(rules.backends, capability)})


class _BackendsOnGpu(Mapping[str, Traits]):
    """Backends with their conditions on the GPU evaluated, each at its first use."""

    def __init__(self, backends: Mapping[str, Traits], capability: ComputeCapability) -> None:
        self._backends, self._capability = backends, capability
        self._decided: dict[str, Traits] = {}

    def __getitem__(self, name: str) -> Traits:
        found = self._decided.get(name)
        if found is None:
            traits, capability = self._backends[name], self._capability
            parts = {field.name: _on(getattr(traits, field.name), capability) for field in fields(traits)}
            found = self._decided[name] = Traits(**parts)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._backends)

    def __len__(self) -> int:
        return len(self._backends)


def _on(part: Any, capability: ComputeCapability) -> Any:  # noqa: ANN401 - any part of the rules
    match part:
        case AnyOf():
            return part.on(capability)
        case (OutcomeRule(), *_):
            return rules_on(part, capability)
        case Mapping():
            return {name: _on(value, capability) for name, value in part.items()}
        case _:
            return part
