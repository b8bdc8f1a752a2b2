"""What must hold of any selection."""

import re
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from packaging.version import Version

from service.backends.attention_request import AttentionRequest
from service.backends.backend_rules import UnknownBackend, release_rules, rules_on_gpu
from service.backends.conditions import first_outcome
from service.backends.flash_attention import subject_of
from service.backends.heads import heads_seen_by_backends
from service.backends.selection import candidates, select_backend
from service.backends.validation import invalid_reasons, kernel_block_sizes_of
from service.engines.refusal import EngineRefusal
from service.gpus.capability import ComputeCapability

RELEASES = [
    Version(text)
    for text in (
        *("0.10.2", "0.11.0", "0.11.1", "0.12.0", "0.13.0", "0.14.1", "0.15.1", "0.16.0", "0.17.1", "0.18.1"),
        *("0.19.0", "0.19.1", "0.20.0", "0.20.2", "0.21.0", "0.22.1", "0.23.0", "0.24.0", "0.25.1", "0.26.0"),
        *("0.27.0", "0.28.0", "0.29.0", "0.30.0", "0.31.0", "0.32.0", "0.33.0"),
    )
]
CAPABILITIES = [
    ComputeCapability.parse(text) for text in ("7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "10.3", "12.0")
]
CACHE_DTYPES = (
    *("auto", "bfloat16", "float16", "fp8", "fp8_e4m3", "fp8_e5m2", "int8_per_token_head", "nvfp4"),
    *("fp8_per_token_head", "turboquant_k8v4", "turboquant_3bit_nc"),
)

releases = st.sampled_from(RELEASES)
capabilities = st.sampled_from(CAPABILITIES)
multi_head = st.builds(
    AttentionRequest,
    head_size=st.sampled_from((32, 64, 80, 96, 128, 192, 256, 512)),
    dtype=st.sampled_from(("bfloat16", "float16")),
    kv_cache_dtype=st.sampled_from(CACHE_DTYPES),
    num_heads=st.sampled_from((8, 16, 64)),
    num_kv_heads=st.sampled_from((1, 8)),
    block_size=st.sampled_from((None, 8, 16, 48, 128)),
    sinks=st.booleans(),
    mm_prefix=st.booleans(),
    non_causal=st.booleans(),
    sliding_window=st.booleans(),
    logits_soft_cap=st.booleans(),
    flash_attn_version=st.sampled_from((None, 2, 4)),
)
mla = st.builds(
    AttentionRequest,
    head_size=st.sampled_from((320, 576)),
    dtype=st.sampled_from(("bfloat16", "float16")),
    kv_cache_dtype=st.sampled_from(CACHE_DTYPES),
    num_heads=st.sampled_from((8, 16, 128)),
    num_kv_heads=st.just(1),
    block_size=st.sampled_from((None, 16, 32, 64, 128)),
    mla=st.just(True),
    qk_nope_head_dim=st.sampled_from((64, 96, 128, 192)),
    qk_rope_head_dim=st.sampled_from((0, 64)),
    kv_lora_rank=st.sampled_from((256, 512)),
)
sparse = st.builds(
    replace, mla, sparse=st.just(True), index_topk=st.sampled_from((1024, 2048)), head_size=st.just(576)
)
requests = st.one_of(multi_head, mla, sparse)


def outcome_of(
    request: AttentionRequest, release: Version, capability: ComputeCapability, chosen: str | None = None
) -> str:
    try:
        return select_backend(request, release, capability, chosen=chosen).name
    except EngineRefusal as refusal:
        return refusal.message


@given(requests, releases, capabilities)
def test_the_same_question_has_the_same_answer(
    request: AttentionRequest, release: Version, capability: ComputeCapability
) -> None:
    assert outcome_of(request, release, capability) == outcome_of(request, release, capability)


@given(requests, releases, capabilities)
def test_the_first_valid_backend_is_selected(
    request: AttentionRequest, release: Version, capability: ComputeCapability
) -> None:
    try:
        selected = select_backend(request, release, capability)
    except EngineRefusal:
        return
    rules = release_rules(release)
    subject = subject_of(request, rules, capability)
    names = candidates(rules, subject)
    assert not invalid_reasons(rules.traits(selected.name), subject, rules)
    assert all(
        invalid_reasons(rules.traits(name), subject, rules) for name in names[: names.index(selected.name)]
    )


@given(requests, releases, capabilities)
def test_a_valid_choice_is_always_honoured(
    request: AttentionRequest, release: Version, capability: ComputeCapability
) -> None:
    rules = release_rules(release)
    for name in candidates(rules, subject_of(request, rules, capability)):
        traits, subject = rules.traits(name), subject_of(request, rules, capability, name)
        valid = not invalid_reasons(traits, subject, rules)
        built = first_outcome(traits.construction_failures, subject) is None
        answer = outcome_of(request, release, capability, name)
        assert valid is not answer.startswith(f"Selected backend AttentionBackendEnum.{name} is not valid")
        assert (answer == name) is (valid and built)


@given(requests, releases, capabilities)
def test_a_block_size_only_ever_excludes(
    request: AttentionRequest, release: Version, capability: ComputeCapability
) -> None:
    # FlashAttention's version, and so what it serves, follows the block size at head size 256 on Blackwell.
    assume(request.head_size != 256)
    rules = release_rules(release)
    free = subject_of(replace(request, block_size=None), rules, capability)
    bound = subject_of(request, rules, capability)
    for name in candidates(rules, bound):
        without, given_size = (
            invalid_reasons(rules.traits(name), free, rules),
            invalid_reasons(rules.traits(name), bound, rules),
        )
        assert [reason for reason in given_size if reason != "block_size not supported"] == list(without)


@given(requests, releases, capabilities, st.booleans())
def test_every_fix_that_is_named_works(
    request: AttentionRequest, release: Version, capability: ComputeCapability, choose: bool
) -> None:
    chosen = ("TRITON_MLA" if request.mla else "TRITON_ATTN") if choose else None
    try:
        select_backend(request, release, capability, chosen=chosen)
    except EngineRefusal as refusal:
        for fix in refusal.find_fixes():
            changed, backend = request, chosen
            if match := re.fullmatch(r"--kv-cache-dtype (\w+)", fix):
                changed = replace(request, kv_cache_dtype=match[1])
            elif match := re.fullmatch(r"--attention-backend (\w+)", fix):
                backend = match[1]
            else:
                assert fix == "omit --block-size"
                changed = replace(request, block_size=None)
            select_backend(changed, release, capability, chosen=backend)


@given(requests, releases, capabilities)
def test_a_backend_accepts_the_block_size_it_prefers(
    request: AttentionRequest, release: Version, capability: ComputeCapability
) -> None:
    try:
        sizes = select_backend(request, release, capability).kernel_block_sizes
    except EngineRefusal:
        return
    assert sizes.accepts(sizes.preferred())
    assert sizes.accepts(sizes.minimum)


@pytest.mark.parametrize("release", RELEASES, ids=str)
def test_every_backend_in_an_order_is_described(release: Version) -> None:
    rules = release_rules(release)
    orders = (*rules.multi_head_priorities, *rules.mla_priorities)
    named = {name for order in orders for name in order.outcome}
    assert named <= set(rules.backends)
    for order in rules.mla_priorities:
        assert all(rules.traits(name).mla for name in order.outcome)
    for order in rules.multi_head_priorities:
        assert not any(rules.traits(name).mla for name in order.outcome)


def test_a_backend_must_declare_kernel_block_sizes_for_every_layer() -> None:
    request = AttentionRequest(
        head_size=128, dtype="bfloat16", kv_cache_dtype="auto", num_heads=32, num_kv_heads=8
    )
    rules = release_rules(Version("0.24.0"))
    subject = subject_of(request, rules, ComputeCapability.parse("9.0"))
    silent = replace(rules.traits("FLASH_ATTN"), kernel_block_sizes=())
    with pytest.raises(LookupError, match="FLASH_ATTN declares no kernel block size"):
        kernel_block_sizes_of(silent, subject)


def test_a_backend_of_a_later_release_is_unknown() -> None:
    request = AttentionRequest(
        head_size=128, dtype="bfloat16", kv_cache_dtype="turboquant_k8v4", num_heads=32, num_kv_heads=8
    )
    hopper = ComputeCapability.parse("9.0")
    assert select_backend(request, Version("0.20.0"), hopper, chosen="TURBOQUANT").name == "TURBOQUANT"
    with pytest.raises(UnknownBackend, match="TURBOQUANT"):
        select_backend(request, Version("0.19.1"), hopper, chosen="TURBOQUANT")


def test_a_release_before_the_first_described_is_not_guessed() -> None:
    with pytest.raises(LookupError, match=r"not dated before 0\.10\.2"):
        release_rules(Version("0.10.1"))


@given(releases, capabilities, multi_head | mla)
def test_rules_decided_for_a_gpu_say_what_all_rules_say(
    release: Version, capability: ComputeCapability, request: AttentionRequest
) -> None:
    rules, decided = release_rules(release), rules_on_gpu(release, capability)
    subject = subject_of(request, rules, capability)
    assert subject_of(request, decided, capability) == subject
    assert candidates(decided, subject) == candidates(rules, subject)
    assert set(decided.backends) == set(rules.backends)
    for name in rules.backends:
        whole, part = rules.traits(name), decided.traits(name)
        assert invalid_reasons(part, subject, decided) == invalid_reasons(whole, subject, rules)
        for outcomes in ("cache_dtypes", "kernel_block_sizes", "construction_failures", "run_failures"):
            assert first_outcome(getattr(part, outcomes), subject) == first_outcome(
                getattr(whole, outcomes), subject
            )


@given(
    releases, capabilities, multi_head, st.sampled_from(((64, 8), (32, 4), (8, 1), (8, 8), (1, 1), (25, 2)))
)
def test_heads_that_ask_alike_are_answered_alike(
    release: Version, capability: ComputeCapability, request: AttentionRequest, heads: tuple[int, int]
) -> None:
    other = replace(request, num_heads=heads[0], num_kv_heads=heads[1])
    requested = [
        heads_seen_by_backends(release, each.num_heads, each.num_kv_heads) for each in (request, other)
    ]
    assume(requested[0] == requested[1])
    assert _answer(request, release, capability) == _answer(other, release, capability)


def _answer(request: AttentionRequest, release: Version, capability: ComputeCapability) -> object:
    try:
        backend = select_backend(request, release, capability)
    except EngineRefusal as refusal:
        return refusal.type, refusal.stage, refusal.message
    return backend, backend.cache_dtype


def test_what_newer_backends_ask_of_heads_is_whether_several_queries_read_one_key() -> None:
    """multi_head.toml: FlashInfer's block sizes on data-center Blackwell, from 0.24.0 on."""
    newest = Version("0.33.0")
    assert (
        heads_seen_by_backends(newest, 32, 8)
        == heads_seen_by_backends(newest, 4, 1)
        != heads_seen_by_backends(newest, 8, 8)
    )
    assert heads_seen_by_backends(Version("0.19.0"), 32, 8) == heads_seen_by_backends(Version("0.19.0"), 8, 8)
