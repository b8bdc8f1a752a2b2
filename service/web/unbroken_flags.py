"""Text in which a browser breaks no line inside a flag: it would, after every hyphen."""

import re
from typing import Final

from markupsafe import Markup, escape

FLAG: Final = re.compile(r"--[a-z][\w-]*")


def unbroken_flags(text: str) -> Markup:
    """Return a text as HTML, escaped, each flag in an element that stays on one line."""
    return Markup(FLAG.sub(r'<span class="flag">\g<0></span>', str(escape(text))))  # noqa: S704 - escaped
