"""The page's modules are imported when the page is first asked for."""

import subprocess
import sys

from service.api.routes import page
from service.api.routes.page_addresses import ROUTES

STARTED = """
import asyncio, sys
from starlette.testclient import TestClient
from service.bootstrap import build_app
from service.settings import read_settings
client = TestClient(build_app(read_settings({})))
livez = client.get("/livez")
before = "jinja2" in sys.modules
answer = client.get("/", headers={"Accept": "text/html"})
found = "<form" in answer.text, "jinja2" in sys.modules
print("found:", livez.status_code, before, answer.status_code, *found)
"""


def test_each_address_has_a_function_that_answers() -> None:
    names = [route.endpoint.__name__ for route in ROUTES]
    assert [name for name in names if not callable(getattr(page, name, None))] == []


def test_the_page_is_imported_when_it_is_asked_for() -> None:
    run = subprocess.run([sys.executable, "-c", STARTED], check=True, capture_output=True, text=True)  # noqa: S603
    assert run.stdout.rpartition("found: ")[2].split() == ["200", "False", "200", "True", "True"]
