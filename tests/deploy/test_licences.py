"""The licences of what ships, as its packages declare them."""

import re
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

import pytest

LOCK = Path(__file__).parents[2] / "requirements-runtime.lock"
PINNED = re.compile(r"^([\w.-]+)==", re.MULTILINE)
PERMISSIVE = re.compile(
    r"\b(MIT|BSD|Apache|ISC|PSF|Python Software Foundation|MPL|Mozilla Public License 2\.0|Unlicense|0BSD)\b"
)
"""They allow use, change and sale beside code under Apache-2.0; MPL-2.0 for files that are not changed."""


@pytest.mark.parametrize("name", PINNED.findall(LOCK.read_text("utf-8")))
def test_what_ships_has_a_licence_that_allows_it(name: str) -> None:
    try:
        declared = metadata(name)
    except PackageNotFoundError:
        pytest.skip(f"{name} is for another platform")
    named = [*(declared.get_all("License-Expression") or []), *(declared.get_all("License") or [])]
    words = [each[:200] for each in named]
    words += [each for each in declared.get_all("Classifier") or [] if each.startswith("License")]
    assert PERMISSIVE.search(" ".join(words)), words
