"""The values of flags that take only certain words, and the releases that have each."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Final, TypeAlias

from packaging.version import Version

from service.backends.backend_rules import backends_since
from service.engines.arguments.arguments import arguments_of
from service.engines.arguments.registered_names import NAMING_FLAGS, registered_names
from service.engines.flags import ServeFlags
from service.engines.releases import RELEASES, rules_for

Choices: TypeAlias = Mapping[str, tuple[Version, Version | None]]
"""Values of a flag, each with the first release that takes it and the first that no longer does."""
CACHE_DTYPE: Final = "kv_cache_dtype"
BACKEND: Final = "attention_backend"
METHOD: Final = "speculative_config.method"
QUANTIZATION: Final = "quantization"


@cache
def choices_by_flag() -> Mapping[str, Choices]:
    """Return the values of the modelled flags that take only certain words, of all releases together.

    A flag that takes any word in one release is left out, and so are numbers.
    """
    rules = [(release, rules_for(release)) for release in RELEASES]
    found = {name: _dated(table) for name, table in _of_arguments()}
    found[QUANTIZATION] = _dated((each, tuple(of.checkpoints.quantization_methods)) for each, of in rules)
    found[CACHE_DTYPE] = _dated((each, of.dtypes.accepted) for each, of in rules)
    found[METHOD] = _dated((each, tuple(of.speculation.methods)) for each, of in rules)
    for name in NAMING_FLAGS:
        found[name] = _dated((each, registered_names(name, each)) for each in RELEASES)
    found[BACKEND] = {name: (since, None) for name, since in backends_since().items()}
    return found


def choices_of(flag: str) -> tuple[str, ...]:
    """Return the values that a flag has in any release; nothing where it takes any word."""
    return tuple(choices_by_flag().get(flag, ()))


def _of_arguments() -> Iterator[tuple[str, Iterator[tuple[Version, tuple[str, ...]]]]]:
    for name in ServeFlags.__dataclass_fields__:
        states = [
            (release, arguments_of(release)[name]) for release in RELEASES if name in arguments_of(release)
        ]
        if states and all(state.choices for _, state in states):
            yield name, ((release, state.choices) for release, state in states)


def _dated(table: Iterable[tuple[Version, Iterable[str]]]) -> Choices:
    """Return when each value came and went, the first ones first; one that came back was never gone."""
    found: dict[str, tuple[Version, Version | None]] = {}
    for release, values in table:
        present = set(values)
        for name, (since, until) in found.items():
            if name in present:
                found[name] = (since, None)
            elif until is None:
                found[name] = (since, release)
        found |= {name: (release, None) for name in values if name not in found}
    return found
