"""The form beside a page: what can be asked, and what is asked now."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Self

from service.application.schemas.requests.plan_parameters import PLACES
from service.engines.releases import RELEASES, rules_for
from service.gpus.catalog import GpuCatalog
from service.web.questions.page_question import PageQuestion

FIELDS: Final = (
    "model", "gpu", "engine_version", "kv_cache_dtype", "tensor_parallel_size", "max_model_len",
    "prompt_tokens", "output_tokens", "concurrent_requests",
)  # fmt: skip
MORE_FIELDS: Final = ("objective", "gpu_memory_utilization", "command")


@dataclass(frozen=True, slots=True)
class QuestionForm:
    """Values and choices of the form."""

    question: PageQuestion
    models: tuple[str, ...]
    gpus: tuple[str, ...]
    releases: tuple[str, ...]
    dtypes: tuple[str, ...]
    faults: frozenset[str] = frozenset()
    """Names of fields whose values are at fault."""

    @classmethod
    def of(
        cls, question: PageQuestion, models: Sequence[str], gpus: GpuCatalog, faults: Iterable[str] = ()
    ) -> Self:
        """Return the form for a question."""
        newest = rules_for(RELEASES[-1])
        return cls(
            question,
            tuple(models),
            tuple(gpu.id for gpu in gpus if gpu.modelled),
            tuple(str(release) for release in reversed(RELEASES)),
            tuple(newest.dtypes.accepted),
            frozenset(faults),
        )

    def value(self, name: str) -> str:
        """Return what a field shows."""
        return ",".join(self.question.values("gpu")) if name == "gpu" else self.question.value(name)

    @property
    def left_blank(self) -> tuple[str, str]:
        """What is planned for a blank cache dtype and blank ranks."""
        if self.question.value("command"):
            return "the command's", "the command's"
        # The words that pydantic reads as false.
        if self.question.value("search").lower() in {"false", "0", "no", "off", "f", "n"}:
            return "auto", "1"
        return "try all", "try 1\N{EN DASH}8"

    @property
    def carried(self) -> tuple[tuple[str, str], ...]:
        """Parameters of the question without a field of their own, which stay in it."""
        pairs = self.question.planned.pairs
        return tuple(pair for pair in pairs if pair[0] not in {*FIELDS, *MORE_FIELDS})

    @property
    def has_more(self) -> bool:
        """Whether anything is asked that stands below "More"."""
        return bool(self.carried) or any(map(self.question.value, MORE_FIELDS))


def parameter_at(pointer: str) -> str:
    """Return the parameter for a JSON pointer of the body: ``gpu`` for ``/gpus/0``; else its last name."""
    place = tuple(pointer.removeprefix("/").split("/"))
    if len(place) == 1 and place[0] in PLACES:
        return place[0]
    return next((name for name, at in PLACES.items() if place[: len(at)] == at), place[-1])
