"""Elements of SVG as text, one on each line; equal arguments give equal bytes."""

from collections.abc import Iterable
from typing import Final, TypeAlias

from markupsafe import Markup, escape

Value: TypeAlias = str | int | float

CHARACTER_WIDTH: Final = 6.9
"""Width of a character of the drawings' text in user units, a little more than that of most letters."""
DEFS: Final = Markup(
    '<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)"><rect width="6" height="6" class="hatch-ground"/>'
    '<line x1="0" y1="0" x2="0" y2="6" class="hatch-line"/></pattern></defs>'
)
"""The hatching of what is uncertain or unused."""


def element(name: str, *children: str, **attributes: Value) -> Markup:
    """Return an element; ``class_`` is the attribute ``class``, and ``_`` in other names is a hyphen."""
    written = "".join(
        f' {_attribute(key)}="{escape(_text(value))}"' for key, value in attributes.items() if value != ""
    )
    if not children:
        return Markup(f"<{name}{written}/>")  # noqa: S704 - values are escaped above
    return Markup(f"<{name}{written}>{''.join(str(escape(child)) for child in children)}</{name}>")  # noqa: S704


def text(x: float, y: float, words: str, **attributes: Value) -> Markup:
    """Return a line of text at a place."""
    return element("text", words, x=x, y=y, **attributes)


def drawing(parts: Iterable[str], width: float, height: float, title: str, description: str) -> Markup:
    """Return a whole drawing with its title and a description for those who do not see it."""
    inside = Markup("\n").join((element("title", title), element("desc", description), DEFS, *parts))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_text(width)} {_text(height)}"'
    return Markup(f'{head} class="drawn" role="img" aria-label="{escape(title)}">\n{inside}\n</svg>')  # noqa: S704


def fits(words: str, width: float) -> bool:
    """Whether a text fits a width in user units."""
    return len(words) * CHARACTER_WIDTH + 6 <= width


def _attribute(name: str) -> str:
    return "class" if name == "class_" else name.replace("_", "-")


def _text(value: Value) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
