"""The files that a page loads, each under an address that changes with its content."""

from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Final

MEDIA_TYPES: Final = {
    "page.css": "text/css",
    "drawing.css": "text/css",
    "page.js": "text/javascript",
    "htmx.min.js": "text/javascript",
    "favicon.svg": "image/svg+xml",
    "htmx-LICENSE": "text/plain",
}
"""Media types of the files; `vendored.toml` says where those of others come from."""
FOLDER: Final = "static"


@cache
def asset(name: str) -> bytes:
    """Return a file by its name, one of ``MEDIA_TYPES``."""
    return files("service.web").joinpath(FOLDER, name).read_bytes()


@cache
def asset_link(name: str) -> str:
    """Return the address of a file, relative to any page, with a digest of its content."""
    return f"{FOLDER}/{name}?v={sha256(asset(name)).hexdigest()[:12]}"
