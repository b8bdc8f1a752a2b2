"""Writes a plan as text."""

from service.advisor.candidates.plan_types import Plan
from service.application.errors import NothingToRun
from service.application.text.commands import COMMANDS
from service.application.text.layout import DEFAULT_TEXT, TextOptions
from service.application.text.plan_format import TextFormat
from service.application.text.table import render_plan


def plan_text(plan: Plan, form: TextFormat, options: TextOptions = DEFAULT_TEXT) -> str:
    """Return a plan as a table, or as the commands that start what it recommends, without comments.

    Raises:
        NothingToRun: a command is asked for, and there is none on any GPU type.
    """
    if form == "table":
        return render_plan(plan, options)
    written = COMMANDS[form](plan)
    if not written.commands:
        raise NothingToRun(written.comments)
    return written.commands
