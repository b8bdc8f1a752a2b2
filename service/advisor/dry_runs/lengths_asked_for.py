"""What is stored of lengths: each length that is asked for has starts and candidates of its own."""

from typing import Final

from service.advisor.candidates.plan_types import Candidate
from service.advisor.dry_runs.engine_steps import FailedStart, StartedEngine
from service.advisor.dry_runs.memo import LastResults

RECENT_STARTS: Final = 2_600
"""The last starts that are stored by their flags, length included: a question for all GPU types has up to
1,300 of them. A start takes 3 KB."""
RECENT_CANDIDATES: Final = 2_000
"""The last candidates that are stored by their length; others hold for all lengths. One takes 3 KB."""


class LengthsAskedFor:
    """Results that hold for one length, of all models and releases: each length asked for has others."""

    def __init__(self) -> None:
        self.starts = LastResults[StartedEngine | FailedStart](RECENT_STARTS)
        self.candidates = LastResults[Candidate](RECENT_CANDIDATES)
