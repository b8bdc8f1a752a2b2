"""Fewer images and videos in a prompt: what is not served is not profiled, so the cache has more memory."""

import shlex
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from service.advisor.dry_runs.engine_steps import EngineSteps
from service.advisor.fixes.fix_attempt import FixAttempt, expected, longest_length, rounded_down, sure
from service.advisor.request.plan_request import Model, PlanRequest
from service.engines.engine_rules import EngineRules
from service.engines.flags import ServeFlags
from service.engines.json_object import JsonObject
from service.gpus.gpu_type import GpuType
from service.memory.media_choices import MediaChoices
from service.memory.weights.blocks.tower_modules import modalities
from service.memory.weights.weight_layout import weight_layout_at

LIMIT: Final = "--limit-mm-per-prompt"
UNKNOWN_TOWERS: Final = ("image", "video")
"""What a model may take whose encoders are not known; the engine ignores a limit of what it does not take."""


def media_attempts(
    request: PlanRequest, flags: ServeFlags, steps: EngineSteps, gpu: GpuType
) -> Iterator[FixAttempt]:
    """Yield starts with fewer media in a prompt, then those with a shorter context too, untried.

    A limit is no help where the same context fits without it.
    """
    limits = tuple(media_limits(request.model, flags, steps.rules))
    if not limits:
        return
    for size in (sure, expected):
        alone = longest_length(request, flags, steps, gpu, size)
        longest = {each: longest_length(request, each.flags, steps, gpu, size) for each in limits}
        helping = [each for each in limits if longest[each] > alone]
        yield from helping
        for each in helping:
            length = rounded_down(longest[each])
            yield replace(
                each, words=f"{each.words} --max-model-len {length}", flags=each.flags.of_length(length)
            )
        if helping or alone:
            return


def media_limits(model: Model, flags: ServeFlags, rules: EngineRules) -> Iterator[FixAttempt]:
    """Yield the start without videos, then with one image in a prompt too, where requests may have more."""
    choices = MediaChoices.of(flags)
    served = {each for each in _taken(model, rules) if choices.serves(each)}
    if "image" not in served:
        return
    document: dict[str, Any] = (
        {} if flags.limit_mm_per_prompt is None else flags.limit_mm_per_prompt.document()
    )
    if "video" in served:
        document = {**document, "video": 0}
        yield _limited(flags, document, rules)
    if choices.choice("image").limit > 1:
        given = document.get("image")
        one = {**given, "count": 1} if isinstance(given, dict) else 1
        yield _limited(flags, {**document, "image": one}, rules)


def _taken(model: Model, rules: EngineRules) -> Iterator[str]:
    """Yield the modalities that the encoders of a model take."""
    architecture = model.architecture
    if architecture.multimodal and not architecture.media.towers_known:
        yield from UNKNOWN_TOWERS
        return
    layout = weight_layout_at(rules.release).towers
    for tower in architecture.media.towers:
        yield from modalities(architecture, layout, sound=tower.sound)


def _limited(flags: ServeFlags, document: dict[str, Any], rules: EngineRules) -> FixAttempt:
    limits = JsonObject.of(document)
    changed = replace(flags, limit_mm_per_prompt=limits)
    return FixAttempt(f"{LIMIT} {shlex.quote(limits.text)}", changed, rules)
