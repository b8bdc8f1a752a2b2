"""A lever: one change to a start that works, with its gain and its cost."""

from dataclasses import dataclass

from service.advisor.candidates.lever_costs import LIMITS_OF_LEVERS, LeverCost
from service.advisor.candidates.verdict import Verdict
from service.engines.cache_quality import Published


@dataclass(frozen=True, slots=True)
class Lever:
    """One change to the recommended candidate: its gain and its cost, found by a dry run.

    Every figure is the changed start's minus the candidate's.
    """

    change: str
    """In words, as a flag where it is one."""
    flag: str | None
    value: str | int | float | bool | None
    version: str | None
    """The release that it changes to, if it changes the release."""
    patch: str | None
    """The pull request that it adds, if it adds one."""
    checkpoint: str | None
    """The checkpoint of the model that it changes to, if it changes that."""
    verdict: Verdict
    """Of the start with the change."""
    tokens: int
    """Releases count tokens in different ways."""
    available_bytes: int
    max_concurrency: float
    estimated_max_model_len: int
    admitted_at_once: int | None
    """Requests of the workload; ``None`` without a workload."""
    completed_without_preemption: int | None
    """Requests of the workload that finish without preemption; ``None`` without a workload."""
    loss: int
    """By how many places the quality of the cache and of the weights falls in the order of published loss; 0
    where it does not."""
    cost: str
    costs: tuple[LeverCost, ...] = ()
    """The same in one word group each, the heaviest first."""
    published: Published = Published.FIGURES
    """What stands behind the published loss of quality."""
    part: float = 0.0
    """What it adds, as a part of what the candidate has: requests of the workload where there is one, else
    requests of the maximum length."""
    weight_bytes: int | None = None
    """Of the checkpoint that it changes to; ``None`` where it changes to none."""
    longest_context: int | None = None
    """Tokens of the context that is sure to fit with the change, where that of the candidate was shortened to
    fit and this one is longer."""
    command: str = ""
    """The ``vllm serve`` line with the change."""
    layout: tuple[tuple[str, int | bool], ...] = ()
    """Flags and their values, where the change is to several at once."""

    @property
    def is_detail(self) -> bool:
        """Whether it adds so little that it comes after changes of any cost."""
        return self.part < LIMITS_OF_LEVERS.part
