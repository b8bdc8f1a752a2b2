"""From a row to a start that can be planned: only what was told, and what that leaves open."""

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from packaging.version import Version

from service.engines.flags import ServeFlags
from service.engines.json_object import JsonObject
from service.engines.releases import RELEASES
from service.gpus.catalog import find_gpu
from service.gpus.gpu_type import GpuType, inline_gpu
from service.units import GIB, MIB
from tests.accuracy.startups_models import KnownModel, NoConfig, find_model, with_draft
from tests.accuracy.startups_rows import DATA, Row
from tests.accuracy.startups_speculation import UntoldSpeculation, read_speculation

HALF_DIGIT = 0.005
"""GiB: logs round to two digits."""
_READINGS: Mapping[str, Any] = tomllib.loads((DATA / "readings.toml").read_text("utf-8"))
_GPUS: Mapping[str, Any] = tomllib.loads((DATA / "gpus.toml").read_text("utf-8"))
_RELEASE = re.compile(r"v?(0\.\d+(?:\.\d+(?:(?:rc|\.dev|\.post|-)?\d*\S*))?)(?: \(.*\))?")
_VARIABLE = re.compile(r"\b(VLLM_[A-Z0-9_]+|PYTORCH(?:_CUDA)?_ALLOC_CONF)=([^\s;'\")}]+)")
_COMPILED = re.compile(
    r"(?<!nothing was )compiled before|compiled (?:graph|model) was (?:cached|in the cache)"
)
_WINDOWS = re.compile(r"\b(?:WSL2?|Windows)\b")
_OLDEST = Version("0.11.0")
"""The oldest that a row can have where it does not tell its release."""
_OLDEST_TOLD = Version("0.10.2")
_OLDEST_DAY = "2025-10-02"
"""The day of 0.11.0: what started before ran an older release."""


class NotScored(Exception):
    """The row cannot be compared, and why."""


@dataclass(frozen=True, slots=True)
class Logged:
    """What the engine said."""

    weights_gib: float | None
    available_gib: float | None
    tokens: int | None
    concurrency: float | None
    concurrency_len: int | None
    failure: str | None
    """Type of the error; ``None`` for a start that succeeded."""
    activation_gib: float | None
    non_torch_gib: float | None
    graph_estimate_gib: float | None
    graphs_gib: float | None
    """What capturing graphs took."""


@dataclass(frozen=True, slots=True)
class Startup:
    """One start as far as it was told."""

    id: str
    source: str
    known: KnownModel
    releases: tuple[Version, ...]
    """The one that was told (of a build between two, both), or every modelled one in scope."""
    release_told: bool
    gpus: tuple[GpuType, ...]
    """The types that the name can mean, or one of each compute capability."""
    gpu_specified: bool
    flags: ServeFlags
    utilization_told: bool
    length_told: bool
    free_bytes: int | None
    """Free on each GPU when the engine started."""
    compiled_before: bool
    """The log, or its author, says that the compiled model was in the cache."""
    logged: Logged
    half_digit_gib: float
    """Half of the last digit to which the memory for the cache is given."""
    cause: str | None
    """Why it cannot agree, or which rule is missing, where a reader found out."""

    @property
    def modelled(self) -> bool:
        """Whether the release is one that the service plans."""
        return any(release in RELEASES for release in self.releases)


def read_startup(row: Row) -> Startup:
    """Return the start that a row tells of.

    Raises:
        NotScored: it is not ours to plan, or too little was told.
    """
    _check(row)
    try:
        known = find_model(row["model"])
    except NoConfig as error:
        raise NotScored(str(error)) from error
    specified = str(row.get("other_flags") or "")
    releases = _releases(row)
    gpus = _gpus(row)
    flags = _flags({**row, **_READINGS["told"].get(row["id"], {})}, specified)
    if flags.speculative_config is not None and flags.speculative_config.model is not None:
        known = with_draft(known, flags.speculative_config.model)
    if "LLM(" in specified and flags.max_num_batched_tokens is None:
        flags = replace(flags, max_num_batched_tokens=_offline_batch(gpus))
    if "AsyncEngineArgs(" in specified:
        flags = _of_an_engine_alone(flags)
    whole = row["id"] in _READINGS["whole"] or re.search(r"\bvllm (serve|bench)\b", specified) is not None
    return Startup(
        id=row["id"],
        source=row["source"],
        known=known,
        releases=releases or tuple(release for release in RELEASES if release >= _OLDEST),
        release_told=bool(releases),
        gpus=gpus or tuple(map(find_gpu, _GPUS["any"])),
        gpu_specified=bool(gpus),
        flags=flags,
        utilization_told=whole or flags.gpu_memory_utilization is not None,
        length_told=whole or flags.max_model_len is not None,
        free_bytes=None if row.get("initial_free_gib") is None else round(row["initial_free_gib"] * GIB),
        compiled_before=_COMPILED.search(str(row.get("notes"))) is not None,
        logged=_logged(row),
        half_digit_gib=_READINGS["half_digits"].get(row["id"], HALF_DIGIT),
        cause=_READINGS["causes"].get(row["id"]),
    )


def _offline_batch(gpus: tuple[GpuType, ...]) -> int:
    """Return the default batch of the offline class: vLLM 0.22.0, engine/arg_utils.py get_batch_defaults."""
    large = bool(gpus) and all(
        gpu.memory_bytes >= 70 * GIB and "a100" not in gpu.name.lower() for gpu in gpus
    )
    return 16384 if large else 8192


def _of_an_engine_alone(flags: ServeFlags) -> ServeFlags:
    """Return the flags with the defaults of an engine that a program holds without a server.

    Source: vLLM 0.10.2 to 0.32.0, AsyncLLM.from_engine_args (ENGINE_CONTEXT, for which get_batch_defaults has
    no value) and config/scheduler.py DEFAULT_MAX_NUM_SEQS, DEFAULT_MAX_NUM_BATCHED_TOKENS.
    """
    return replace(
        flags,
        max_num_seqs=flags.max_num_seqs or 128,
        max_num_batched_tokens=flags.max_num_batched_tokens or 2048,
    )


def _check(row: Row) -> None:
    specified = f"{row.get('other_flags')} {row.get('model')}"
    reasons = {
        "a fork, or no CUDA GPU": row["non_upstream_or_non_gpu"],
        "possibly the same start as another row": row.get("possible_duplicate_of"),
        "no model told": not row.get("model"),
        "LoRA adapters are not modelled": "LoRA" in specified,
        "a hand-made pipeline partition is not modelled": "VLLM_PP_LAYER_PARTITION" in specified,
        "a config overridden on the command line": re.search(r"hf[-_]overrides", specified),
        "weights offloaded to the host": re.search(r"cpu[-_]offload|PLE CPU", specified),
        "a connector changes the cache": "kv-transfer-config" in specified or "kv-offloading" in specified,
        "profiling of media was switched off": "skip-mm-profiling" in specified,
    }
    dropped = _READINGS["dropped"].get(row["id"])
    if dropped:
        raise NotScored(f"dropped: {dropped}")
    for reason, holds in reasons.items():
        if holds:
            raise NotScored(reason)


def _releases(row: Row) -> tuple[Version, ...]:
    specified = str(row.get("vllm_version") or "")
    minor = re.match(r"v?0\.(\d+)\b(?!\.dev)", specified)
    match = _RELEASE.fullmatch(specified)
    older = minor is not None and int(minor[1]) < _OLDEST.minor
    if older and not specified.removeprefix("v").startswith(str(_OLDEST_TOLD)):
        raise NotScored("older than the oldest dated rules")
    if match is None:
        date = row.get("date")
        if date is not None and date < _OLDEST_DAY:
            raise NotScored("older than the oldest dated rules (by its day)")
        return ()
    text = re.split(r"rc|\.dev|-", match[1])[0]
    release = Version(Version(text).base_version)
    # A build of the main branch is named after the patch it never became, and leads to the next minor; so
    # does one that a vendor names after the last release and its own commit ("0.21.0+2325b6f0.dev").
    named, _, commit = match[1].partition("+")
    between = ("dev" in named and release.micro > 0) or commit.endswith(".dev")
    return (release, Version(f"{release.major}.{release.minor + 1}.0")) if between else (release,)


def _gpus(row: Row) -> tuple[GpuType, ...]:
    name, size = row.get("gpu"), row.get("gpu_mem_gb")
    total = row.get("total_gpu_memory_gib")
    if not name:
        return _of_size(total) if total else ()
    for entry in _GPUS["gpus"]:
        if re.search(entry["pattern"], name, re.IGNORECASE) and entry.get("gb", size) == size:
            if "refused" in entry:
                raise NotScored(entry["refused"])
            types = tuple(map(find_gpu, entry["types"]))
            return tuple(map(_under_windows, types)) if _WINDOWS.search(str(row.get("notes"))) else types
    return ()


def _under_windows(gpu: GpuType) -> GpuType:
    """Return a GPU with the total that CUDA sees under Windows and WSL2: the driver's less 1 MiB.

    Source: the variants in service/gpus/gpus.toml.
    """
    if gpu.driver_total_mib is None:
        return gpu
    total = (gpu.driver_total_mib - 1) * MIB
    return replace(gpu, memory_bytes=total, memory_low_bytes=total, memory_high_bytes=total)


def _of_size(total_gib: float) -> tuple[GpuType, ...]:
    """Return a GPU of each compute capability with the total that the engine printed."""
    capabilities = [capability for gpu in _GPUS["any"] if (capability := find_gpu(gpu).compute_capability)]
    return tuple(inline_gpu("not told", round(total_gib * GIB), each) for each in capabilities)


def _logged(row: Row) -> Logged:
    failure = None
    if row["status"] != "ok":
        failure = row.get("error_type") or "untold"
    return Logged(
        weights_gib=row.get("model_loading_gib"),
        available_gib=row.get("available_kv_gib"),
        tokens=row.get("kv_cache_tokens"),
        concurrency=row.get("max_concurrency"),
        concurrency_len=row.get("max_concurrency_len"),
        failure=failure,
        activation_gib=row.get("peak_activation_gib"),
        non_torch_gib=row.get("non_torch_gib"),
        graph_estimate_gib=row.get("cuda_graph_estimate_gib"),
        graphs_gib=row.get("cuda_graph_gib"),
    )


def foreseeable(failure: str) -> bool:
    """Whether a plan can foresee an error of this type."""
    return failure in _READINGS["failures"]["foreseeable"]


_NUMBERS: Mapping[str, Callable[[str], float]] = {
    "max_model_len": int,
    "gpu_memory_utilization": float,
    "max_num_batched_tokens": int,
    "max_num_seqs": int,
    "kv_cache_memory_bytes": int,
    "tensor_parallel_size": int,
    "pipeline_parallel_size": int,
    "data_parallel_size": int,
    "decode_context_parallel_size": int,
    "block_size": int,
    "max_cudagraph_capture_size": int,
    "max_loras": int,
    "max_lora_rank": int,
}
_WORDS = (
    "dtype",
    "mamba_cache_mode",
    "mamba_cache_dtype",
    "mamba_ssm_cache_dtype",
    "kv_cache_dtype",
    "moe_backend",
)
_SWITCHES = ("enforce_eager", "enable_expert_parallel", "language_model_only", "enable_lora")


def _specified(text: str, name: str) -> str | None:
    """Return the value that a command, a dictionary or a list of settings gives to a flag."""
    spelt = name.replace("_", "[-_]")
    found = re.search(rf"(?<![\w-])(?:--)?'?{spelt}'?\s*[=: ]\s*'?([\w.]+)", text)
    return found[1] if found else None


def _flags(row: Row, text: str) -> ServeFlags:
    values: dict[str, Any] = {**_numbers(row, text), **_switches(row, text)}
    for name in _WORDS:
        spelt = row.get(name) or _specified(text, name)
        if spelt:
            values[name] = _word(str(spelt))
    online = re.search(r"quantization'?[ :]+'?(fp8|bitsandbytes)\b", text)
    if online and row.get("checkpoint_quant") not in {"fp8", "FP8"}:
        values["quantization"] = online[1]
    values["environment"] = tuple(_VARIABLE.findall(f"{text} {row.get('notes')}"))
    values["limit_mm_per_prompt"] = _media_limits(text)
    backend = _specified(text, "attention_backend")
    values["attention_backend"] = backend and backend.upper()
    values.setdefault("max_model_len", row.get("max_concurrency_len"))
    values.setdefault("kv_cache_dtype", "auto")
    try:
        values["speculative_config"] = read_speculation(row.get("speculative_config"))
    except UntoldSpeculation as error:
        raise NotScored(f"speculative decoding: {error}") from error
    return _with_ranks(ServeFlags(**values), row, text)


def _media_limits(text: str) -> JsonObject | None:
    """Return how many items of each modality a prompt may have, as an object or in pairs."""
    given = re.search(r"limit[-_]mm[-_]per[-_]prompt'?[=: ]+(\{[^}]*\}|\w+=[\w=,]+)", text)
    if given is None:
        return None
    pairs = re.findall(r"(\w+)['\"]?\s*[=:]\s*(\d+)", given[1])
    return JsonObject.of({modality: int(count) for modality, count in pairs})


def _numbers(row: Row, text: str) -> dict[str, float]:
    values = {}
    for name, parse in _NUMBERS.items():
        given = row.get(name)
        spelt = _specified(text, name)
        if given is None and spelt is not None and re.fullmatch(r"[\d._]+", spelt):
            given = parse(spelt)
        if given is not None:
            values[name] = given
    return values


def _switches(row: Row, text: str) -> dict[str, bool]:
    values = {
        name: True
        for name in _SWITCHES
        if row.get(name) or re.search(rf"--{name.replace('_', '[-_]')}\b(?! *=? *false)", text)
    }
    if "enable_prefix_caching" in row:
        values["enable_prefix_caching"] = row["enable_prefix_caching"]
    elif re.search(r"enable[-_]prefix[-_]caching", text):
        values["enable_prefix_caching"] = not re.search(
            r"no[-_]enable[-_]prefix|caching\W+false", text, re.IGNORECASE
        )
    return values


def _with_ranks(flags: ServeFlags, row: Row, text: str) -> ServeFlags:
    if flags.tensor_parallel_size is not None:
        return flags
    ranks = row.get("num_gpus")
    if ranks == 1 or (ranks is None and re.search(r"\bvllm serve\b", text)):
        return replace(flags, tensor_parallel_size=1)
    raise NotScored("number of ranks not told")


def _word(spelt: str) -> str:
    first = re.split(r"[ (]", spelt)[0].lower()
    return {"bf16": "bfloat16", "fp16": "float16"}.get(first, first)
