"""Real configs with something changed at random, and the plans that are made of them.

A config is hostile until it is parsed: whatever was changed, the answer is a plan or one of our errors, soon.
"""

import random
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from time import process_time
from typing import Any, Final

from service.advisor.candidates.plan_types import Candidate
from service.advisor.dry_runs.dry_run import dry_run
from service.advisor.request.plan_request import Model, PlanRequest
from service.architecture.config import InvalidConfig, read_document
from service.architecture.reading import UnknownArchitecture, read_architecture
from service.backends.backend_rules import release_rules
from service.engines.engine_rules import EngineRules
from service.engines.flags import ServeFlags
from service.engines.releases import RELEASES, rules_for
from service.gpus.catalog import find_gpu
from service.gpus.gpu_type import GpuType
from tests.mutations.large_configs import large

JUNK: Final[tuple[object, ...]] = (
    *(None, True, False, -1, 0, 1, 2, 3, 7, 64, 4095, 1 << 31, 1 << 70, 0.5, -2.5, 1e308, float("inf")),
    *(
        "",
        "x",
        "auto",
        "float32",
        "é" * 300,
        [],
        [0],
        ["x"],
        [None],
        [[1]],
        {},
        {"a": 1},
        {"quant_method": "fp8"},
    ),
)
LARGE_EVERY: Final = 250
"""Trials of which one has a config of megabytes."""
GPUS: Final = ("rtx-3090-24gb", "a100-sxm-80gb", "h100-sxm-80gb", "b200-180gb")


@dataclass(frozen=True, slots=True)
class Trial:
    """What became of one changed config."""

    model: str
    change: str
    release: str
    seconds: float
    error: Exception | None
    """What is not ours, if anything."""


def trials(configs: Mapping[str, Mapping[str, Any]], count: int, seed: int) -> Iterator[Trial]:
    """Plan ``count`` changed configs, each on a release, a GPU and flags drawn at random."""
    dice = random.Random(seed)
    names, gpus = sorted(configs), tuple(map(find_gpu, GPUS))
    # Releases are read once per process: no config pays for that.
    rules = {release: (rules_for(release), release_rules(release))[0] for release in RELEASES}
    for index in range(count):
        name = dice.choice(names)
        make = large if index % LARGE_EVERY == LARGE_EVERY - 1 else _changed
        document, change = make(configs[name], dice)
        release, gpu, flags = dice.choice(RELEASES), dice.choice(gpus), _flags(dice)
        started, error = process_time(), None
        try:
            with suppress(InvalidConfig, UnknownArchitecture):
                _planned(document, rules[release], gpu, flags)
        except Exception as surprise:  # noqa: BLE001 - whatever it is, it is what we look for
            error = surprise
        yield Trial(name, change, str(release), process_time() - started, error)


def _planned(document: dict[str, Any], rules: EngineRules, gpu: GpuType, flags: ServeFlags) -> Candidate:
    architecture = read_architecture(read_document(document))
    request = PlanRequest(Model("org/changed", None, "inline", architecture), (gpu,), serve=flags)
    return dry_run(request, flags, rules, gpu)


def _flags(dice: random.Random) -> ServeFlags:
    return ServeFlags(
        tensor_parallel_size=dice.choice((1, 1, 2, 3, 8)),
        pipeline_parallel_size=dice.choice((1, 1, 1, 2, 5)),
        kv_cache_dtype=dice.choice(
            ("auto", "auto", "fp8", "int8_per_token_head", "turboquant_k8v4", "nvfp4")
        ),
        max_model_len=dice.choice((None, None, 4096, 131_072, -1)),
        block_size=dice.choice((None, None, None, 16, 48, 128)),
        enable_prefix_caching=dice.choice((None, None, True, False)),
        max_num_seqs=dice.choice((None, 8)),
    )


def _changed(config: Mapping[str, Any], dice: random.Random) -> tuple[dict[str, Any], str]:
    """Return a copy with one to three changes: a value replaced, dropped, scaled or given to another key."""
    document = _copy(config)
    changes = []
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        section, path = _section(document, dice)
        if not section:
            continue
        key = dice.choice(sorted(section))
        changes.append(f"{path}{key}: {_change(section, key, dice)}")
    return document, "; ".join(changes)


def _copy(value: Any) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(value, Mapping):
        return {key: _copy(each) for key, each in value.items()}
    return [_copy(each) for each in value] if isinstance(value, list) else value


def _section(document: dict[str, Any], dice: random.Random) -> tuple[dict[str, Any], str]:
    section, path = document, ""
    while True:
        inner = sorted(key for key, value in section.items() if isinstance(value, dict) and value)
        if not inner or dice.random() < 0.4:
            return section, path
        key = dice.choice(inner)
        section, path = section[key], f"{path}{key}."


def _change(section: dict[str, Any], key: str, dice: random.Random) -> str:
    value = section[key]
    kind = dice.randrange(4)
    if kind == 0:
        del section[key]
        return "dropped"
    if kind == 1 and isinstance(value, int | float) and not isinstance(value, bool):
        section[key] = dice.choice((value + 1, value - 1, value * 2, value // 3, -value))
    elif kind == 1 and isinstance(value, list) and value:
        section[key] = dice.choice((value[:-1], value + value[:1], [*value[1:], dice.choice(JUNK)]))
    elif kind == 2:
        section[key] = section[dice.choice(sorted(section))]
    else:
        section[key] = dice.choice(JUNK)
    return repr(section[key])[:80]
