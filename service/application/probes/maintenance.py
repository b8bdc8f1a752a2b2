"""Work that the service repeats in the background."""

import asyncio
from typing import Final

import structlog

from service.application.services import Probes
from service.store.database import Database
from service.store.errors import StoreUnavailable

INTERVAL_SECONDS: Final = 15

_log: Final = structlog.stdlib.get_logger("dryserve.maintenance")


async def run_maintenance(database: Database, probes: Probes, retention_seconds: float) -> None:
    """Until it is cancelled: end leases that ran out, delete old jobs, learn from new measurements.

    ``retention_seconds``: age at which jobs that have ended are deleted; 0 deletes none.
    """
    while True:
        try:
            if database.exists:
                await probes.load()
                await database.recheck()
                await probes.jobs.sweep()
                await probes.jobs.count()
                if retention_seconds:
                    await probes.jobs.prune(retention_seconds)
                await probes.learned.refresh()
        except StoreUnavailable as error:
            _log.warning("maintenance failed: the database cannot be used now", reason=error.reason)
        except Exception:  # noqa: BLE001 - it is logged, and the next round may succeed
            _log.exception("maintenance failed")
        await asyncio.sleep(INTERVAL_SECONDS)
