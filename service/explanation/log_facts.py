"""The facts that a log contains about its start, as fields of a plan request."""

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from packaging.version import InvalidVersion, Version

from service.engines.releases import RELEASES, UnknownRelease, names_own_commit, resolve_release, rules_for
from service.explanation.explanation_types import Assumption
from service.gpus.gpu_type import GpuType
from service.gpus.names import gpus_named
from service.startup_log.log import StartupLog
from service.units import GIB

_SIZED: Final = re.compile(r"(?P<name>.{1,80}?)(?: (?P<size>\d{2,3})GB)?")
"""The name of a card as a person writes it, with its memory."""
_EDITION: Final = re.compile(r"(?i)^RTX[ -]?(\d{4}) PRO\b")
_WITH_HYPHEN: Final = re.compile(r"-(\d{2,3})GB?$")
ROUNDED: Final = 0.08
"""Share by which the memory that a person writes differs from a card's at most."""
_SPACED: Final = re.compile(r"(?i)\b(rtx|gtx)[ _-]?(?=\d)")
"""People write the family of a card and its number with and without a blank."""
STAND_IN: Final = "h100-sxm-80gb"
"""The GPU type that is planned where none is given: nothing that depends on its memory is compared."""
HALF_DIGIT: Final = 0.005
"""GiB: logs round to two digits."""
FIRST_WITH_FA3: Final = 9
"""Major compute capability of GPUs with FlashAttention 3; no other GPU logs that version."""
FLASH_ATTENTION_3: Final = 3.0
QUANTIZATION: Final = "quantization"
"""The flag that names the method of quantization."""
NOT_NAMED: Final = "the log does not name the release"
UNTAGGED: Final = (0, 1)
"""Number of a build from a checkout without tags: setuptools_scm writes ``0.1.dev1+g...``."""
RESOLVED: Final = ("max_num_batched_tokens", "max_num_seqs")
"""Flags whose defaults depend on the GPU and on whether the engine serves; the log's values replace them."""
OF_READINGS: Final = ("max_model_len", "max_num_batched_tokens", "max_num_seqs", "gpu_memory_utilization")
"""Flags whose final values the engine logs in separate sentences."""


def release_of(log: StartupLog) -> tuple[str, tuple[Assumption, ...]]:
    """Return the release to plan with, and what was assumed to choose it.

    Raises:
        UnknownRelease: the log names a release that is not modelled.
    """
    if log.release is not None and not (log.around.release and not _is_version(log.release)):
        return _named_release(log.release, log.releases)
    if log.around.release is not None and not log.releases:
        return _specified_beside_log(log.around.release)
    if log.releases:
        release = str(log.releases[-1])
        others = ", ".join(map(str, log.releases[:-1]))
        why = f"the log's lines come from source lines of {release}" + (f" and of {others}" if others else "")
        return release, (Assumption("engine.version", release, why),)
    newest = str(RELEASES[-1])
    return newest, (Assumption("engine.version", newest, NOT_NAMED),)


def _is_version(specified: str) -> bool:
    """Whether a log's word for its release is one: a build from a checkout without tags says `dev`."""
    try:
        Version(specified.removeprefix("v"))
    except InvalidVersion:
        return False
    return True


def nearest_release(specified: str) -> str:
    """Return the modelled release to plan for one that is not: the last before it, or else the first.

    A text that is no version, and a build without tags (``0.1.dev1``), get the newest.
    """
    try:
        version = Version(specified.removeprefix("v"))
    except InvalidVersion:
        return str(RELEASES[-1])
    if version.is_devrelease and version.release[:2] == UNTAGGED:
        return str(RELEASES[-1])
    return str(max((release for release in RELEASES if release <= version), default=RELEASES[0]))


def _specified_beside_log(specified: str) -> tuple[str, tuple[Assumption, ...]]:
    """Return the release of a text that names one beside the engine's own lines."""
    release, assumed = _named_release(specified, ())
    if assumed:
        return release, assumed
    return release, (Assumption("engine.version", release, f"the text says vLLM {specified}", certain=True),)


def _named_release(specified: str, found: tuple[Version, ...]) -> tuple[str, tuple[Assumption, ...]]:
    try:
        version = Version(specified.removeprefix("v"))
    except InvalidVersion as error:
        raise UnknownRelease(specified) from error
    base, of_vendor = Version(version.base_version), names_own_commit(version)
    if not (version.is_prerelease or version.is_devrelease or of_vendor):
        resolved = resolve_release(specified)
        if resolved.release == base:
            return str(resolved.release), ()
        return str(resolved.release), (Assumption("engine.version", str(resolved.release), resolved.doubt),)
    if found:
        # A build comes from before the release that it leads to: of those that fit, the first that is newer.
        newer = [release for release in found if release > base or (of_vendor and release == base)]
        release = newer[0] if newer else found[-1]
    elif version.micro > 0 and version.is_devrelease:
        # A build of the main branch has the number of an unreleased patch; it precedes the next minor.
        release = resolve_release(f"{version.major}.{version.minor + 1}.0").release
    else:
        release = resolve_release(version.base_version).release
    why = f"the log is from {specified}, a build between releases"
    return str(release), (Assumption("engine.version", str(release), why),)


def gpus_of(log: StartupLog, types: Iterable[GpuType]) -> tuple[GpuType, ...]:
    """Return the GPU types from which the log can be, the likeliest first; none if it does not say."""
    known = tuple(gpu for gpu in types if gpu.modelled)
    total = log.number("total_gib")
    for names in (tuple(filter(None, (log.word("gpu_name"),))), log.around.gpus, log.around.mentioned):
        if named := _named_in(log, names, known):
            fitting = tuple(gpu for gpu in named if _has_total(gpu, total) and _has_kernels(gpu, log))
            if fitting or names != log.around.mentioned:
                return _likeliest(fitting or named, total)
    if total is None:
        return ()
    return _likeliest((gpu for gpu in known if _has_total(gpu, total) and _has_kernels(gpu, log)), total)


def _named_in(log: StartupLog, names: Sequence[str], known: Sequence[GpuType]) -> Sequence[GpuType]:
    """Return the types that these names of a log mean: those that tools print, or those that people write."""
    if names is not log.around.mentioned:
        return [gpu for gpu in known if any(_is_named(gpu, name) for name in names)]
    written = [_SIZED.fullmatch(_ordered(name)) for name in names]
    exact = [(gpu, each) for gpu in known for each in written if each and _is_named(gpu, each["name"])]
    fitting = [gpu for gpu, each in exact if each["size"] is None or _is_of_size(gpu, int(each["size"]))]
    sized = () if fitting else _of_sizes([each for each in written if each], known)
    return tuple(dict.fromkeys(fitting or sized or [gpu for gpu, _ in exact]))


def _of_sizes(names: Iterable[re.Match[str]], known: Sequence[GpuType]) -> Sequence[GpuType]:
    """Return the types that people mean by names with their memory or edition, if all have the same memory.

    A100 alone is a card of 40 or of 80 GB.
    """
    meant = (each[0] for each in names if each["size"] is not None or "PRO" in each["name"])
    found = [gpu for name in meant for gpu in gpus_named(name, known)]
    return found if len({gpu.memory_bytes >> 30 for gpu in found}) == 1 else ()


def _is_of_size(gpu: GpuType, size: int) -> bool:
    """Whether a type has the memory that a person writes, in GB or in GiB."""
    return abs(gpu.memory_bytes / GIB - size) <= ROUNDED * size


def _ordered(name: str) -> str:
    """Return the name of a card with its edition where its maker writes it, and its memory as people do."""
    return _WITH_HYPHEN.sub(r" \1GB", _EDITION.sub(r"RTX PRO \1", name))


def _likeliest(gpus: Iterable[GpuType], total: float | None) -> tuple[GpuType, ...]:
    wanted = 0 if total is None else round(total * GIB)
    return tuple(sorted(gpus, key=lambda gpu: abs(gpu.memory_bytes - wanted) if wanted else 0))


def own_gpu(log: StartupLog) -> tuple[dict[str, Any], str] | None:
    """Return a GPU of the logged total memory as one of the caller's own, and why; ``None`` without a total.

    Its compute capability is assumed: kernels of FlashAttention 3 run on 9.0 alone, all others on 8.0.
    """
    total = log.number("total_gib")
    mib = log.around.total_mib
    if total is None and mib is None:
        return None
    size = round(total * GIB) if total is not None else (mib or 0) << 20
    fa3 = log.number("flash_attention") == FLASH_ATTENTION_3
    names = [log.word("gpu_name"), *log.around.gpus]
    name = next((each for each in names if each), "GPU of the log")
    why = f"no known type has {size / GIB:.2f} GiB; its compute capability is assumed"
    capability = "9.0" if fa3 else "8.0"
    return {"name": name[:100], "memory_bytes": size, "compute_capability": capability}, why


def stand_in_for(log: StartupLog, types: Iterable[GpuType]) -> tuple[str, str]:
    """Return the GPU type that is planned where the log names none that is known, and what it says.

    One that computes the same is taken where the log says what the GPU can compute.
    """
    named = (*log.around.gpus, *log.around.mentioned)
    if (capability := log.around.capability) is not None:
        alike = (gpu for gpu in types if gpu.modelled and str(gpu.compute_capability) == capability)
        if (found := next(alike, None)) is not None:
            return found.id, f"the log says no more of the GPU than its compute capability, {capability}"
    if named:
        return STAND_IN, f"the log names {named[0][:60]}, which is no type that plans know"
    return STAND_IN, "the log does not say which GPU it is"


def _is_named(gpu: GpuType, name: str) -> bool:
    """Whether a printed or written name is that of a type: the whole name, or its last words."""
    wanted, known = _plain(name), _plain(gpu.name)
    return wanted == known or known.removeprefix("geforce ").removeprefix("tesla ") == wanted


def _plain(name: str) -> str:
    name = _SPACED.sub(r"\1 ", name)
    plain = name.replace("_", " ").removesuffix(".json").strip().removeprefix("NVIDIA ").lower()
    return plain.removesuffix(" gpu")


def _has_total(gpu: GpuType, total: float | None) -> bool:
    if total is None:
        return True
    return gpu.memory_low_bytes <= (total + HALF_DIGIT) * GIB and (total - HALF_DIGIT) * GIB <= (
        gpu.memory_high_bytes
    )


def _has_kernels(gpu: GpuType, log: StartupLog) -> bool:
    if log.number("flash_attention") != FLASH_ATTENTION_3 or gpu.compute_capability is None:
        return True
    return gpu.compute_capability.major == FIRST_WITH_FA3


def resolved_of(log: StartupLog) -> dict[str, int]:
    """Return the logged values of flags whose defaults the plan cannot know: no GPU is, or no server ran."""
    values = {name: log.number(name) for name in RESOLVED}
    return {name: int(value) for name, value in values.items() if value is not None and name not in log.flags}


def _taken_otherwise(log: StartupLog) -> dict[str, Any]:
    """Return a method of quantization as the engine resolved it, where no release lists the one given.

    A name of no release that a start took all the same is one of a plugin, or one that the engine replaced.
    """
    given, resolved = log.flags.get(QUANTIZATION), log.word("weight_quantization")
    if given is None or resolved in {None, "None"}:
        return {}
    listed = any(given in rules_for(release).checkpoints.quantization_methods for release in RELEASES)
    return {} if listed else {QUANTIZATION: resolved}


def flags_of(log: StartupLog) -> tuple[dict[str, Any], tuple[Assumption, ...]]:
    """Return the flags that the log contains, and the assumptions about the others."""
    flags: dict[str, Any] = {}
    assumed: list[Assumption] = []
    if not log.flags_logged:
        flags |= log.resolved
        for name in OF_READINGS:
            value = log.number(name)
            if value is not None:
                flags[name] = value if name == "gpu_memory_utilization" else int(value)
        length = log.number("max_concurrency_len")
        if length is not None:
            flags["max_model_len"] = int(length)
        if not log.resolved:
            why = "the log contains neither the command nor its arguments"
            assumed.append(
                Assumption("serve", "the release's defaults for flags that the log does not contain", why)
            )
    flags |= log.flags
    flags |= _taken_otherwise(log)
    pinned = log.number("pinned_kv_gib")
    if pinned is not None and pinned > 0:
        flags.setdefault("kv_cache_memory_bytes", round(pinned * GIB))
    flags.setdefault("kv_cache_dtype", "auto")
    flags.setdefault("tensor_parallel_size", 1)
    return flags, tuple(assumed)
