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
    CACHE_SETUP = "cache_setup"
    """The cache is sized; each rank sets it up for its layers."""
    RUN = "run"
    """Its cache is set up: it captures CUDA graphs, or computes the first request."""


class EngineRefusal(Exception):
    """The engine would not start.

    Attributes:
        type: name of the exception class that the engine raises.
        message: the engine's own words.
        stage: where it is raised.
        detail: what the engine does not say: the numbers behind its words.
        device: the GPU type that its words name; empty where they name none.
        find_fixes: finds single changes that, tried, get past this refusal; it takes some starts.
    """

    def __init__(  # noqa: PLR0913 - the parts of a refusal
        self,
        stage: Stage,
        message: str,
        *,
        type: str = "ValueError",  # noqa: A002 - the contract's word
        detail: str = "",
        device: str = "",
        find_fixes: Callable[[], tuple[str, ...]] = tuple,
    ) -> None:
        super().__init__(message)
        self.stage = stage
        self.type = type
        self.message = message
        self.detail = detail
        self.device = device
        self.find_fixes = find_fixes

    def on(self, device: str) -> "EngineRefusal":
        """Return the same refusal on another GPU type, which a few name."""
        if self.device in {"", device}:
            return self
        return EngineRefusal(
            self.stage,
            self.message.replace(self.device, device),
            type=self.type,
            detail=self.detail,
            device=device,
            find_fixes=self.find_fixes,
        )
