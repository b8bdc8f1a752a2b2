"""What is done from time to time beside answering."""

import asyncio
from typing import Final

import structlog

from service.api.services import Probes
from service.store.database import Database, StoreUnavailable

INTERVAL_SECONDS: Final = 15

_log: Final = structlog.stdlib.get_logger("dryserve.upkeep")


async def upkeep(database: Database, probes: Probes) -> None:
    """Give up on leases that ran out, and learn from new measurements, for ever."""
    while True:
        if database.exists:
            try:
                await probes.jobs.sweep()
            except StoreUnavailable:
                _log.warning("jobs not swept: the database cannot be used now")
            await probes.learned.refresh()
        await asyncio.sleep(INTERVAL_SECONDS)
