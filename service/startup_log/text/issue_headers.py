"""Empties the lines that a copy of an issue has around its title and its comments, and that nobody wrote."""

import re
from collections.abc import Sequence
from typing import Final

_FIRST: Final = re.compile(
    r"[\w.-]{1,60}/[\w.-]{1,100} \u00b7 (?:issue|pull request|discussion) #\d{1,7}"
    r"(?: \u00b7 [\w+#.-]{1,20}(?: \w{1,20})?){0,3}$",
    re.ASCII,
)
"""An issue's repository, number, state, language: `a/b \u00b7 issue #18 \u00b7 open \u00b7 C++`."""
_AROUND: Final = re.compile(
    r"labels: .{1,300}$"
    r"|[\w.-]{1,60}(?:\[bot\])? \u00b7 (?:description|comment|review) \u00b7 \d{4}-\d\d-\d\d$"
    r"|\[turn \d{1,4} by [^\]]{1,60}\]$",
    re.ASCII,
)
"""Labels of an issue, and who wrote a comment and when."""


def without_issue_headers(texts: Sequence[str]) -> Sequence[str]:
    """Return the lines of a text; those about an issue are empty where the first line names one.

    So its title is the first line with words, as in an issue that is pasted by itself.
    """
    first = next((text for text in texts if text.strip()), "").strip()
    if not _FIRST.match(first):
        return texts
    return ["" if text.strip() == first or _AROUND.match(text.strip()) else text for text in texts]
