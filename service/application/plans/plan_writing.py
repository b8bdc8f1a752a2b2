"""Writes a plan as JSON straight from the core's values, as ``PlanAnswer`` describes it."""

from dataclasses import replace

import orjson

from service.advisor.candidates.plan_types import Plan
from service.advisor.request.plan_request import FEW_GPUS
from service.application.schemas.answers.plan import GpuPlanAnswer, PlanAnswer, shared_warnings
from service.application.schemas.members import Writing, WrittenMember
from service.application.schemas.parts import PLAIN, Parts
from service.application.schemas.plain_values import as_answer, as_json, plain


def written_plan(plan: Plan, parts: Parts = PLAIN) -> bytes:
    """Return the JSON of a plan, one GPU type at a time: other threads run between two of them."""
    writing = _writing(plan, parts)
    try:
        gpus = [WrittenMember(as_json(plain(GpuPlanAnswer, gpu, writing))) for gpu in plan.plans]
        # The texts are known once all that has them is written.
        given = {"plans": gpus, "sources": writing.texts.by_id()}
        return as_json(plain(PlanAnswer, plan, writing, given))
    except orjson.JSONEncodeError:  # an integer of more than 64 bits
        return plan_answer(plan, parts).model_dump_json().encode()


def plan_answer(plan: Plan, parts: Parts = PLAIN) -> PlanAnswer:
    """Return a plan as a model of its schema."""
    writing = _writing(plan, parts)
    gpus = [plain(GpuPlanAnswer, gpu, writing) for gpu in plan.plans]
    given = {"plans": gpus, "sources": writing.texts.by_id()}
    return as_answer(PlanAnswer, plain(PlanAnswer, plan, writing, given))


def _writing(plan: Plan, parts: Parts) -> Writing:
    in_short = len(plan.plans) > FEW_GPUS and not parts.candidates
    survey = plan.whole_catalog and not parts.candidates
    return Writing(replace(parts, survey=survey), tuple(shared_warnings(plan)), in_short)
