"""The pictures of the README are drawn by the command that is named there."""

import re
from pathlib import Path

from starlette.testclient import TestClient

from tests.web.pictures import FOLDER, draw

README = Path(__file__).parents[2] / "README.md"


def test_pictures_are_up_to_date(client: TestClient) -> None:
    drawn = draw(client)
    assert {each.name for each in FOLDER.iterdir()} == set(drawn)
    # Estimates of memory move with every calibration; what follows from given bytes does not.
    exact = {name: content for name, content in drawn.items() if name != "memory.svg"}
    stale = [name for name, content in exact.items() if (FOLDER / name).read_bytes() != content]
    assert stale == [], "run `make pictures`"
    assert sum(map(len, drawn.values())) < 60_000


def test_the_readme_shows_them_all() -> None:
    shown = re.findall(r"!\[[^\]]+\]\(docs/pictures/([^)]+)\)", README.read_text("utf-8"))
    assert sorted(shown) == sorted(each.name for each in FOLDER.iterdir())
