"""A drawing as a file of its own, with its style inside."""

import re
from functools import cache
from typing import Final

from markupsafe import Markup

from service.web.assets import asset

SEVERAL: Final = 2
FIRST_TAG: Final = re.compile(r'<svg [^>]*viewBox="0 0 ([0-9.]+) ([0-9.]+)"[^>]*>')


def standalone(drawing: Markup) -> str:
    """Return a drawing with its size and style, as a whole SVG document."""
    found = FIRST_TAG.match(drawing)
    if found is None:
        return '<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>'
    width, height = found.groups()
    head = found[0].replace("<svg ", f'<svg width="{width}" height="{height}" ', 1)
    return f"{head}\n<style>{_style()}</style>{drawing[found.end() :]}\n"


def stacked(*drawings: Markup) -> Markup:
    """Return drawings one below the other as one; empty ones are left out."""
    found = [(each, match) for each in drawings if (match := FIRST_TAG.match(each)) is not None]
    if len(found) < SEVERAL:
        return found[0][0] if found else Markup()
    width = max(float(match[1]) for _, match in found)
    parts, top = [], 0.0
    for each, match in found:
        own, height = match.groups()
        head = f'<svg y="{top:g}" width="{own}" height="{height}" viewBox="0 0 {own} {height}" class="drawn">'
        parts.append(f"{head}{each[match.end() :]}")
        top += float(height)
    whole = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {top:g}" class="drawn" role="img">'
    )
    return Markup("\n".join((whole, *parts, "</svg>")))  # noqa: S704 - parts are drawings


@cache
def _style() -> str:
    return asset("drawing.css").decode()
