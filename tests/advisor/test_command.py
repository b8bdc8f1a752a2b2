"""The command line: only flags of the release, only what differs from its defaults, safe in any shell."""

import json
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

from service.advisor.candidates.command import DEFAULTS, ENVIRONMENT, serve_command
from service.engines.flags import KEYS_OF, ServeFlags
from service.engines.releases import (
    FLAG_SINCE,
    FLAG_UNTIL,
    RELEASES,
    UnavailableFlag,
    check_flags,
    rules_for,
)
from service.engines.speculative_config import SpeculativeConfig
from service.startup_log.environment.arguments import command_arguments
from service.startup_log.text.lines import read_lines

RECORDED = json.loads((Path(__file__).parents[1] / "data" / "engines" / "flags.json").read_text("utf-8"))
RULES = rules_for(Version("0.19.0"))
NAMES = tuple(field.name for field in fields(ServeFlags) if field.name not in {*KEYS_OF, ENVIRONMENT})


def _recorded() -> Iterator[tuple[Version, Mapping[str, Any]]]:
    """Yield every release with the flags that it registers and their defaults."""
    known: dict[str, Any] = {}
    for release, changed in RECORDED["releases"].items():
        known |= changed
        yield Version(release), {name: value for name, value in known.items() if value != "<removed>"}


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (ServeFlags(), []),
        (ServeFlags(tensor_parallel_size=1), []),
        (ServeFlags(kv_cache_dtype="auto", mamba_cache_dtype="auto", mamba_ssm_cache_dtype="auto"), []),
        (ServeFlags(tensor_parallel_size=2), ["--tensor-parallel-size", "2"]),
        (ServeFlags(enforce_eager=True), ["--enforce-eager"]),
        (ServeFlags(enable_prefix_caching=True), ["--enable-prefix-caching"]),
        (ServeFlags(async_scheduling=False), ["--no-async-scheduling"]),
        (ServeFlags(gpu_memory_utilization=0.96), ["--gpu-memory-utilization", "0.96"]),
        (ServeFlags(kv_cache_memory_bytes=7), ["--kv-cache-memory-bytes", "7"]),
        (ServeFlags(kv_cache_dtype_skip_layers=("0", "1")), ["--kv-cache-dtype-skip-layers", "0", "1"]),
        (ServeFlags(max_model_len=-1), ["--max-model-len", "-1"]),
        (ServeFlags(dtype="--trust-remote-code"), ["--dtype=--trust-remote-code"]),
        (
            ServeFlags(speculative_config=SpeculativeConfig(method="mtp", num_speculative_tokens=2)),
            ["--speculative-config.method", "mtp", "--speculative-config.num_speculative_tokens", "2"],
        ),
        (
            ServeFlags(speculative_config=SpeculativeConfig(model="a/b", parallel_drafting=True)),
            ["--speculative-config.model", "a/b", "--speculative-config.parallel_drafting", "true"],
        ),
    ],
)
def test_only_what_differs_from_the_defaults_is_said(flags: ServeFlags, words: list[str]) -> None:
    assert shlex.split(serve_command("org/model", flags, RULES)) == ["vllm", "serve", "org/model", *words]


@pytest.mark.parametrize(
    ("release", "utilization", "said"),
    [("0.19.1", 0.9, False), ("0.19.1", 0.92, True), ("0.20.0", 0.92, False), ("0.20.0", 0.9, True)],
)
def test_a_default_is_the_releases_own(release: str, utilization: float, said: bool) -> None:
    command = serve_command("m", ServeFlags(gpu_memory_utilization=utilization), rules_for(Version(release)))

    assert ("--gpu-memory-utilization" in command) is said


def test_a_requested_revision_is_in_the_command() -> None:
    assert shlex.split(serve_command("m", ServeFlags(), RULES, "v1"))[3:] == ["--revision", "v1"]
    assert shlex.split(serve_command("m", ServeFlags(), RULES, "-v"))[3:] == ["--revision=-v"]


def test_every_release_has_the_flags_that_its_data_list() -> None:
    """Against the flags that each release registers: those of a later release are refused, no others."""
    assert [release for release, _ in _recorded()] == list(RELEASES)
    for release, registered in _recorded():
        listed = {
            name
            for name in NAMES
            if FLAG_SINCE.get(name, release) <= release
            and (name not in FLAG_UNTIL or release < FLAG_UNTIL[name])
        }
        assert listed == registered.keys() & {*NAMES}
        assert "revision" in registered


def test_what_is_left_out_is_what_the_release_takes() -> None:
    """Each value that is never said equals the release's own default, or is no choice at all."""
    for release, registered in _recorded():
        for name in registered.keys() & {*NAMES}:
            default = registered[name]
            if default is None or str(default).startswith("<"):
                continue
            flags = replace(DEFAULTS, **{name: default})
            assert serve_command("m", flags, rules_for(release)) == "vllm serve m", (release, name)


@pytest.mark.parametrize("name", FLAG_SINCE)
def test_a_flag_of_a_later_release_is_refused_before_any_command(name: str) -> None:
    value: Any = {
        "kv_cache_dtype_skip_layers": ("0",),
        "language_model_only": True,
        "mamba_block_size": 8,
        "lora_target_modules": ("q_proj",),
    }.get(name, "all")
    older = [release for release in RELEASES if release < FLAG_SINCE[name]][-1]

    with pytest.raises(UnavailableFlag):
        check_flags(replace(DEFAULTS, **{name: value}), older)


@pytest.mark.parametrize("name", FLAG_UNTIL)
def test_a_flag_that_was_removed_is_refused_by_later_releases(name: str) -> None:
    last = [release for release in RELEASES if release < FLAG_UNTIL[name]][-1]
    given: dict[str, Any] = {name: 2}
    flags = replace(DEFAULTS, **given)

    check_flags(flags, last)
    with pytest.raises(UnavailableFlag, match=f"was removed in {FLAG_UNTIL[name]}"):
        check_flags(flags, FLAG_UNTIL[name])


@pytest.mark.parametrize("name", ["a/b; rm -rf $HOME `id`", "a'b\"c", "$(id)", "a\nb", "*", "~", "#"])
def test_a_hostile_name_cannot_leave_its_word(name: str) -> None:
    assert shlex.split(serve_command(name, ServeFlags(), RULES))[2] == name


@pytest.mark.parametrize("name", ["--help", "-h", "--api-key=x"])
def test_a_name_is_never_an_option(name: str) -> None:
    assert shlex.split(serve_command(name, ServeFlags(), RULES)) == ["vllm", "serve", f"./{name}"]


@pytest.mark.skipif(shutil.which("sh") is None, reason="no shell")
@pytest.mark.parametrize(
    "name", ["a b; echo hurt >&2", "$(echo hurt >&2)", "`echo hurt >&2`", "'; echo hurt >&2; '"]
)
def test_a_real_shell_runs_nothing_of_a_name(name: str) -> None:
    command = serve_command(name, ServeFlags(dtype=name), RULES)
    ran = subprocess.run(  # noqa: S603 - the point of the test
        ["/bin/sh", "-c", 'vllm() { printf \'%s\\0\' "$@"; }; eval "$1"', "sh", command],
        capture_output=True,
        check=True,
        text=True,
    )

    assert ran.stderr == ""
    assert ran.stdout.split("\0")[:-1] == ["serve", name, "--dtype", name]


FLAGS = st.builds(
    ServeFlags,
    tensor_parallel_size=st.none() | st.integers(2, 64),
    max_model_len=st.none() | st.just(-1) | st.integers(1, 1 << 30),
    gpu_memory_utilization=st.none() | st.floats(0.01, 1, exclude_max=True),
    kv_cache_dtype=st.none() | st.sampled_from(["fp8", "int8_per_token_head"]),
    kv_cache_dtype_skip_layers=st.just(()) | st.just(("0", "sliding_window")),
    enable_prefix_caching=st.none() | st.booleans(),
    enforce_eager=st.booleans(),
    attention_backend=st.none() | st.just("FLASH_ATTN"),
)


@given(FLAGS)
def test_a_command_has_every_flag_of_the_request(flags: ServeFlags) -> None:
    """Read back as a log's command, it tells the same flags."""
    specified = command_arguments(read_lines(serve_command("org/model", flags, RULES)))

    assert specified is not None
    assert specified.model == "org/model"
    given: dict[str, Any] = {**specified.flags}
    given["kv_cache_dtype_skip_layers"] = tuple(given.get("kv_cache_dtype_skip_layers", ()))
    left_out = {"gpu_memory_utilization": 0.9} if flags.gpu_memory_utilization == 0.9 else {}
    assert ServeFlags(**{**left_out, **given}) == flags
