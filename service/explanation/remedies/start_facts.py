"""StartFacts: what a text says of a start that decides which remedies are any for it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from packaging.version import InvalidVersion, Version

from service.explanation.log_facts import gpus_of
from service.gpus.capability import ComputeCapability
from service.gpus.catalog import gpu_catalog
from service.startup_log.log import StartupLog

_NVIDIA: Final = re.compile(
    r"NVIDIA|Tesla|GeForce|Quadro|RTX|GTX|^(?:A|H|B|L|V)\d|^GB\d|^GH200|^T4|^[PM][14]0"
)
"""Names of NVIDIA's cards, as tools print them and people write them."""
WITH_NCCL: Final = frozenset({"nvidia", "amd"})
"""Platforms whose ranks exchange data with NCCL, or with RCCL, which reads its variables."""
_UNIFIED: Final = re.compile(
    r"(?i)GB10|Spark|Jetson|Orin|Thor|GH200|GB[23]00|Strix|Radeon 8\d{3}S|Apple|MI300A"
)
"""Names of GPUs that have no memory of their own, or share the host's with it."""
OTHERS: Final = frozenset({"amd", "intel", "cpu", "tpu", "ascend", "neuron", "metal"})
_MAKERS: Final[Mapping[str, str]] = {
    "cuda": "nvidia",
    "rocm": "amd",
    "xpu": "intel",
    "hpu": "gaudi",
    "npu": "ascend",
}
"""Facts by the platform that the engine names; of others the fact has the platform's name."""
SEVERAL: Final = "several_gpus"


@dataclass(frozen=True, slots=True)
class StartFacts:
    """What decides which remedies are any for a start."""

    release: Version | None
    flags: Mapping[str, Any]
    """Flags of the command and of the engine's own settings, by their names with underscores."""
    passed: frozenset[str]
    """Names of the flags that were passed."""
    whole_command: bool
    """A flag that was not passed had its default."""
    given: frozenset[str]
    """Variables that are set, as ``NAME=value``, and flags that did not help."""
    tried: frozenset[str]
    """Names of actions that did not help."""
    holds: Mapping[str, bool]
    """Which facts hold; one that the text does not decide is absent."""
    capability: ComputeCapability | None = None
    """Of the GPU; ``None`` where the text does not say which it is."""


def facts_of(log: StartupLog) -> StartFacts:
    """Return what a log says of its start."""
    return StartFacts(
        release=_version(log.release or log.around.release),
        flags={**log.resolved, **log.flags},
        passed=frozenset((*log.flags, *log.unmodelled)),
        whole_command=log.flags_logged,
        given=frozenset(log.around.given),
        tried=log.around.tried,
        holds={**_platforms(log), **_hosts(log), **_gpus(log), **_memory(log)},
        capability=_capability(log),
    )


def _version(release: str | None) -> Version | None:
    try:
        return None if release is None else Version(release.split("+")[0])
    except InvalidVersion:
        return None


def _capability(log: StartupLog) -> ComputeCapability | None:
    """Return what the text says of the GPU's capability, or what all types have that the GPU can be."""
    types = gpu_catalog().types
    said = log.around.capability
    if said is not None:
        return next((gpu.compute_capability for gpu in types if str(gpu.compute_capability) == said), None)
    found = {gpu.compute_capability for gpu in gpus_of(log, types)}
    return found.pop() if len(found) == 1 else None


def _platforms(log: StartupLog) -> Mapping[str, bool]:
    """Return for which platform the engine runs, and that it then runs for no other."""
    platform = log.around.platform
    name = None if platform is None else _MAKERS.get(platform, platform)
    if name is None and any(map(_NVIDIA.search, (*log.around.gpus, *log.around.mentioned))):
        name = "nvidia"
    if name is None:
        return {}
    return {**dict.fromkeys({*_MAKERS.values(), *OTHERS}, False), name: True, "nccl": name in WITH_NCCL}


def _memory(log: StartupLog) -> Mapping[str, bool]:
    """Return whether the GPU uses the host's memory, where the text names the GPU."""
    named = (*log.around.gpus, *log.around.mentioned)
    return {"unified": any(map(_UNIFIED.search, named))} if named else {}


def _hosts(log: StartupLog) -> Mapping[str, bool]:
    return {
        **({"container": False} if "bare" in log.around.host else {}),
        **({"container": True} if "container" in log.around.host else {}),
        **({"wsl": True, "windows": True} if "wsl" in log.around.host else {}),
        **({"wsl": False} if "linux" in log.around.host else {}),
    }


def _gpus(log: StartupLog) -> Mapping[str, bool]:
    """Return whether the start has several GPUs, and whether the host has more than those of the start."""
    ranks = 1
    for name in _RANKS:
        size = log.flags.get(name, log.resolved.get(name, 1))
        ranks *= size if isinstance(size, int) else 1
    count = log.around.gpu_count
    facts = {} if count is None else {SEVERAL: count > 1, "more_gpus": count > ranks}
    if SEVERAL in log.around.host or ranks > 1:
        return {**facts, SEVERAL: True}
    return {**facts, SEVERAL: False} if log.flags_logged else facts


_RANKS: Final = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")
