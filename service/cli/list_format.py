"""The form in which a command prints a list: a table for people, JSON for programs."""

from typing import Annotated, Literal, TypeAlias

import typer

ListFormat = Annotated[
    Literal["json", "table"] | None, typer.Option("--format", help="Left out: a table, also in a pipe.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, as the service answers it: --format json.")]
Form: TypeAlias = Literal["json", "table"] | None


def is_json(form: Form, *, as_json: bool) -> bool:
    """Whether JSON is to be printed; ``--format`` decides where both options are given."""
    return as_json if form is None else form == "json"
