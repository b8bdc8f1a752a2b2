"""The best start of a GPU type with each cache dtype."""

from collections.abc import Mapping
from dataclasses import dataclass

from service.advisor.candidates.plan_types import Candidate, GpuPlan
from service.advisor.candidates.verdict import Verdict


@dataclass(frozen=True, slots=True)
class BestByDtype:
    """The plan of a GPU type with the first of its ranked candidates for each dtype."""

    plan: GpuPlan
    best: Mapping[str, Candidate]

    @classmethod
    def of(cls, plan: GpuPlan) -> "BestByDtype":
        """Read the candidates, which are ranked best first."""
        best: dict[str, Candidate] = {}
        for each in plan.candidates:
            best.setdefault(each.kv_cache_dtype, each)
        return cls(plan, best)

    def starts(self, dtype: str) -> Candidate | None:
        """Return the candidate of a dtype if it may start."""
        found = self.best.get(dtype)
        return None if found is None or found.verdict is Verdict.REFUSED else found
