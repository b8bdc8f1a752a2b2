"""Tells a module that an installed package lacks from a package that is not installed."""

import re
from typing import Final

OF_ANOTHER_VERSION: Final = "build_does_not_match"
"""The cause of a module that the installed version of its package does not have."""
_INSIDE: Final = re.compile(r"No module named ['\"](\w{1,80})\.[\w.]{1,200}['\"]", re.ASCII)
"""A module inside of a package: of a package that is absent Python names the package alone."""
SHARED: Final = frozenset(
    {
        *("azure", "backports", "google", "jaraco", "mpl_toolkits", "nvidia", "opentelemetry"),
        *("ruamel", "zope", "lmcache", "nixl", "mooncake", "transformers_modules", "vllm"),
    }
)
"""Names that several packages share, and those of which other causes say more."""

HIDDEN: Final = "is not a package"
"""What Python adds where a file of the package's name hides it."""


def cause_of_module(text: str) -> str | None:
    """Return the name of the cause if a package is there without a module that its caller expects."""
    found = _INSIDE.search(text)
    if found is None or found[1] in SHARED or HIDDEN in text:
        return None
    return OF_ANOTHER_VERSION
