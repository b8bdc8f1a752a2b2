"""Configures logging: JSON lines on standard error."""

import logging
import sys

import structlog

from service.redaction import hide_secrets


def configure_logs(level: str) -> None:
    """Write the logs of this service and of its libraries as JSON lines, from `level` on."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso"),
        structlog.processors.format_exc_info,
        _mask_secrets,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # These libraries log every request and every step of a migration, which is too much.
    for name in ("httpx2", "httpcore2", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)


def _mask_secrets(
    _: structlog.typing.WrappedLogger, __: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Mask secrets in texts and tracebacks, since an exception may quote what a caller sent."""
    return {key: hide_secrets(value) if isinstance(value, str) else value for key, value in event.items()}
