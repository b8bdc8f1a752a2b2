"""Draws the pictures of the README: ``python -m tests.web.pictures [FOLDER]``."""

import sys
from pathlib import Path
from typing import Final

import httpx2
from starlette.testclient import TestClient

from service.api.app import create_app
from service.bootstrap import build_services
from service.settings import Settings
from tests.web.test_plan_page import BFLOAT16, INT8

FOLDER: Final = Path(__file__).parents[2] / "docs" / "pictures"
WORKLOAD: Final = {"prompt_tokens": 8000, "output_tokens": 500, "concurrent_requests": 8}
GEMMA: Final = {
    "model": "google/gemma-4-31B-it",
    "gpu": "h100-sxm-80gb",
    "engine_version": "0.32.0",
    **WORKLOAD,
}
PICTURES: Final = {
    "memory": {**GEMMA, "view": "answer"},
    "groups": {**BFLOAT16, "view": "pages"},
    "pages": {**INT8, "view": "pages"},
}
"""Questions by the name of the picture of their screen."""


def draw(client: TestClient) -> dict[str, bytes]:
    """Return the pictures by name of file."""
    answers = {name: client.get("/plan.svg", params=asked) for name, asked in PICTURES.items()}
    return {f"{name}.svg": answer.raise_for_status().content for name, answer in answers.items()}


def main(folder: Path) -> None:
    """Write the pictures to a folder."""
    nobody = httpx2.AsyncClient(transport=httpx2.MockTransport(lambda _: httpx2.Response(500)))
    services = build_services(Settings(HF_HUB_OFFLINE=True), nobody)
    folder.mkdir(parents=True, exist_ok=True)
    with TestClient(create_app(services)) as client:
        for name, content in draw(client).items():
            (folder / name).write_bytes(content)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
