"""Models that were read a short time ago: the next question about one neither fetches nor reads it."""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Self

from service.advisor.request.plan_request import Model
from service.engines.rules.checkpoints import CheckpointRules
from service.hub.model_files.fetched_config import FetchedConfig

BELIEVED_SECONDS: Final = 5.0
"""Time for which a model that was read is used without asking where it came from again."""
MOST_MODELS: Final = 64


@dataclass(frozen=True, slots=True, eq=False)
class _RulesOfRelease:
    """Rules that are compared by being one object, which those of a release are; their values take longer."""

    rules: CheckpointRules

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _RulesOfRelease) and other.rules is self.rules

    def __hash__(self) -> int:
        return id(self.rules)


@dataclass(frozen=True, slots=True)
class ModelKey:
    """What a request names of a model, and the rules by which a release reads its files."""

    id: str
    revision: str | None
    rules: _RulesOfRelease

    @classmethod
    def of(cls, model_id: str, revision: str | None, rules: CheckpointRules) -> Self:
        """Return the key of a model as a request names it."""
        return cls(model_id, revision, _RulesOfRelease(rules))


@dataclass(frozen=True, slots=True)
class _Read:
    fetched: FetchedConfig
    model: Model
    until: float


class RecentModels:
    """The last models that were read with the service's own credential, never with a caller's.

    Only the event loop's thread uses it. Faults are not stored: the next request asks again.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock`` gives seconds."""
        self._clock = clock
        self._read: OrderedDict[ModelKey, _Read] = OrderedDict()

    def find(self, key: ModelKey) -> Model | None:
        """Return a model that was read within ``BELIEVED_SECONDS``."""
        found = self._read.get(key)
        return None if found is None or self._clock() >= found.until else found.model

    def same(self, key: ModelKey, fetched: FetchedConfig) -> Model | None:
        """Return the model that was read before from files that are equal to those just fetched."""
        found = self._read.get(key)
        return None if found is None or found.fetched != fetched else found.model

    def store(self, key: ModelKey, fetched: FetchedConfig, model: Model) -> None:
        """Store a model; the one that was stored first goes where there are too many."""
        self._read[key] = _Read(fetched, model, self._clock() + BELIEVED_SECONDS)
        self._read.move_to_end(key)
        if len(self._read) > MOST_MODELS:
            self._read.popitem(last=False)
