"""What a release's own block pool is asked about workloads, and our own answers."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from random import Random
from typing import Any, Final

from packaging.version import Version

from service.advisor.candidates.engine_start import build_model, resolved
from service.architecture.layers.compressed_attention import CompressedAttention
from service.engines.engine_rules import EngineRules
from service.engines.flags import ServeFlags
from service.engines.releases import check_flags, rules_for
from service.gpus.catalog import find_gpu
from service.hub.bundled.snapshot import BundledSnapshot
from service.kv_cache.admission import admit, prompt_steps
from service.kv_cache.block_size import resolve_block_sizes
from service.kv_cache.capacity import lay_out, size_cache
from service.kv_cache.layer_caches import layer_caches
from service.kv_cache.specs import AttentionSpec
from service.units import GIB
from tests.accuracy.oracle import asked_architecture
from tests.oracle.comparison import Verdict
from tests.oracle.questions import (
    DEFAULTS,
    NOT_ASKED,
    Case,
    Question,
    UnaskedAttention,
    layers_of,
)
from tests.oracle.translation import words_of_serving

REQUESTS: Final = 12
"""Requests that are tried at most."""
PROMPTS: Final = (1, 100, 999, 4096, 4097, 16_001, 30_000, 65_000)
BATCHES: Final = (512, 2048, 5000, 8192, 16_384)
LENGTHS: Final = (8192, 32_768, 65_536, 131_072)
SIZES: Final = (1.5, 4, 10, 30, 60)
"""GiB of the cache."""
DTYPES: Final = ("auto", "auto", "fp8", "int8_per_token_head", "turboquant_k8v4")
"""Cache dtypes of which some layers' blocks differ in tokens; a release may lack some."""


def admission_questions(release: Version, count: int, seed: int = 5) -> Iterator[Question | None]:
    """Yield random workloads for bundled models; ``None`` where a start ends before there is a pool."""
    rules, random = rules_for(release), Random(f"{release} {seed}")
    models = BundledSnapshot(withheld={}).ids()
    while count:
        model, case, prompt = random.choice(models), _case(random, rules), random.choice(PROMPTS)
        try:
            yield admission_question(model, case, prompt, rules)
        except NOT_ASKED:
            yield None
        else:
            count -= 1


def _case(random: Random, rules: EngineRules) -> Case:
    flags = ServeFlags(
        tensor_parallel_size=random.choice((1, 2, 4, 8)),
        max_model_len=random.choice((*LENGTHS, None)),
        max_num_batched_tokens=random.choice(BATCHES),
        max_num_seqs=256,
        enable_prefix_caching=random.choice((None, True, False)),
        async_scheduling=random.choice((None, False)),
        kv_cache_dtype=random.choice([dtype for dtype in DTYPES if dtype in rules.dtypes.accepted]),
    )
    return Case(flags, random.choice(("h100-sxm-80gb", "b200-180gb", "rtx-3090-24gb")), random.choice(SIZES))


def admission_question(model: str, case: Case, prompt_tokens: int, rules: EngineRules) -> Question:
    """Return one question.

    Raises:
        NOT_ASKED: it cannot be asked or answered.
    """
    check_flags(case.flags, rules.release)
    architecture, engine_config = resolved(asked_architecture(model), case.flags, rules, find_gpu(case.gpu))
    if isinstance(architecture.lead_attention, CompressedAttention):
        raise UnaskedAttention(model)
    backends = build_model(architecture, engine_config)
    layout = lay_out(architecture, engine_config, backends)
    caches = layer_caches(
        architecture, engine_config, backends, resolve_block_sizes(architecture, engine_config, backends)
    )
    if any(isinstance(cache.spec, AttentionSpec) and cache.spec.block_alignment > 1 for cache in caches):
        raise UnaskedAttention(model)
    available = int(case.gib * GIB)
    cache = size_cache(layout, engine_config, available)
    prompt = min(prompt_tokens, cache.max_model_len - REQUESTS)
    request = admit(layout.groups, engine_config, cache.max_model_len, prompt, 1)
    free = cache.num_blocks - 1
    requested = {
        "available_bytes": available,
        "config": words_of_serving(engine_config),
        "prompt_tokens": prompt,
        "steps": list(prompt_steps(layout.groups, engine_config, prompt)),
        "batches_behind": engine_config.batches_behind,
        "requests": REQUESTS,
        **layers_of(architecture, engine_config, backends, caches),
    }
    answer: dict[str, Any] = {"free_blocks": free, "admitted": min(request.at_once(free), REQUESTS)}
    answer["gate"] = [group.blocks for group in request.groups]
    if answer["admitted"]:
        answer["prefill"] = request.peak_prefill_blocks
        answer["settled"] = [group.blocks_after_prefill for group in request.groups]
    return Question(model, case, requested, answer)


def row_of(verdict: Verdict) -> Mapping[str, Any]:
    """Return what is kept of one answer: the question in our own words, and the engine's counts."""
    case, flags = verdict.question.case, asdict(verdict.question.case.flags)
    return {
        "model": verdict.question.model,
        "serve": {name: value for name, value in flags.items() if value != getattr(DEFAULTS, name)},
        "gpu": case.gpu,
        "gib": case.gib,
        "prompt_tokens": verdict.question.requested["prompt_tokens"],
        "answered": verdict.theirs,
    }
