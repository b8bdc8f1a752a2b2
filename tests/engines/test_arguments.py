"""The arguments of every release, held against published commands and against what was read by hand."""

from dataclasses import fields

import pytest
from packaging.version import Version

from service.engines.arguments.arguments import (
    Argument,
    ArgumentKind,
    UnknownArgument,
    arguments_of,
    default_of,
    releases_with,
    variables_of,
)
from service.engines.arguments.effects import (
    Effect,
    Touched,
    effect_of,
    effects_by_name,
    same_as,
)
from service.engines.flags import KEYS_OF, ServeFlags
from service.engines.releases import FLAG_DEFAULTS, FLAG_SINCE, FLAG_UNTIL, RELEASES, rules_for

OLDEST, NEWEST = RELEASES[0], RELEASES[-1]


def argument(spelling: str, release: str) -> Argument:
    return arguments_of(Version(release)).find(spelling).argument


def _has(release: Version, name: str) -> bool:
    """Whether a release has an argument, or a key of a JSON argument."""
    table = arguments_of(release)
    if name not in KEYS_OF:
        return name in table
    return KEYS_OF[name] in table and name in table[KEYS_OF[name]].keys


@pytest.mark.parametrize("release", RELEASES, ids=str)
def test_every_argument_and_variable_has_a_class(release: Version) -> None:
    names = arguments_of(release).names | variables_of(release)
    assert [name for name in sorted(names) if effect_of(name) is None] == []


def test_no_name_is_both_used_and_not() -> None:
    used = ({field.name for field in fields(ServeFlags)} - {"environment"}) | set(same_as())
    assert used & effects_by_name().keys() == set()


def test_only_what_touches_memory_says_in_which_direction() -> None:
    """What can change memory says whether it adds or frees; the rest says nothing of it."""
    named = ((name, effect) for name, effects in effects_by_name().items() for effect in effects)
    for name, effect in named:
        assert (effect.memory is not None) == (Touched.MEMORY in effect.touches), name


@pytest.mark.parametrize("name", [field.name for field in fields(ServeFlags) if field.name != "environment"])
def test_a_flag_of_ours_is_in_the_releases_that_are_said_to_have_it(name: str) -> None:
    """``FLAG_SINCE`` was read by hand, the table by a script: they must agree."""
    having = [release for release in RELEASES if _has(release, name)]
    since = [release for release in RELEASES if release >= FLAG_SINCE.get(name, OLDEST)]
    if name in FLAG_UNTIL:
        since = [release for release in since if release < FLAG_UNTIL[name]]
    if name == "use_fp4_indexer_cache":
        since = [release for release in since if rules_for(release).indexers.fp4_alias]
    assert having == since


@pytest.mark.parametrize("name", sorted(set(FLAG_DEFAULTS) - {"mamba_cache_mode"}))
def test_defaults_that_were_read_by_hand_are_those_of_the_parser(name: str) -> None:
    for release in releases_with(name):
        by_hand = FLAG_DEFAULTS[name].at(release)
        assert default_of(arguments_of(release)[name]) == (by_hand[0] if by_hand else None), release


def test_the_share_of_memory_has_the_default_of_the_rules() -> None:
    for release in RELEASES:
        default = default_of(arguments_of(release)["gpu_memory_utilization"])
        assert round(100 * default) == rules_for(release).capacity.gpu_memory_utilization


@pytest.mark.parametrize(
    ("release", "dtype", "accepted"),
    [
        ("0.10.2", "bfloat16", False),
        ("0.11.0", "bfloat16", True),
        ("0.19.1", "nvfp4", False),
        ("0.20.0", "nvfp4", True),
    ],
)
def test_choices_change_with_the_release(release: str, dtype: str, *, accepted: bool) -> None:
    assert (dtype in argument("--kv-cache-dtype", release).choices) is accepted


def test_spellings_of_published_commands() -> None:
    """Spellings that published commands have, each for the argument that the engine's log then names."""
    table = arguments_of(Version("0.28.0"))
    read = {
        "-tp": "tensor_parallel_size",
        "-pp": "pipeline_parallel_size",
        "-dp": "data_parallel_size",
        "-dpl": "data_parallel_size_local",
        "-dcp": "decode_context_parallel_size",
        "-ep": "enable_expert_parallel",
        "-q": "quantization",
        "-sc": "speculative_config",
        "-cc": "compilation_config",
        "-ac": "attention_config",
        "-asc": "api_server_count",
        "--tensor_parallel_size": "tensor_parallel_size",
        "--kv-cache-memory": "kv_cache_memory_bytes",
    }
    assert {spelling: table.find(spelling).argument.name for spelling in read} == read


def test_a_switch_that_is_off_and_a_key_of_a_value() -> None:
    table = arguments_of(Version("0.28.0"))
    assert table.find("--no-enable-prefix-caching").negated
    assert table.find("--no_enable_prefix_caching").argument.name == "enable_prefix_caching"
    found = table.find("--compilation-config.pass_config.fuse_allreduce_rms")
    assert (found.argument.name, found.key) == ("compilation_config", "pass_config.fuse_allreduce_rms")
    assert table.find("--compilation-config.cudagraph_capture_sizes+").key == "cudagraph_capture_sizes"


@pytest.mark.parametrize(
    ("spelling", "release", "words"),
    [
        ("--swap-space", "0.18.0", "0.18.0 removed it"),
        ("--rope-scaling", "0.33.0", "0.11.1 removed it"),
        ("--attention-backend", "0.12.0", "it came with 0.13.0"),
        ("-O", "0.12.0", "0.12.0 removed it"),
        ("--max-modl-len", "0.33.0", "--max-model-len"),
        ("--no-headless", "0.33.0", "no argument --no-headless"),
        ("--max-num-", "0.33.0", "no argument --max-num-"),
    ],
)
def test_an_unknown_argument_says_where_it_exists(spelling: str, release: str, words: str) -> None:
    with pytest.raises(UnknownArgument) as refused:
        arguments_of(Version(release)).find(spelling)
    assert words in str(refused.value)


def test_a_variable_of_some_releases() -> None:
    """``VLLM_ATTENTION_BACKEND`` gave way to ``--attention-backend``; both worked for some releases."""
    having = releases_with("VLLM_ATTENTION_BACKEND")
    assert having[0] == OLDEST
    assert having[-1] < Version("0.16.0")
    assert "VLLM_ATTENTION_BACKEND" not in variables_of(NEWEST)


@pytest.mark.parametrize(
    ("spelling", "release", "kind"),
    [
        ("--max-model-len", "0.13.0", ArgumentKind.HUMAN_INT),
        ("--max-model-len", "0.14.0", ArgumentKind.HUMAN_INT_OR_AUTO),
        ("--headless", "0.33.0", ArgumentKind.SWITCH),
        ("--enforce-eager", "0.33.0", ArgumentKind.BOOL),
        ("--hf-overrides", "0.33.0", ArgumentKind.JSON_OR_STR),
        ("--hf-token", "0.10.2", ArgumentKind.OPTIONAL_STR),
        ("--middleware", "0.10.2", ArgumentKind.APPEND),
        ("--served-model-name", "0.33.0", ArgumentKind.LIST),
        ("--kv-transfer-config", "0.28.0", ArgumentKind.JSON),
        ("--swap-space", "0.10.2", ArgumentKind.FLOAT),
    ],
)
def test_kinds(spelling: str, release: str, kind: ArgumentKind) -> None:
    assert argument(spelling, release).kind is kind


def test_an_argument_at_its_default_has_no_effect() -> None:
    given = effect_of("enable_elastic_ep", value=True, release=NEWEST)
    left = effect_of("enable_elastic_ep", value=False, release=NEWEST)
    assert given is not None
    assert left is not None
    assert given.effect is Effect.NOT_MODELLED
    assert left.effect is Effect.NO_EFFECT


def test_a_key_without_an_entry_has_its_argument_s_effect() -> None:
    known = effect_of("compilation_config", "compile_sizes")
    other = effect_of("attention_config", "tq_max_kv_splits_for_cuda_graph")
    assert known is not None
    assert known.effect is Effect.NO_EFFECT
    assert other == effect_of("attention_config")


def test_the_head_of_a_command_is_one_of_ours() -> None:
    backend = effect_of("attention_config", "backend")
    method = effect_of("speculative_config", "method")
    assert backend is not None
    assert (backend.effect, backend.used_as) == (Effect.USED, "attention_backend")
    assert method is not None
    assert method.used_as == "speculative_config.method"
    assert effect_of("no_such_argument") is None


def test_an_effect_holds_for_the_releases_that_it_is_dated_to() -> None:
    """vLLM 0.19.0 turns the hybrid cache manager off for --kv-events-config, 0.20.0 no longer."""
    before = effect_of("kv_events_config", "publisher", release=Version("0.19.1"))
    since = effect_of("kv_events_config", "publisher", release=Version("0.20.0"))

    assert before is not None
    assert since is not None
    assert (before.effect, since.effect) == (Effect.NOT_MODELLED, Effect.NO_EFFECT)
