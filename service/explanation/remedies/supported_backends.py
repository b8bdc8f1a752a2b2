"""Leaves out of a remedy the attention backends that do not run on the GPU of the start."""

import re
from typing import Final

from packaging.version import Version

from service.backends.backend_rules import ReleaseRules, backends_since, rules_on_gpu
from service.engines.releases import RELEASES
from service.explanation.log_facts import nearest_release
from service.explanation.remedies.start_facts import StartFacts

_NAME: Final = rf"(?:{'|'.join(sorted(backends_since(), key=len, reverse=True))})\b"
_LISTED: Final = re.compile(rf"\b{_NAME}(?:(?:, or |, | or ){_NAME})+")
"""Names of backends of which any will do."""
_BETWEEN: Final = re.compile(r", or |, | or ")


def with_supported(remedy: str, facts: StartFacts) -> str:
    """Return a remedy whose lists of attention backends name those alone that run on the GPU.

    A list stays whole where none of it runs there, and where the text does not say which GPU it is.
    """
    if facts.capability is None or _LISTED.search(remedy) is None:
        return remedy
    release = RELEASES[-1] if facts.release is None else Version(nearest_release(str(facts.release)))
    rules = rules_on_gpu(release, facts.capability)
    return _LISTED.sub(lambda found: _supported(found[0], rules), remedy)


def _supported(listed: str, rules: ReleaseRules) -> str:
    names = _BETWEEN.split(listed)
    kept = [name for name in names if _runs(name, rules)]
    if not kept or kept == names:
        return listed
    *others, last = kept
    return f"{', '.join(others)} or {last}" if others else last


def _runs(name: str, rules: ReleaseRules) -> bool:
    return name in rules.backends and bool(rules.backends[name].capabilities.alternatives)
