"""A real browser, where the machine has one: Debian's chromium, driven by Playwright."""

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any, Final

import uvicorn
from fastapi import FastAPI

NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE_SECONDS: Final = 60
AXE: Final = Path(__file__).parents[1] / "data" / "web" / "axe" / "axe.min.js"


def executable() -> str | None:
    """Return the path of a browser; ``None`` where there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@contextmanager
def served(app: FastAPI) -> Iterator[str]:
    """Serve an application on loopback, and yield its address."""
    config = uvicorn.Config(app, port=0, log_config=None, ws="none", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    until = monotonic() + PATIENCE_SECONDS
    while not server.started and monotonic() < until:
        sleep(0.02)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}/"
    finally:
        server.should_exit = True
        thread.join(PATIENCE_SECONDS)


def violations(page: Any, *rules: str) -> list[str]:  # noqa: ANN401 - Playwright may be missing
    """Return what axe finds wrong with a page, by all rules or some, with the elements at fault."""
    if not page.evaluate("typeof axe === 'object'"):
        page.evaluate(AXE.read_text("utf-8"))
    options = {"resultTypes": ["violations"], **({"runOnly": list(rules)} if rules else {})}
    found = page.evaluate("async options => (await axe.run(document, options)).violations", options)
    return [f"{each['id']}: {[node['target'] for node in each['nodes']][:3]}" for each in found]
