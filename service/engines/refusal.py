"""What the engine says when it does not start."""

from collections.abc import Callable
from enum import StrEnum


class Stage(StrEnum):
    """Where in its start the engine gives up, in the order it gets there."""

    CONFIG = "config"
    MODEL = "model"
    DTYPE = "dtype"
    BACKEND = "backend"
    BLOCK_SIZE = "block_size"
    PAGE_SIZE = "page_size"
    GROUPING = "grouping"
    MEMORY = "memory"


class EngineRefusal(Exception):
    """The engine would not start.

    Attributes:
        type: name of the exception class that the engine raises.
        message: the engine's own words.
        stage: where it is raised.
        detail: what the engine does not say: the numbers behind its words.
        find_fixes: finds single changes that, tried, get past this refusal; it takes some starts.
    """

    def __init__(
        self,
        stage: Stage,
        message: str,
        *,
        type: str = "ValueError",  # noqa: A002 - the contract's word
        detail: str = "",
        find_fixes: Callable[[], tuple[str, ...]] = tuple,
    ) -> None:
        super().__init__(message)
        self.stage = stage
        self.type = type
        self.message = message
        self.detail = detail
        self.find_fixes = find_fixes

    def reworded(self, message: str) -> "EngineRefusal":
        """Return the same refusal in other words."""
        return EngineRefusal(
            self.stage, message, type=self.type, detail=self.detail, find_fixes=self.find_fixes
        )
