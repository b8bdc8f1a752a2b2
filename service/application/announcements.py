"""Announcements: what the processes of one service tell each other.

Each of them waits for events and remembers workers by itself. A carrier brings a text to the other processes:
to those of this host, or to other replicas by way of the database. What is lost is made up for, since waiting
tasks look at the database again every second.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

import structlog
from pydantic import TypeAdapter, ValidationError

from service.application.workers_seen import SeenWorker
from service.probes.offer import Offer

if TYPE_CHECKING:
    from collections.abc import Callable

    from service.application.services import Probes

CHANGED: Final = "changed"
"""The text that says that a job has changed."""

_log: Final = structlog.stdlib.get_logger("dryserve.announcements")


class Announcements:
    """Passes changes of this process's events and workers on to carriers, and takes those of others."""

    def __init__(self, probes: Probes) -> None:
        self._probes = probes
        self.carriers: list[Callable[[str], None]] = []
        """Called with each text that the other processes are to receive; must not block."""
        probes.job_events.on_notify.append(lambda: self._announce(CHANGED))
        probes.workers.on_seen.append(lambda worker: self._announce(_adapter().dump_json(worker).decode()))

    def receive(self, text: str) -> None:
        """Take what another process announced."""
        if text == CHANGED:
            self._probes.job_events.wake()
            return
        try:
            self._probes.workers.learn(_adapter().validate_json(text))
        except ValidationError:
            # A replica of another version may announce more than this one knows.
            _log.debug("an announcement is not understood")

    def _announce(self, text: str) -> None:
        for carry in self.carriers:
            carry(text)


@cache
def _adapter() -> TypeAdapter[SeenWorker]:
    made = TypeAdapter(SeenWorker)
    # Its module imports the type of a field for checks of types alone.
    made.rebuild(_types_namespace={"Offer": Offer})
    return made
