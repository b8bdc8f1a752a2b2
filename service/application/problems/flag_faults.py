"""Finds values of flags that the engine cannot be started with, before anything is planned."""

from collections.abc import Collection, Iterator
from dataclasses import fields
from operator import attrgetter
from typing import Final

from packaging.version import Version

from service.application.catalogs.choice_catalog import CACHE_DTYPE, METHOD, choices_of
from service.application.errors import (
    InputFault,
    UnknownCacheDtype,
    UnknownFlagValue,
    UnknownSpeculativeMethod,
)
from service.backends.backend_rules import UnknownBackend, release_rules
from service.engines.arguments.arguments import arguments_of
from service.engines.flags import ServeFlags
from service.engines.releases import RELEASES, rules_for, unavailable_flags
from service.nearest_names import is_slip

CHECKED_APART: Final = frozenset({"kv_cache_dtype", "attention_backend", "moe_backend"})
"""Flags whose values have a table of their own, or are taken from builds between releases."""
KERNEL: Final = "moe_backend"
AUTO: Final = "AUTO"
"""What leaves the attention backend to the engine."""
UNTOUCHED: Final = ServeFlags()
WORD_TYPES: Final = (str, str | None)
_WORDS: Final = tuple(
    sorted({each.name for each in fields(ServeFlags) if each.type in WORD_TYPES} - CHECKED_APART)
)
_words_of: Final = attrgetter(*_WORDS)


def flag_faults(flags: ServeFlags, release: Version) -> tuple[InputFault, ...]:
    """Return every flag that the release does not have, and every value that no release takes.

    A value that only other releases take is no fault: the plan answers with the engine's refusal.
    """
    return tuple(_faults(flags, release))


def _faults(flags: ServeFlags, release: Version) -> Iterator[InputFault]:
    unavailable = tuple(unavailable_flags(flags, release))
    for error in unavailable:
        yield InputFault(f"/serve/{error.flag}", error)
    missing = {error.flag for error in unavailable}
    for name, given in _given_words(flags):
        if name in missing or _is_choice_of(release, name, given):
            continue
        known = choices_of(name)
        if known and not _is_choice(name, given, known):
            yield InputFault(f"/serve/{name}", UnknownFlagValue(name, given, known))
    yield from _backend_fault(flags, release)
    yield from _mistyped_kernel(flags, release)
    # What the release itself has is known without reading the rules of all others.
    rules = rules_for(release)
    if flags.kv_cache_dtype not in rules.dtypes.accepted:
        yield from _cache_dtype_fault(flags)
    if flags.speculative_config is None or flags.speculative_config.method not in rules.speculation.methods:
        yield from _method_fault(flags)


def _given_words(flags: ServeFlags) -> list[tuple[str, str]]:
    """Return the flags that are given as a word, in the order of their names."""
    given = zip(_WORDS, _words_of(flags), strict=True)
    return [
        (name, value) for name, value in given if isinstance(value, str) and value != getattr(UNTOUCHED, name)
    ]


def _is_choice_of(release: Version, name: str, given: str) -> bool:
    """Whether the release itself takes a word, which is found without reading the tables of all others."""
    table = arguments_of(release)
    return name in table and given in (table[name].choices or ())


def _is_choice(name: str, given: str, known: Collection[str]) -> bool:
    tables = (arguments_of(release) for release in RELEASES)
    arguments = [table[name] for table in tables if name in table]
    if given == "None" and any(argument.nullable for argument in arguments):
        return True
    folded = given.lower().replace("-", "_") if any(argument.folded for argument in arguments) else given
    return not {given, folded}.isdisjoint(known)


def _backend_fault(flags: ServeFlags, release: Version) -> Iterator[InputFault]:
    """Yield an attention backend that the release does not have: its parser compares names in upper case."""
    given = flags.attention_backend
    if given is None or given.upper() == AUTO or given.upper() in (known := release_rules(release).backends):
        return
    yield InputFault("/serve/attention_backend", UnknownBackend.named(given, known))


def _mistyped_kernel(flags: ServeFlags, release: Version) -> Iterator[InputFault]:
    """Yield a kernel for experts that is a mistyped name: any other may be of a build between releases."""
    given = flags.moe_backend
    if given is None or _is_choice_of(release, KERNEL, given):
        return
    known = choices_of(KERNEL)
    if not _is_choice(KERNEL, given, known) and any(is_slip(given.replace("-", "_"), name) for name in known):
        yield InputFault(f"/serve/{KERNEL}", UnknownFlagValue(KERNEL, given, known))


def _cache_dtype_fault(flags: ServeFlags) -> Iterator[InputFault]:
    given = flags.kv_cache_dtype
    if given is not None and given not in (known := choices_of(CACHE_DTYPE)):
        yield InputFault("/serve/kv_cache_dtype", UnknownCacheDtype(CACHE_DTYPE, given, known))


def _method_fault(flags: ServeFlags) -> Iterator[InputFault]:
    config = flags.speculative_config
    if config is None or config.method is None or config.method in choices_of(METHOD):
        return
    error = UnknownSpeculativeMethod(METHOD, config.method, choices_of(METHOD))
    yield InputFault("/serve/speculative_config/method", error)
