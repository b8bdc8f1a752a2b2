"""What `dryserve serve` says once it accepts connections: an example, or a line of the log."""

import json
import sys
from typing import Final

import typer

from service import __version__

EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 - nothing is bound here


def greet(host: str, port: int) -> None:
    """Say where the service is; on a terminal, also how to ask it.

    A container's standard output and error are one stream of JSON lines; other text would be in the way.
    """
    name = EVERYWHERE.get(host, f"[{host}]" if ":" in host else host)
    url = f"http://{name}:{port}"
    if sys.stdout.isatty():
        typer.echo(_example(url))
    else:
        # Imported here: `configure_logs` comes first.
        import structlog  # noqa: PLC0415

        structlog.stdlib.get_logger("dryserve.serve").info("serving", url=url, version=__version__)


def _example(url: str) -> str:
    # Imported here: the examples are validated when they are read.
    from service.api.examples import EXAMPLES  # noqa: PLC0415

    body = json.dumps(EXAMPLES["create_plan"].body, default=dict)
    curl = f"curl -H 'Accept: text/plain' -H 'Content-Type: application/json' -d '{body}' {url}/plan"
    return f"dryserve {__version__} on {url} (API: {url}/docs). Try:\n\n{curl}\n"
