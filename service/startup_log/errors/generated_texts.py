"""Finds what a model wrote where a program prints its prompts and what was generated from each."""

import re
from collections.abc import Sequence
from typing import Final

from service.startup_log.errors.tracebacks import HEADER, frame_of
from service.startup_log.text.lines import LogLine

LEAST_PAIRS: Final = 2
"""Prompts with what was generated from each; a single one is mostly quoted for what is wrong with it."""
_MARK: Final = r"(?:^|[\s,;-]{1,4})"
_PROMPT: Final = re.compile(rf"{_MARK}(?:Prompt|Question|Request)(?: ?#?\d{{1,6}})?: ")
_GENERATED: Final = re.compile(
    rf"{_MARK}(?:Generated(?: text)?|Output|Completion|Response|Answer)(?: ?#?\d{{1,6}})?: "
)
"""vLLM, examples/: `Prompt: 'Hello, my name is', Generated text: ' Joel'`, or `Output:` on the line below."""
_ENDS: Final = re.compile(
    rf"\d{{4}}-\d\d-\d\d[T ]\d\d:|[-=*_]{{5,}}\s*$|{_MARK}(?:Tokens?|Finish reason|Latency|"
    rf"Time)\b.{{0,20}}: |Processed prompts: "
)
"""Lines behind the last one that a model wrote."""
_DEGENERATE: Final = "!!!"
"""What a model whose numbers are not finite repeats, which says that its output is wrong."""


def generated_texts(lines: Sequence[LogLine]) -> set[int]:
    """Return the positions of prompts and of what was generated from them, where several are printed.

    Their words are about anything. Only output that shows by itself that it is wrong says something.
    """
    prompts = {at for at, line in enumerate(lines) if _PROMPT.search(line.text)}
    if len(prompts) < LEAST_PAIRS:
        return set()
    begins = {at for at, line in enumerate(lines) if _GENERATED.search(line.text)}
    if len(begins) < LEAST_PAIRS:
        return set()
    found = prompts | begins
    for begin in begins:
        at = begin + 1
        while at < len(lines) and at not in found and not _is_program_s(lines[at]):
            found.add(at)
            at += 1
    return {at for at in found if _DEGENERATE not in lines[at].text}


def _is_program_s(line: LogLine) -> bool:
    """Whether a program printed a line below what a model wrote."""
    return (
        line.is_logged
        or _ENDS.match(line.text) is not None
        or HEADER in line.text
        or frame_of(line) is not None
    )
