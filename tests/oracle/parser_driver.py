"""Prints the arguments of a release's own `vllm serve` parser; run by the release's Python.

``.oracle/0.32.0/bin/python tests/oracle/parser_driver.py`` after ``make oracle RELEASE=0.32.0`` has made that
environment. What it prints is stored as tests/data/engines/parser-<release>.json, with which
tests/engines/test_parsers.py compares ``arguments.toml``.
"""

import json
import sys
from importlib import import_module
from typing import Any


def first(*names: str) -> Any:  # noqa: ANN401 - a module of the release
    """Return the first module that the release has."""
    for name in names[:-1]:
        try:
            return import_module(name)
        except ModuleNotFoundError:
            continue
    return import_module(names[-1])


def main() -> None:
    """Print one JSON object with the arguments by name."""
    parsers = first("vllm.utils.argparse_utils", "vllm.utils")
    entry = first(
        "vllm.entrypoints.common.cli_args",
        "vllm.entrypoints.launchers.cli_args",
        "vllm.entrypoints.openai.cli_args",
    )
    parser = entry.make_arg_parser(parsers.FlexibleArgumentParser())
    rows = {}
    for action in parser._actions:  # noqa: SLF001 - argparse has no other list of them
        if not action.option_strings or action.dest == "help":
            continue
        choices = (
            None
            if action.choices is None
            else sorted(str(each) for each in action.choices if each is not None)
        )
        kind = getattr(action.type, "__name__", str(action.type))
        rows[action.dest] = [
            type(action).__name__,
            action.option_strings,
            choices,
            repr(action.default),
            kind,
        ]
    json.dump({"arguments": rows}, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
