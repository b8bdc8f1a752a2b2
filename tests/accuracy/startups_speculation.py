"""How tokens were guessed ahead, as a row tells it."""

import json
import re
from ast import literal_eval
from collections.abc import Mapping
from typing import Any, Final

from service.engines.speculative_config import MTP, SpeculativeConfig
from tests.accuracy.startups_models import has_draft

OFF: Final = re.compile(r"off|none", re.IGNORECASE)
OWN_LAYERS: Final = re.compile(r"mtp\b", re.IGNORECASE)
COUNT: Final = re.compile(r"(?:num_spec(?:ulative)?(?:_tokens)?\s*[= ]|k\s*=|,|mtp)\s*(\d+)", re.IGNORECASE)
OTHERS: Final = ("model", "draft_tensor_parallel_size", "prompt_lookup_min", "prompt_lookup_max")
NEEDS_A_DRAFT: Final = "the draft's config is not at hand"


class UntoldSpeculation(ValueError):
    """What was told does not say what was kept for it."""


def read_speculation(specified: str | None) -> SpeculativeConfig | None:
    """Return how a start guessed tokens, or ``None`` where it did not.

    Raises:
        UntoldSpeculation: its draft is another model, or the tokens guessed are not told.
    """
    if not specified or OFF.fullmatch(specified):
        return None
    given = _as_object(specified)
    if given is not None:
        return _of(str(given.get("method", "")), given.get("num_speculative_tokens"), given)
    count = COUNT.search(specified)
    method = MTP if OWN_LAYERS.match(specified) else ""
    return _of(method, int(count[1]) if count else None, {})


def _as_object(specified: str) -> Mapping[str, Any] | None:
    if not specified.startswith("{"):
        return None
    try:
        parsed = json.loads(specified)
    except json.JSONDecodeError:
        parsed = literal_eval(specified)
    return parsed if isinstance(parsed, dict) else None


def _of(method: str, tokens: object, given: Mapping[str, Any]) -> SpeculativeConfig:
    own = method == MTP or method.endswith("_mtp")
    draft = given.get("model")
    if draft is not None and not has_draft(draft):
        raise UntoldSpeculation(NEEDS_A_DRAFT)
    if not own and method != "ngram" and draft is None:
        raise UntoldSpeculation(NEEDS_A_DRAFT)
    if not isinstance(tokens, int):
        raise UntoldSpeculation("how many tokens are guessed is not told")
    others = {key: given[key] for key in OTHERS if key in given}
    return SpeculativeConfig(method=method, num_speculative_tokens=tokens, **others)
