"""A drawing as a file of its own, with its style inside."""

import re
from functools import cache
from typing import Final

from markupsafe import Markup

from service.web.assets import asset

FIRST_TAG: Final = re.compile(r'<svg [^>]*viewBox="0 0 ([0-9.]+) ([0-9.]+)"[^>]*>')


def standalone(drawing: Markup) -> str:
    """Return a drawing with its size and style, as a whole SVG document."""
    found = FIRST_TAG.match(drawing)
    if found is None:
        return '<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>'
    width, height = found.groups()
    head = found[0].replace("<svg ", f'<svg width="{width}" height="{height}" ', 1)
    return f"{head}\n<style>{_style()}</style>{drawing[found.end() :]}\n"


@cache
def _style() -> str:
    return asset("drawing.css").decode()
