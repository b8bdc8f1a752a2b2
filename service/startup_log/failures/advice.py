"""Says what to try first, by the part of the engine or of a library that an exception passed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from packaging.version import InvalidVersion, Version

from service.bundled_toml import read_toml
from service.startup_log.catalogue.origins import OF_ENGINE
from service.startup_log.catalogue.phrases import CAUSES
from service.startup_log.errors.tracebacks import Frame
from service.startup_log.failures.logged_failure import Failure

IMPORTED: Final = "<module>"
"""What Python calls the function in which a file is imported; the engine imports parts that no start uses."""
KERNEL: Final = "kernel"
"""Stands for the causes below, which any kernel can have."""
OF_KERNELS: Final = frozenset(
    {
        *(
            "illegal_memory_access",
            "illegal_instruction",
            "cuda_call_refused",
            "cuda_error",
            "cuda_library_failed",
            "triton_compile",
        ),
        *("kernel_tile_too_large", "flash_attention_not_usable"),
        *("flashinfer_kernel_failed", "no_kernels_for_this_gpu", "device_side_assert", "compile_failed"),
        *("graph_capture_not_permitted", "graph_capture_failed", "tensors_do_not_fit", "engine_fault"),
        *("autotuning_failed", "rocm_fault", "kernels_not_for_this_amd_gpu", "build_does_not_match"),
        *("deep_gemm_without_kernels", "feature_not_supported"),
    }
)

COMPILED: Final = "compiled"
"""Stands for the causes below, which any kernel can have that is compiled at the start."""
OF_COMPILED: Final = frozenset(
    {
        *("toolchain_missing", "cuda_compiler_too_old", "cuda_headers_missing", "linker_finds_no_cuda"),
        *("host_compiler_too_new", "flashinfer_without_gpu_of_its_own"),
    }
)


@dataclass(frozen=True, slots=True)
class Advice:
    """What to try first after a failure in one part, with the fields of advice.toml."""

    files: tuple[str, ...]
    causes: frozenset[str]
    remedies: tuple[tuple[Version, str], ...]
    """The oldest first."""
    unless: str
    not_after: frozenset[str]
    asked: bool = False
    """Only a flag brings the part into a start."""
    fact: str = ""
    """A fact of the text by which it is said, where no call of the traceback says more."""
    not_in: frozenset[str] = frozenset()
    """Functions of these files that say nothing of the failure: all starts pass them."""

    def holds(self, frame: Frame) -> bool:
        """Whether a call is in this part."""
        if frame.function in self.not_in or (frame.function == IMPORTED and OF_ENGINE in f"/{frame.path}"):
            return False
        return any(each in f"/{frame.path}" for each in self.files)

    def remedy(self, release: Version | None) -> str:
        """Return the words for a release; those of the newest where it is not known."""
        said = [words for since, words in self.remedies if release is None or since <= release]
        return said[-1] if said else ""


@dataclass(frozen=True, slots=True)
class AdvisedStart:
    """What is known of the start that failed."""

    release: str | None
    flags: Mapping[str, Any]
    reached: str
    """The last milestone; empty before the first."""


def advice_for(
    cause: str,
    failure: Failure,
    start: AdvisedStart,
) -> str:
    """Return what to try first: by the calls that a failure passed, or by what else the log tells.

    What a part suggests is against what it refuses or computes. A failure of which only the place is known
    says neither, so that only the advice of parts counts that a flag alone brings into a start.
    """
    version = _version(start.release)
    advice = _of_calls(cause, failure)
    if advice is None or start.reached in advice.not_after:
        stated = (each for each in _ADVICE if each.fact in failure.facts and cause in each.causes)
        advice = next((each for each in stated if start.reached not in each.not_after), None)
    return "" if advice is None or start.flags.get(advice.unless) else advice.remedy(version)


def _of_calls(cause: str, failure: Failure) -> Advice | None:
    """Return the advice of the innermost part that has any for a cause."""
    for frame in failure.frames:
        advice = next((each for each in _ADVICE if each.holds(frame)), None)
        if advice is not None and cause in advice.causes and advice.asked >= failure.by_place:
            return advice
    return None


def _version(release: str | None) -> Version | None:
    try:
        return None if release is None else Version(release.split("+")[0])
    except InvalidVersion:
        return None


_GROUPS: Final[Mapping[str, frozenset[str]]] = {KERNEL: OF_KERNELS, COMPILED: OF_COMPILED}


def _advice(table: Mapping[str, Any]) -> Advice:
    known = {cause.name for cause in CAUSES} | {KERNEL, COMPILED}
    if unknown := sorted({*table["causes"]} - known):
        raise ValueError(f"advice.toml: unknown causes: {unknown}")
    return Advice(
        tuple(table.get("files", ())),
        frozenset(table["causes"]).union(*(_GROUPS.get(name, ()) for name in table["causes"])),
        tuple(sorted((Version(since), words) for since, words in table["remedy"].items())),
        table.get("unless", ""),
        frozenset(table.get("not_after", ())),
        table.get("asked", False),
        table.get("fact", ""),
        frozenset(table.get("not_in", ())),
    )


_TABLES: Final = read_toml("service.startup_log.failures", "advice.toml")
_ADVICE: Final = tuple(map(_advice, _TABLES["advice"]))
_FACTS: Final[Mapping[str, Sequence[str]]] = _TABLES["facts"]
_DENIED: Final[Mapping[str, Mapping[str, Sequence[str]]]] = _TABLES["denied"]


def facts_in(texts: Iterable[str]) -> frozenset[str]:
    """Return the facts that a log tells of its start, by their words in small letters."""
    text = "\n".join(texts)
    found = {name for name, words in _FACTS.items() if any(map(text.__contains__, words))}
    return frozenset(name for name in found if not _is_denied(_DENIED.get(name), text))


def _is_denied(denial: Mapping[str, Sequence[str]] | None, text: str) -> bool:
    """Whether the engine's own settings deny a fact, and those of no other start in the text have it."""
    if denial is None or not any(map(text.__contains__, denial["says"])):
        return False
    return not any(map(text.__contains__, denial["unless"]))
