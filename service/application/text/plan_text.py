"""Writes a plan as text."""

from service.advisor.plan_types import Plan
from service.application.schemas.plan_body import TextFormat
from service.application.text.commands import COMMANDS
from service.application.text.table import render_plan


def plan_text(plan: Plan, form: TextFormat) -> str:
    """Return a plan as a table, or as the commands that start what it recommends."""
    return render_plan(plan) if form == "table" else COMMANDS[form](plan)
