"""Configures logging: JSON lines on standard error."""

from __future__ import annotations

import logging
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from service.redaction import hide_secrets

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Final

    from structlog.typing import EventDict, Processor, WrappedLogger

WRITTEN: Final = "written_by_service"
"""Attribute of records whose message is a line of JSON."""

_PROCESSORS: Final[list[Processor]] = []
"""Steps by which a line is made. A logger keeps the list of its first use: changes are made in that list."""


def configure_logs(level: str) -> None:
    """Write the logs of this service and of its libraries as JSON lines, from `level` on."""
    configure_service_logs()
    configure_library_logs(level)


def configure_service_logs() -> None:
    """Pass the logs of this service on to the standard library's `logging`, which knows the level."""
    with _absent("rich"):  # structlog writes JSON here, and would import it for consoles
        import structlog  # noqa: PLC0415 - slow to import, and most commands log nothing

    _PROCESSORS[:] = [
        structlog.stdlib.filter_by_level,
        *_shared(),
        structlog.processors.JSONRenderer(),
        _as_written,
    ]
    structlog.configure(
        processors=_PROCESSORS,
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def configure_library_logs(level: str) -> None:
    """Write what reaches the standard library's `logging` as JSON lines, from `level` on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # These libraries log every request and every step of a migration, which is too much.
    for name in ("httpx2", "httpcore2", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)


@contextmanager
def _absent(module: str) -> Iterator[None]:
    """Let imports meanwhile find that a module is not installed, unless it was imported before."""
    if module in sys.modules:
        yield
        return
    sys.modules[module] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[module]


class _JsonLines(logging.Formatter):
    """Writes a record as a line of JSON; structlog is imported at the first record of a library.

    What this service logs is such a line already: to make it here too would take as long as all else.
    """

    _of_libraries: logging.Formatter | None = None

    def format(self, record: logging.LogRecord) -> str:
        if getattr(record, WRITTEN, False):
            return str(record.msg)
        self._of_libraries = self._of_libraries or _formatter()
        return self._of_libraries.format(record)


def _formatter() -> logging.Formatter:
    import structlog  # noqa: PLC0415 - as above

    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=_shared(),
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.JSONRenderer(),
        ],
    )


def _as_written(_: WrappedLogger, __: str, line: Any) -> tuple[tuple[str], dict[str, Any]]:  # noqa: ANN401
    """Hand a line over to the standard library's `logging`, marked as one that is not written again."""
    return (line,), {"extra": {WRITTEN: True}}


def _shared() -> list[Processor]:
    import structlog  # noqa: PLC0415 - as above

    return [
        structlog.contextvars.merge_contextvars,
        structlog.processors.format_exc_info,
        _mask_secrets,
        # What follows is this service's own.
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso"),
    ]


def _mask_secrets(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Mask secrets in texts and tracebacks, since an exception may quote what a caller sent."""
    return {key: hide_secrets(value) if isinstance(value, str) else value for key, value in event.items()}
