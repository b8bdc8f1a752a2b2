"""Rows that real releases answered, and how ours compare with them."""

import gzip
import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from service.advisor.candidates.engine_start import Start
from service.advisor.dry_runs.dry_run import dry_start
from service.architecture.config import InvalidConfig, read_document
from service.architecture.draft_reading import read_draft_checkpoint
from service.architecture.model import ModelArchitecture
from service.architecture.reading import UnknownArchitecture, read_architecture, with_modelopt_file
from service.backends.assignment import layers_by_backend
from service.engine_config.speculation import UnmodelledSpeculation
from service.engines.engine_rules import EngineRules
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal
from service.engines.releases import UnknownRelease, find_release, rules_for
from service.engines.speculative_config import SpeculativeConfig
from service.gpus.catalog import find_gpu
from service.gpus.gpu_type import GpuType
from service.hub.bundled.snapshot import BundledSnapshot
from service.kv_cache.capacity import size_cache
from service.kv_cache.kv_cache import CacheGroup, KvCache
from service.kv_cache.packing import bytes_per_block

GPU_OF_CAPABILITY = {
    "7.5": "t4-16gb",
    "8.0": "a100-sxm-80gb",
    "8.6": "a10g-24gb",
    "8.9": "l40s-48gb",
    "9.0": "h100-sxm-80gb",
    "10.0": "b200-180gb",
    "12.0": "rtx-pro-6000-blackwell-server-96gb",
}
"""A GPU of the memory class that the oracle took for each compute capability."""

ARTEFACTS: dict[str, str] = tomllib.loads(Path(__file__).with_name("causes.toml").read_text("utf-8"))[
    "artefacts"
]

TRIMMED: Final = {
    "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8": "FP8",
    "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4": "NVFP4",
    "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-FP8": "FP8",
    "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-NVFP4": "NVFP4",
}
"""Models whose hf_quant_config.json was a trimmed copy when the releases were asked, by its quant_algo."""
REPAIRED: Final[Mapping[str, Mapping[str, Any]]] = {
    "Qwen/Qwen2.5-32B-Instruct": {"max_position_embeddings": 131_072},
}
"""Models whose copy was changed by others when the releases were asked, by the values that it had."""

WHOLE: Final = BundledSnapshot(withheld={})
"""With the models that are not planned: the releases were asked about their copies too."""


@dataclass(frozen=True)
class Verdict:
    """One row: what the engine said, what we said, and the first field that differs."""

    row: Mapping[str, Any]
    difference: str | None
    """``None`` when all agrees."""
    family: str
    cause: str | None = None
    """Why it cannot agree, where that is known."""


def read_rows(source: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of one file, or of every release's file in a folder."""
    paths = sorted(source.glob("cases-*.jsonl")) if source.is_dir() else [source]
    for path in paths:
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt", encoding="utf-8") as lines:
            yield from map(json.loads, lines)


@cache
def architecture_of(folder: Path) -> ModelArchitecture:
    """Read a model's folder: its config, and ModelOpt's own file where the config names no quantization."""
    document = json.loads((folder / "config.json").read_bytes())
    modelopt = folder / "hf_quant_config.json"
    quantization = json.loads(modelopt.read_bytes()) if modelopt.exists() else None
    return read_architecture(read_document(with_modelopt_file(document, quantization)))


@cache
def asked_architecture(model_id: str) -> ModelArchitecture:
    """Read a bundled model as the releases were asked about it: from the copies that there were."""
    fetched = WHOLE.get(model_id)
    trimmed = TRIMMED.get(model_id)
    if fetched is not None and model_id in REPAIRED:
        return read_architecture(read_document({**fetched.config, **REPAIRED[model_id]}))
    if fetched is None or trimmed is None:
        return bundled_architecture(model_id)
    section = {"quantization": {"quant_algo": trimmed, "kv_cache_quant_algo": "FP8"}}
    return read_architecture(read_document(with_modelopt_file(fetched.config, section)))


@cache
def bundled_architecture(model_id: str) -> ModelArchitecture:
    """Read a model of the bundled snapshot."""
    fetched = WHOLE.get(model_id)
    if fetched is None:
        raise LookupError(model_id)
    return read_architecture(read_document(with_modelopt_file(fetched.config, fetched.quantization_config)))


def flags_of(row: Mapping[str, Any]) -> ServeFlags:
    """Return the flags of a row."""
    speculation = row["serve"].get("speculative_config")
    parsed = None if speculation is None else SpeculativeConfig.parse(speculation)
    return ServeFlags(**{**row["serve"], "speculative_config": parsed})


@cache
def with_draft(architecture: ModelArchitecture, draft_id: str, folder: Path) -> ModelArchitecture:
    """Return a model with the config of a draft beside it."""
    document = json.loads((folder / draft_id / "config.json").read_bytes())
    checkpoint = read_draft_checkpoint(draft_id, read_document(document))
    return replace(architecture, drafts=replace(architecture.drafts, checkpoint=checkpoint))


def gpu_of(row: Mapping[str, Any]) -> GpuType:
    """Return a GPU of the row's compute capability."""
    return find_gpu(GPU_OF_CAPABILITY[row["gpu"]["compute_capability"]])


def judge(row: Mapping[str, Any], configs: Path | None) -> Verdict | None:
    """Compare one row; ``None`` when it is not ours to answer (yet)."""
    if row["expect"].get("error", {}).get("depends_on_transformers"):
        return None
    try:
        rules = rules_for(find_release(row["engine_version"]))
        name = row["config"]
        architecture = asked_architecture(name) if configs is None else architecture_of(configs / name)
        draft = row["serve"].get("speculative_config", {}).get("model")
        if draft is not None and configs is not None:
            architecture = with_draft(architecture, draft, configs)
        if architecture.class_name in rules.checkpoints.miscounted_layers:
            return None  # answered as uncertain
        found = difference(row, architecture, rules)
    except (UnknownRelease, UnknownArchitecture, InvalidConfig, UnmodelledSpeculation):
        return None
    cause = found and (ARTEFACTS.get(row["id"]) or untold_draft(row, architecture, rules))
    return Verdict(row, found, architecture.class_name, cause)


def untold_draft(row: Mapping[str, Any], architecture: ModelArchitecture, rules: EngineRules) -> str | None:
    """Describe how a row was asked with a draft that its flags do not mention; ``None`` if it was not."""
    words = untold_layers(row, architecture, rules)
    return words and f"{words}{_agreement(row, architecture, rules)}"


def untold_layers(row: Mapping[str, Any], architecture: ModelArchitecture, rules: EngineRules) -> str | None:
    """Recognize rows of a start with a draft model that their flags do not mention, by their caches."""
    if "speculative_config" in row["serve"]:
        return None
    built = sum(spec["layers"] for rank in row["expect"].get("layer_specs", ()) for spec in rank)
    try:
        start = dry_start(architecture, ServeFlags(**row["serve"]), rules, gpu_of(row))
    except EngineRefusal:
        return None
    ours = sum(layers.count for stage in start.layout.layers for layers in stage)
    if built <= ours:
        return None
    return (
        f"the row has {built} caches, its config {ours}: it was run with a draft (MTP) layer that its flags "
        "do not mention"
    )


def _agreement(row: Mapping[str, Any], architecture: ModelArchitecture, rules: EngineRules) -> str:
    """Say whether a row agrees once its flags mention one guess of the model's own prediction layer."""
    speculative = {"speculative_config": {"method": "mtp", "num_speculative_tokens": 1}}
    drafted = {**row, "serve": {**row["serve"], **speculative}}
    try:
        return " and agrees in every field" if difference(drafted, architecture, rules) is None else ""
    except UnmodelledSpeculation:
        return ""


def difference(row: Mapping[str, Any], architecture: ModelArchitecture, rules: EngineRules) -> str | None:
    """Return the first field in which a row and our answer differ, or ``None``."""
    expected, flags = row["expect"], flags_of(row)
    try:
        start = dry_start(architecture, flags, rules, gpu_of(row))
        cache_ = size_cache(start.layout, start.engine_config, row["serve"]["kv_cache_memory_bytes"])
    except EngineRefusal as refusal:
        return _refusal_difference(expected, refusal)
    if not expected["starts"]:
        error = expected["error"]
        return f"starts, but the engine says {error['stage']}: {error['type']} {error['message'][:120]!r}"
    return _backend_difference(expected, start) or _cache_difference(
        expected, cache_, _bytes_of_first_stage(start)
    )


def _backend_difference(expected: Mapping[str, Any], start: Start) -> str | None:
    # Backends without a name in the release stand in the rows as the error that asking for it raised.
    theirs = {n: c for n, c in expected["attention_backends"].items() if not n.startswith("error")}
    counts = layers_by_backend(start.architecture, start.engine_config, start.backends)
    ours = {name: count for name, count in counts.items() if name}
    return None if theirs == ours else f"attention_backends: {theirs} != {ours}"


def _refusal_difference(expected: Mapping[str, Any], refusal: EngineRefusal) -> str | None:
    if expected["starts"]:
        return f"refused ({refusal.stage}: {str(refusal)[:150]!r}), but the engine starts"
    error = expected["error"]
    if (error["type"], error["stage"]) != (refusal.type, refusal.stage):
        return f"{error['stage']}/{error['type']} {error['message'][:90]!r} != {refusal.stage}/{refusal.type}"
    return None


def _bytes_of_first_stage(start: Start) -> int:
    """Return the bytes of one block id where the rows count them."""
    return bytes_per_block(start.layout.stages[0], start.engine_config.rules.pages.packed_block_bytes)


def _cache_difference(expected: Mapping[str, Any], cache_: KvCache, first_stage_bytes: int) -> str | None:
    pairs = {
        "groups": (_group_facts(expected["groups"]), _our_facts(cache_.groups)),
        "num_blocks": (expected["num_blocks"], cache_.num_blocks),
        "tokens": (expected["tokens"], cache_.tokens),
        "max_concurrency": (expected.get("max_concurrency"), cache_.max_concurrency),
        "logged_concurrency": (expected["logged_concurrency"], f"{cache_.max_concurrency:.2f}"),
        "bytes_per_block": (expected.get("bytes_per_block"), first_stage_bytes),
    }
    for field, (theirs, ours) in pairs.items():
        if theirs is not None and theirs != ours:
            return f"{field}: {theirs} != {ours}"
    return None


def _group_facts(groups: list[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
    return [(g["kind"], g["layers"], g["block_size"], g["page_size_bytes"]) for g in groups]


def _our_facts(groups: tuple[CacheGroup, ...]) -> list[tuple[Any, ...]]:
    return [(str(g.kind), g.layers, g.block_size, g.page_size_bytes) for g in groups]
