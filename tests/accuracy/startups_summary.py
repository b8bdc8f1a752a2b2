"""Errors by release, GPU, ranks and family; and what calibrating on one small model would bring."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from packaging.version import Version

from service.advisor.candidates.verdict import Verdict
from tests.accuracy.startups_score import Score, Term
from tests.accuracy.startups_told import Startup

REGIMES = ("0.10", "0.11", "0.18", "0.20", "0.27")
"""Releases that changed how memory is profiled."""
SMALL_MODEL = "meta-llama/Llama-3.1-8B"


@dataclass(frozen=True, slots=True)
class Errors:
    """Absolute errors of one group in percent (or GiB)."""

    rows: int
    median: float
    p90: float
    worst: float

    @classmethod
    def of(cls, values: Iterable[float]) -> "Errors | None":
        """Return the figures of some errors; ``None`` without any."""
        sizes = sorted(map(abs, values))
        if not sizes:
            return None
        tail = quantiles(sizes, n=10, method="inclusive")[8] if len(sizes) > 1 else sizes[0]
        return cls(len(sizes), median(sizes), tail, sizes[-1])


def by(scores: Iterable[Score], key: Callable[[Startup], str]) -> dict[str, list[Score]]:
    """Group scores."""
    groups: dict[str, list[Score]] = defaultdict(list)
    for each in scores:
        groups[key(each.startup)].append(each)
    return dict(sorted(groups.items()))


def regime(startup: Startup) -> str:
    """Return the span of releases with one way of profiling."""
    if not startup.release_told:
        return "not told"
    since = [start for start in REGIMES if Version(start) <= startup.releases[0]]
    return f"{since[-1]} on" + ("" if startup.modelled else ", not modelled yet")


def gpu_class(startup: Startup) -> str:
    """Return the compute capability, and whether the memory is the host's."""
    if not startup.gpu_specified:
        return "not told"
    classes = {f"{gpu.compute_capability}{' unified' * gpu.unified_memory}" for gpu in startup.gpus}
    return "/".join(sorted(classes))


def ranks(startup: Startup) -> str:
    """Return the ranks."""
    return f"TP{startup.flags.tensor_parallel_size} PP{startup.flags.pipeline_parallel_size}"


def family(startup: Startup) -> str:
    """Return the architecture class."""
    return startup.known.model.architecture.class_name


def quantization(startup: Startup) -> str:
    """Return how the weights are quantized: by the checkpoint, or while they load."""
    specified = startup.known.model.architecture.quantization
    return startup.flags.quantization or ("none" if specified is None else specified.method)


def share(hits: Sequence[bool]) -> float:
    """Return the percentage of hits."""
    return 100 * sum(hits) / len(hits) if hits else float("nan")


def calibrated(scores: Iterable[Score]) -> list[float]:
    """Return errors in GiB of the campaign once one small model gave an offset for one and many ranks.

    The small model itself is left out.
    """
    campaign = [each for each in scores if each.term is Term.AVAILABLE and each.startup.id[0] == "m"]
    offsets: dict[str, list[float]] = defaultdict(list)
    for each in campaign:
        if each.startup.known.config == SMALL_MODEL and each.startup.known.naive.weight_bits == 16:
            offsets[_class(each.startup)].append(each.gib)
    return [
        each.gib - median(offsets[_class(each.startup)])
        for each in campaign
        if each.startup.known.config != SMALL_MODEL and _class(each.startup) in offsets
    ]


def _class(startup: Startup) -> str:
    return f"{(startup.flags.tensor_parallel_size or 1) > 1} {startup.flags.pipeline_parallel_size > 1}"


def refused(scores: Iterable[Score]) -> list[Score]:
    """Return the successes that were called failures for certain."""
    return [each for each in scores if each.logged == 1 and each.said == Verdict.REFUSED.value]
