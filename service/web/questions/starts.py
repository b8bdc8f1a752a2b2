"""Questions that ask for one start exactly: a candidate, a fix, a lever."""

from dataclasses import fields
from typing import Final

from service.advisor.candidates.lever import Lever
from service.advisor.candidates.plan_types import Candidate
from service.advisor.candidates.refusal import Fix
from service.application.schemas.requests.plan_parameters import PLACES
from service.engines.flags import ServeFlags
from service.gpus.gpu_type import GpuType
from service.web.questions.page_question import PageQuestion

DEFAULTS: Final = ServeFlags()
SERVE_PARAMETERS: Final = tuple(
    each.name for each in fields(ServeFlags) if PLACES.get(each.name, ())[:1] == ("serve",)
)
"""Flags with a parameter of the same name."""
KEPT_BESIDE_A_COMMAND: Final = (
    "gpu", "engine_version", "patch", "free_memory_bytes", "prompt_tokens", "output_tokens",
    "concurrent_requests", "objective", "revision",
)  # fmt: skip
"""Parameters that a command line does not carry."""


def start_question(question: PageQuestion, candidate: Candidate, gpu: GpuType) -> PageQuestion:
    """Return the question for one candidate alone, without a search."""
    changed = on_gpu(question, gpu)
    for name in SERVE_PARAMETERS:
        value = getattr(candidate.flags, name)
        if value != getattr(DEFAULTS, name) and isinstance(value, str | int | float | bool):
            changed = changed.changed(**{name: value})
    return changed.changed(
        kv_cache_dtype=candidate.kv_cache_dtype,
        tensor_parallel_size=candidate.tensor_parallel_size,
        search=False,
    )


def on_gpu(question: PageQuestion, gpu: GpuType) -> PageQuestion:
    """Return the question for one GPU type; one of the caller's own stays as it was given."""
    named = question.values("gpu")
    is_own = any("memory=" in each for each in named)
    return question.planned if is_own else question.planned.changed(gpu=gpu.id)


def fix_question(question: PageQuestion, fix: Fix, gpu: GpuType) -> PageQuestion:
    """Return the question with a fix applied: the command that was planned with it."""
    patches = (*question.values("patch"), *((fix.patch,) if fix.patch else ()))
    carried = on_gpu(question, gpu).only(*KEPT_BESIDE_A_COMMAND)
    return carried.changed(command=fix.command, engine_version=fix.version, patch=patches)


def lever_question(question: PageQuestion, candidate: Candidate, lever: Lever, gpu: GpuType) -> PageQuestion:
    """Return the question for the candidate with a lever applied."""
    start = start_question(question, candidate, gpu)
    if lever.checkpoint is not None:
        return start.changed(model=lever.checkpoint)
    if lever.layout:
        return start.changed(**dict(lever.layout))
    if lever.flag is not None:
        return start.changed(**{lever.flag: lever.value})
    if lever.version is not None:
        return start.changed(engine_version=lever.version)
    return start.changed(patch=(*question.values("patch"), lever.patch or ""))
