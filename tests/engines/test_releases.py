import gzip
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import date
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import pytest
from packaging.version import Version

from service.engines import releases
from service.engines.dated import parse_value
from service.engines.flags import ServeFlags
from service.engines.releases import (
    PATCHES,
    RELEASE_FACTS,
    RELEASES,
    RULES,
    Check,
    ReleaseFacts,
    UnavailableFlag,
    UnknownPatch,
    UnknownRelease,
    check_flags,
    find_release,
    resolve_release,
    rules_for,
)
from service.engines.rules.admission import AdmissionGate
from service.engines.rules.pages import PageUnification
from service.engines.timeline import InvalidTimeline

CACHE_DTYPES_IN_0_20_2 = [
    "auto", "float16", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc", "fp8_ds_mla",
    "turboquant_k8v4", "turboquant_4bit_nc", "turboquant_k3v4_nc", "turboquant_3bit_nc",
    "int8_per_token_head", "fp8_per_token_head", "nvfp4",
]  # fmt: skip
"""As the validation error of vLLM 0.20.2 lists them."""


def test_every_rule_of_every_release_is_dated_with_a_source() -> None:
    for release in RELEASES:
        rules = rules_for(release)
        assert rules.release == release
    for rule in RULES:
        assert rule.summary
        assert all(change.source for change in rule.timeline.changes)


def test_every_change_is_sourced_in_the_release_that_brought_it() -> None:
    for rule in RULES:
        for change in rule.timeline.changes[1:]:
            assert f"vLLM {change.since}" in change.source, rule.name
            assert change.since in RELEASES


def test_every_timeline_reaches_back_to_the_oldest_release() -> None:
    assert {rule.timeline.changes[0].since for rule in RULES} == {RELEASES[0]}


def test_the_cache_dtypes_of_0_20_2_are_those_that_it_lists() -> None:
    assert list(rules_for(Version("0.20.2")).dtypes.accepted) == CACHE_DTYPES_IN_0_20_2


@pytest.mark.parametrize(
    ("text", "release"), [("0.23.1rc1.dev531+gf1d4", "0.24.0"), ("0.19.2.dev7", "0.20.0")]
)
def test_a_build_between_two_releases_is_on_its_way_to_the_later_one(text: str, release: str) -> None:
    assert find_release(text) == Version(release)


@pytest.mark.parametrize("text", ["0.23.1", "0.23.1.post1", "0.33.1.dev4", "0.10.1rc1", "0.1.dev1"])
def test_what_no_release_follows_or_was_is_refused(text: str) -> None:
    with pytest.raises(UnknownRelease):
        find_release(text)


@pytest.mark.parametrize("release", [each for each in RELEASES if RELEASE_FACTS[each].checked], ids=str)
@pytest.mark.parametrize("suffix", ["", ".post1", "+cu129"])
def test_a_checked_release_is_planned_as_itself_without_a_doubt(release: Version, suffix: str) -> None:
    found = resolve_release(f"{release}{suffix}")
    assert (found.release, found.doubt) == (release, "")
    assert rules_for(found) is rules_for(release)
    assert rules_for(release).doubts == ()


@pytest.mark.parametrize(
    "text", ["0.34.0", "v0.34.0", "0.34.0.dev5", "0.33.1", "0.33.1.dev4+g1a2b3c4", "0.34.0rc1", "1.0.0", "9"]
)
def test_a_version_beyond_the_newest_is_planned_as_that_and_says_so(text: str) -> None:
    found = resolve_release(text)
    assert found.release == Version("0.33.0")
    assert text in found.doubt
    assert "0.33.0" in found.doubt
    assert replace(rules_for(found), doubt="") == rules_for(Version("0.33.0"))


@pytest.mark.parametrize(
    ("text", "release"),
    [("0.23.1rc1.dev531+gf1d4", "0.24.0"), ("0.19.2.dev7", "0.20.0"), ("0.19.0.dev3", "0.19.0")],
)
def test_a_development_build_is_never_taken_for_its_release(text: str, release: str) -> None:
    found = resolve_release(text)
    assert found.release == Version(release)
    assert text in found.doubt
    assert rules_for(found).doubts == (found.doubt,)


@pytest.mark.parametrize(
    ("text", "release"),
    [("0.21.0+2325b6f0.dev", "0.21.0"), ("0.17.1+a03ca76a.nv26.03.46967107", "0.17.1")],
)
def test_a_vendor_s_build_may_have_what_came_later(text: str, release: str) -> None:
    """What NVIDIA's containers 26.05.post1-py3 and 26.03-py3 print of themselves."""
    found = resolve_release(text)
    assert found.release == Version(release)
    assert text in found.doubt
    assert rules_for(found).doubts == (found.doubt,)


@pytest.mark.parametrize("text", ["0.23.1", "0.20.3", "0.10.1", "0.10.1.dev4", "0.8.5", "newest", ""])
def test_a_version_that_never_was_or_is_too_old_is_refused(text: str) -> None:
    with pytest.raises(UnknownRelease):
        resolve_release(text)


@pytest.fixture
def newer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Version]:
    """Add a release that nobody has checked: the rules of the newest hold for it."""
    added = Version("0.34.0")
    facts = {**RELEASE_FACTS, added: ReleaseFacts(date(2026, 11, 20), frozenset())}
    monkeypatch.setattr(releases, "RELEASE_FACTS", facts)
    monkeypatch.setattr(releases, "RELEASES", (*RELEASES, added))
    _forget_releases()
    yield added
    _forget_releases()


def _forget_releases() -> None:
    """Clear what is remembered of releases, before and after one is added."""
    for remembered in (releases.find_release, releases.resolve_release, releases._released):  # noqa: SLF001
        remembered.cache_clear()


def test_a_release_that_nobody_checked_is_planned_in_doubt(newer: Version) -> None:
    found = resolve_release("0.34.0")
    assert found.release == newer
    assert "0.34.0 were not checked" in found.doubt
    assert rules_for(newer).doubts == rules_for(found).doubts == (found.doubt,)
    assert resolve_release(None) == found


def test_what_is_newer_still_is_planned_as_the_newest_checked_release(newer: Version) -> None:
    assert resolve_release(f"{newer.major}.{newer.minor + 1}.0").release == Version("0.33.0")
    assert resolve_release("0.34.0.dev5").release == newer


TESTS = Path(__file__).parents[1]


def test_releases_were_published_in_their_order() -> None:
    dates = [RELEASE_FACTS[release].released for release in RELEASES]
    assert dates == sorted(dates)


def test_a_release_is_called_checked_as_its_evidence_is_in_the_repository() -> None:
    evidence: Mapping[Check, set[str]] = {
        Check.ORACLE: set(_oracle_releases()),
        Check.LOGS: set(_logged_releases()),
        Check.SOURCES: set(_read_releases()),
    }
    for check, found in evidence.items():
        checked = {str(release) for release, facts in RELEASE_FACTS.items() if check in facts.checked}
        assert checked == found & set(map(str, RELEASES)), check


def _oracle_releases() -> Iterator[str]:
    for path in TESTS.joinpath("data", "oracle").iterdir():
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
        yield from re.findall(r'"engine_version": ?"([\d.]+)"', text)


def _logged_releases() -> Iterator[str]:
    path = TESTS.joinpath("data", "startups", "startups.jsonl.gz")
    for row in map(json.loads, gzip.decompress(path.read_bytes()).decode().splitlines()):
        if not row.get("non_upstream_or_non_gpu"):
            yield str(row.get("vllm_version"))


def _read_releases() -> Iterator[str]:
    """Yield the releases that some source of the bundled data names."""
    for path in Path(str(files("service"))).rglob("*.toml"):
        for source in re.findall(r'source = "([^"]*)"', path.read_text("utf-8")):
            yield from re.findall(r"\b\d+\.\d+\.\d+\b", source)


@pytest.mark.parametrize("text", ["0.19.0", "v0.19.0", "0.19.0.post1", "0.19.0+cu129", "0.19.0.dev3"])
def test_post_local_and_dev_versions_map_to_their_release(text: str) -> None:
    assert find_release(text) == Version("0.19.0")


def test_no_version_means_the_newest() -> None:
    assert find_release(None) == RELEASES[-1]


@pytest.mark.parametrize(
    ("text", "nearest"),
    [("0.20.3", "0.20.2"), ("0.9.1", "0.10.2"), ("9.9.9", "0.33.0"), ("banana", "0.33.0")],
)
def test_an_unknown_release_names_the_newest_and_nearest(text: str, nearest: str) -> None:
    with pytest.raises(UnknownRelease) as caught:
        find_release(text)
    assert caught.value.given == text
    assert caught.value.newest == str(RELEASES[-1])
    assert nearest in caught.value.nearest


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("0.2.20", "0.20.2"),
        ("v0.02.2", "0.22.0"),
        ("0.8.5", "0.10.2"),
        ("0.19.7", "0.19.1"),
    ],
)
def test_the_nearest_release_has_the_same_numbers_in_another_order(text: str, first: str) -> None:
    with pytest.raises(UnknownRelease) as caught:
        find_release(text)
    assert caught.value.nearest[0] == first
    assert 1 <= len(caught.value.nearest) <= 5


@pytest.mark.parametrize("patch", sorted(PATCHES))
@pytest.mark.parametrize("release", RELEASES)
def test_a_patch_changes_only_what_it_claims(patch: str, release: Version) -> None:
    plain, patched = rules_for(release), rules_for(release, [patch])
    changed = {rule.name for rule in RULES if rule.of(plain) != rule.of(patched)}
    assert changed <= set(PATCHES[patch].rules)


def test_patches_lay_over_in_the_order_given() -> None:
    rules = rules_for(Version("0.20.2"), ["vllm#40391", "vllm#39866"])
    assert rules.pages.unification is PageUnification.DIVIDE_OR_PAD_TO_DIVISOR
    assert rules.admission.gate is AdmissionGate.WINDOW_PLUS_CHUNK


def test_an_unknown_patch_names_the_nearest() -> None:
    with pytest.raises(UnknownPatch) as caught:
        rules_for(RELEASES[0], ["vllm#40392"])
    assert caught.value.nearest[0] == "vllm#40391"


def test_a_flag_that_came_later_is_named() -> None:
    flags = ServeFlags(kv_cache_dtype_skip_layers=("0",))
    check_flags(flags, Version("0.19.0"))
    with pytest.raises(UnavailableFlag) as caught:
        check_flags(flags, Version("0.18.1"))
    assert (caught.value.flag, caught.value.since) == ("kv_cache_dtype_skip_layers", "0.19.0")


def test_every_rule_has_a_field_and_every_field_a_rule() -> None:
    with pytest.raises(InvalidTimeline, match="gate"):
        list(releases._read_rules("admission", {}))  # noqa: SLF001 - what loading does


@pytest.mark.parametrize("value", [1, "true", None])
def test_a_truth_value_must_be_one(value: object) -> None:
    with pytest.raises(TypeError):
        parse_value(bool, value)


def test_the_package_states_its_version() -> None:
    assert Version(version("dryserve")) >= Version("0.1.0")


def test_latest_is_the_newest_release() -> None:
    assert resolve_release("latest") == resolve_release(None)
