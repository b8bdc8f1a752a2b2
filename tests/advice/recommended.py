"""What we recommend where nothing is told, beside what experts chose for the same question."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import log2, prod
from typing import Any

from service.advisor.candidates.plan_types import Candidate
from service.application.errors import InputFault
from tests.advice.asked import Service
from tests.advice.judging import NOT_MODELLED_FAULTS
from tests.advice.rows import Row

_SAME = {"fp8_e4m3": "fp8", "None": "auto"}
"""Other names of one cache dtype."""


class Count(StrEnum):
    """How many GPUs we recommend, beside the experts."""

    SAME = "same GPUs"
    """As many as at least one of them."""
    FEWER = "fewer GPUs"
    """Than all of them."""
    BETWEEN = "between"
    MORE = "more GPUs"
    NONE = "nothing recommended"


@dataclass(frozen=True, slots=True)
class Layout:
    """How one deployment is laid out."""

    tensor: int
    pipeline: int
    data: int
    dtype: str
    """Of the cache, by its commonest name."""
    max_model_len: int | None

    @property
    def gpus(self) -> int:
        """GPUs of all replicas."""
        return prod((self.tensor, self.pipeline, self.data))

    def __str__(self) -> str:
        length = "" if self.max_model_len is None else f" len {self.max_model_len}"
        return f"tp{self.tensor} pp{self.pipeline} dp{self.data} {self.dtype}{length}"


@dataclass(frozen=True, slots=True)
class Compared:
    """One question with our answer and theirs."""

    question: str
    ours: Layout | None
    theirs: tuple[Layout, ...]
    reason: str = ""
    """Ours, in the words of the answer."""
    step: str = "none"
    """The step of the order of advice that we take."""
    usual: bool = True
    """Whether we take a cache that anybody publishes: auto, fp8, or 16 bits of the model's own type."""
    stored: Mapping[str, str] = field(default_factory=dict)
    """What the engine stores for each dtype that it may be told, where a candidate came so far."""

    @property
    def count(self) -> Count:
        """How our number of GPUs lies to theirs."""
        if self.ours is None:
            return Count.NONE
        theirs = {each.gpus for each in self.theirs}
        if self.ours.gpus in theirs:
            return Count.SAME
        if self.ours.gpus < min(theirs):
            return Count.FEWER
        return Count.MORE if self.ours.gpus > max(theirs) else Count.BETWEEN

    @property
    def same_dtype(self) -> bool:
        """Whether at least one of them takes our cache dtype."""
        return self.ours is not None and self.ours.dtype in {each.dtype for each in self.theirs}

    @property
    def same_stored(self) -> bool:
        """Whether at least one of them stores what we do: ``auto`` of an FP8 checkpoint is FP8."""
        if self.ours is None:
            return False
        theirs = {self.stored.get(each.dtype, each.dtype) for each in self.theirs}
        return self.stored.get(self.ours.dtype, self.ours.dtype) in theirs

    @property
    def same_layout(self) -> bool:
        """Whether at least one of them has our three parallel sizes."""
        ours = self.ours
        return ours is not None and any(
            (ours.tensor, ours.pipeline, ours.data) == (each.tensor, each.pipeline, each.data)
            for each in self.theirs
        )

    @property
    def same_length(self) -> bool:
        """Whether at least one of them tells our length, or none does and neither do we."""
        return self.ours is not None and self.ours.max_model_len in {
            each.max_model_len for each in self.theirs
        }

    @property
    def distance(self) -> float:
        """How far off we are: doublings of the GPUs from the nearest expert; another dtype is half of one."""
        if self.ours is None:
            return 10
        doublings = min(abs(log2(self.ours.gpus / each.gpus)) for each in self.theirs)
        return doublings + (0 if self.same_dtype else 0.5)


@dataclass(frozen=True, slots=True)
class Comparison:
    """All questions of one file."""

    name: str
    compared: tuple[Compared, ...]
    unanswered: Mapping[str, int]
    """Questions without an answer, by reason."""

    def figures(self) -> dict[str, int]:
        """Return the counts."""
        counts = Counter(each.count for each in self.compared)
        return {
            "questions": len(self.compared),
            **{count.value: counts[count] for count in Count},
            "GPUs and cache dtype both": sum(
                each.count is Count.SAME and each.same_dtype for each in self.compared
            ),
            "GPUs and stored type both": sum(
                each.count is Count.SAME and each.same_stored for each in self.compared
            ),
            "same tp, pp and dp": sum(each.same_layout for each in self.compared),
            "same cache dtype": sum(each.same_dtype for each in self.compared),
            "unusual cache": sum(not each.usual for each in self.compared),
            "other cache dtype": sum(each.ours is not None and not each.same_dtype for each in self.compared),
            "same length told": sum(each.same_length for each in self.compared),
        }

    def share(self, name: str) -> float:
        """Return one of the figures in percent of the questions; 100 where there are none."""
        return 100 * self.figures()[name] / len(self.compared) if self.compared else 100.0

    def steps(self) -> Counter[str]:
        """Count the steps of the order of advice that we take."""
        return Counter(each.step for each in self.compared)

    def dtypes(self) -> Counter[str]:
        """Count the cache dtypes that no expert took."""
        return Counter(each.ours.dtype for each in self.compared if each.ours and not each.same_dtype)

    def worst(self, most: int) -> tuple[Compared, ...]:
        """Return the answers that lie furthest from the experts."""
        far = [each for each in self.compared if each.distance > 0]
        return tuple(sorted(far, key=lambda each: -each.distance)[:most])


def gpu_names(rows: Iterable[Row]) -> Mapping[str, str]:
    """Return the catalog's id for each name that publishers give a GPU."""
    return {row["gpu_published"]: row["gpu"] for row in rows if "gpu_published" in row}


def compare(name: str, questions: Iterable[Row], names: Mapping[str, str], service: Service) -> Comparison:
    """Plan every question without flags and compare what is recommended."""
    compared: list[Compared] = []
    unanswered: Counter[str] = Counter()
    for question in questions:
        found = _ask(question, names, service)
        if isinstance(found, str):
            unanswered[found] += 1
        else:
            compared.append(found)
    return Comparison(name, tuple(compared), unanswered)


def _ask(question: Row, names: Mapping[str, str], service: Service) -> Compared | str:
    gpu = names.get(question["gpu"])
    if gpu is None:
        return f"no GPU {question['gpu']} among the rows"
    if service.configs.how(question["model"]) is None:
        return "no config"
    body: dict[str, Any] = {
        "model": question["model"],
        "gpus": [gpu],
        "engine": {"version": question["version"]},
    }
    specified = ""
    if question.get("isl"):
        body["workload"] = {
            "prompt_tokens": question["isl"],
            "output_tokens": question["osl"],
            "concurrent_requests": question["conc"],
        }
        specified = f" {question['isl']}+{question['osl']} tokens, {question['conc']} at once"
    try:
        plan = service.plan(body).plans[0]
    except (InputFault, *NOT_MODELLED_FAULTS) as fault:
        return type(fault.__cause__ or fault).__name__
    ours = None if plan.recommended is None else _of_candidate(plan.recommended)
    words = f"{question['model']} on {question['gpu']}, {question['version']}{specified}"
    stored = {
        _dtype(each.kv_cache_dtype): _dtype(each.resolved_kv_cache_dtype)
        for each in plan.candidates
        if each.resolved_kv_cache_dtype is not None
    }
    # Without a candidate of its own, auto stores what another name does: the checkpoint's fp8 cache.
    stored.setdefault("auto", "fp8")
    theirs = tuple(map(_of_expert, question["experts"]))
    usual = plan.recommended is None or _is_usual(plan.recommended)
    return Compared(words, ours, theirs, plan.reason, plan.step or "none", usual, stored)


def _is_usual(candidate: Candidate) -> bool:
    own = candidate.start is not None and candidate.kv_cache_dtype == candidate.start.engine_config.dtype
    return own or candidate.kv_cache_dtype in {"auto", "fp8", "fp8_e4m3"}


def _of_candidate(candidate: Candidate) -> Layout:
    flags = candidate.flags
    return Layout(
        candidate.tensor_parallel_size,
        candidate.pipeline_parallel_size,
        flags.data_parallel_size,
        _dtype(candidate.kv_cache_dtype),
        flags.max_model_len,
    )


def _of_expert(specified: Mapping[str, Any] | list[Any]) -> Layout:
    if isinstance(specified, list):
        # The second number is of replicas: no command of the source has pipeline stages.
        tensor, data, _, dtype, length = specified
        return Layout(tensor, 1, data, _dtype(dtype), length)
    return Layout(
        specified["tp"] or 1,
        specified["pp"] or 1,
        specified["dp"] or 1,
        _dtype(specified["kv"]),
        _length(specified["mml"]),
    )


def _length(specified: Any) -> int | None:  # noqa: ANN401 - as it was written
    return int(specified) if str(specified).isdecimal() else None


def _dtype(specified: Any) -> str:  # noqa: ANN401 - as it was written
    return _SAME.get(str(specified), str(specified))
