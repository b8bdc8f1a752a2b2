"""Wires what probes need: one database and its stores."""

from service.application.job_events import JobEvents
from service.application.services import Probes
from service.memory.calibration import Calibration
from service.probes.limits import QueueLimits
from service.settings import Settings
from service.store.database import Database, DatabaseOptions
from service.store.learned import LearnedCalibration
from service.store.stores import Stores


def build_database(settings: Settings) -> Database:
    """Return the database; it is opened when it is first used.

    Raises:
        InvalidDatabase: the address is not one of a supported database.
    """
    options = DatabaseOptions(
        settings.database_pool_size, settings.database_timeout_seconds, settings.database_upgrade
    )
    return Database(settings.database_url, options)


def build_probes(settings: Settings, database: Database) -> Probes:
    """Return the stores of a database."""
    limits = QueueLimits(settings.probe_queue_limit, settings.probe_attempts, settings.probe_lease_seconds)
    stores = Stores(database, limits)
    return Probes(stores, JobEvents(), LearnedCalibration(stores))


async def read_calibration(settings: Settings) -> Calibration:
    """Return what the measurements of the database teach."""
    database = build_database(settings)
    try:
        learned = build_probes(settings, database).learned
        await learned.refresh()
    finally:
        await database.close()
    return learned.current
