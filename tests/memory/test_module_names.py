"""Names and patterns by which checkpoints leave modules unquantized."""

import re
import time
from fnmatch import fnmatchcase

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.architecture.config import Config
from service.architecture.scheme_readers import read_scheme_groups
from service.architecture.weight_schemes import LONG
from service.memory.weights.names.module_names import (
    PREFIXES,
    ModuleNames,
    all_readable,
    is_safe,
    module_names,
)

NAME = "layers.3.mlp.experts.0.gate_proj"


@pytest.mark.parametrize(
    "entry",
    [
        "model.layers.3.mlp.experts.0.gate_proj",
        "model.language_model.layers.3.mlp.experts*",
        "language_model.model.layers.3.mlp.*",
        "*.mlp.experts.*",
        r"re:.*mlp\.experts.*",
        r"re:model\.layers\.3\.mlp.*",
    ],
)
def test_a_module_is_found_under_every_spelling(entry: str) -> None:
    assert NAME in ModuleNames.parse((entry,))


@pytest.mark.parametrize(
    "entry",
    [
        "model.layers.30.mlp.experts.0.gate_proj",
        "model.layers.3.mlp",
        r"re:.*mlp\.(gate|up|gate_up|down)_proj.*",
        "lm_head",
    ],
)
def test_a_similar_name_is_another_module(entry: str) -> None:
    assert NAME not in ModuleNames.parse((entry,))


def test_a_fragment_is_a_whole_part_of_the_path() -> None:
    names = ModuleNames.parse(("visual", "mlp.gate"))

    assert names.within("visual.blocks.0.attn.qkv")
    assert names.within("layers.3.mlp.gate")
    assert not names.within("layers.3.mlp.gate_up_proj")
    assert names.occurs_in("layers.3.mlp.gate_up_proj")


def test_a_part_of_a_name_with_a_models_prefix_is_its_beginning() -> None:
    """vLLM 0.33.0 compares it with `language_model.model.layers.1.mlp.gate_up_proj` and a tower's names."""
    names = ModuleNames.parse(("model.layers.1.",))

    assert names.occurs_in("layers.1.mlp.gate_up_proj")
    assert not names.occurs_in("layers.10.mlp.gate_up_proj")
    assert not names.occurs_in("vision_tower.encoder.layers.1.mlp.fc1")


@pytest.mark.parametrize(
    "pattern",
    [
        r"(a+)+$",
        r"(a|a)*b",
        r"(?=a*)b",
        r"(a)\1",
        "a" * 1000,
        "(",
        "(?!a).*",
        "(" * 250 + "a" + ")" * 250,
        "(" + "a|" * 100 + "b)" + "(a|b)" * 9,
        "[[a]",
        r"a\bb",
    ],
)
def test_an_expression_that_may_run_for_ever_matches_nothing(pattern: str) -> None:
    assert not is_safe(pattern)
    names = ModuleNames.parse((f"re:{pattern}",))
    assert "a" not in names
    assert not names.readable


@pytest.mark.parametrize(
    "pattern",
    [
        r".*self_attn.*",
        r".*mlp\.(gate|up|gate_up|down)_proj.*",
        r"visual\..*$",
        # Found in published checkpoints.
        r".*q_proj$",
        r".*attn.*(fused_wqa_wkv|wq_b|wo_a|wo_b)$",
        r"model\.layers\.(?:[0-9]|[1-5][0-9])\.self_attn\..*",
        r"^model\.layers\.\d{1,2}\.mlp",
    ],
)
def test_the_expressions_of_real_checkpoints_are_safe(pattern: str) -> None:
    assert is_safe(pattern)


# Names that a backtracking engine takes very long to reject.
HOSTILE = [".?" * 60 + "Z", "(.|.)" * 8 + "Z", ".*" * 200 + "Z", ".*l.*l.*l.*l.*Z", "(.?.?|.?)" * 7 + "Z"]


@pytest.mark.parametrize("pattern", HOSTILE)
def test_a_hostile_expression_costs_no_more_than_its_length(pattern: str) -> None:
    names = ModuleNames.parse((f"re:{pattern}",))
    assert names.readable
    started = time.process_time()
    for layer in range(1000):
        assert f"layers.{layer}.self_attn.qkv_proj.llll" not in names
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    "entries",
    [
        tuple(f"re:.*a+{number}" for number in range(16_000)),
        tuple(f"*a{number}*b*" for number in range(16_000)),
        tuple("*" + "a*" * 200 + str(number) for number in range(1_000)),
    ],
)
def test_patterns_beyond_count_are_not_read(entries: tuple[str, ...]) -> None:
    started = time.process_time()
    assert not all_readable(entries)
    names = ModuleNames.parse((*entries, "layers.1.mlp"))
    assert "layers.1.mlp" in names
    for layer in range(1000):
        assert f"layers.{layer}.a1.x" not in names
        assert not names.within(f"layers.{layer}.a1.x")
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    ("form", "found"),
    [
        (r"re:.*\.a{}\.x", True),
        (r"re:.*a{}", True),
        (r"re:layers\.1\.a{}", True),
        (r"re:model\.layers\.1\.a{}", True),
        (r"re:a{}", False),
        ("*a{}*", True),
        ("layers.1.a{}*", True),
        ("model.layers.1.a{}*", True),
        ("a{}*", False),
        ("*layers.1*.a{}", False),
    ],
)
def test_a_hundred_thousand_literal_patterns_are_read(form: str, found: bool) -> None:
    """What Python's `re.match` and `fnmatch` find for each of them."""
    entries = tuple(form.format(number) for number in range(5, 100_005))
    name = "layers.1.a77.x"
    if form.startswith("re:"):
        assert found == any(re.match(each[3:], p + name) for each in entries[60:80] for p in PREFIXES)
    names = ModuleNames.parse(entries)
    if form.endswith("*") or form.startswith("re:"):
        assert names.readable
    assert (name in names) == found
    assert "layers.2.b1.x" not in names


ATOMS = st.sampled_from(["a", "b", r"\.", ".", "[ab]", "[^a]", r"\d", r"\w", "1", r"[\d.]", "[a-b1]"])
REPEATS = st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{1,2}", "{0,2}", "{1,}", "*?", "+?", "??"])
SEQUENCES = st.lists(st.builds(str.__add__, ATOMS, REPEATS), max_size=4).map("".join)
GROUPS = st.builds(
    "({}{}){}".format,
    st.sampled_from(["", "?:"]),
    st.lists(SEQUENCES, max_size=3).map("|".join),
    st.sampled_from(["", "?"]),
)
PATTERNS = st.builds(
    "{}{}{}{}".format,
    st.sampled_from(["", "^"]),
    st.lists(SEQUENCES | GROUPS, max_size=3).map("".join),
    st.sampled_from(["", "$"]),
    SEQUENCES.map(lambda text: f"|{text}") | st.just(""),
)


@settings(max_examples=500)
@given(PATTERNS, st.lists(st.text(alphabet="ab.1", max_size=7), min_size=4, max_size=8))
def test_an_expression_matches_what_pythons_own_engine_does(pattern: str, names: list[str]) -> None:
    read = ModuleNames.parse((f"re:{pattern}",))
    assert read.readable
    for name in names:
        assert (name in read) == any(re.match(pattern, prefix + name) for prefix in PREFIXES)


@settings(max_examples=300)
@given(
    st.lists(
        st.sampled_from(["*", "?", "a", "b", ".", "[ab]", "[!a]", "[", "]", "[a", "!", "[]a]", "[a-b]"]),
        max_size=6,
    ).map("".join),
    st.lists(st.text(alphabet="ab.1[]!", max_size=6), min_size=4, max_size=8),
)
def test_a_glob_matches_what_fnmatch_does(glob: str, names: list[str]) -> None:
    glob += "*"
    read = ModuleNames.parse((glob,))
    for name in names:
        assert (name in read) == fnmatchcase(name, glob)


@given(
    st.lists(st.text(alphabet="ab.", min_size=1, max_size=4), max_size=70),
    st.text(alphabet="ab.", min_size=1, max_size=8),
)
def test_a_fragment_is_found_in_long_lists_as_in_short_ones(entries: list[str], name: str) -> None:
    assert ModuleNames.parse(tuple(entries)).occurs_in(name) == any(entry in name for entry in entries)


@given(
    st.lists(st.text(alphabet="ab.", min_size=1, max_size=4), max_size=4),
    st.text(alphabet="ab.", min_size=1, max_size=8),
)
def test_a_part_of_a_path_is_found_as_by_looking_for_it(entries: list[str], name: str) -> None:
    # An entry that ends with a dot names the path before it.
    wanted = {*entries, *(each.removesuffix(".") for each in entries)}
    assert ModuleNames.parse(tuple(entries)).within(name) == any(
        f".{each}." in f".{name}." for each in wanted
    )


@pytest.mark.parametrize("form", ["{}*", "*{}*", "re:{}", "re:.*{}"])
@given(
    st.lists(st.text(alphabet="xy.", max_size=3).map("x{}".format), min_size=1, max_size=4),
    st.text(alphabet="xy.1", min_size=1, max_size=8),
)
def test_a_pattern_matches_in_a_long_list_as_alone(form: str, texts: list[str], name: str) -> None:
    """What `re.match` and `fnmatch` say of each pattern; entries written alike are not taken apart.

    No prefix of a model has an x.
    """
    regular = form.startswith("re:")
    texts = [re.escape(text) for text in texts] if regular else texts
    patterns = [form.format(text) for text in texts]
    others = [form.format(f"z{number:020}") for number in range(2 * LONG)]
    expected = any(
        bool(re.match(each[3:], name)) if regular else fnmatchcase(name, each) for each in patterns
    )
    assert (name in ModuleNames.parse((*patterns, *others))) == expected
    assert (name in ModuleNames.parse(tuple(patterns))) == expected


@given(
    st.lists(
        st.builds(
            str.format,
            st.sampled_from(["{}", "{}*", "*{}*", "*{}", "re:{}", "re:.*{}", "re:.*{}$"]),
            st.text(alphabet="xy", max_size=3).map("x{}".format),
        ),
        min_size=1,
        max_size=6,
    ),
    st.text(alphabet="xy.1", min_size=1, max_size=8),
)
def test_entries_of_several_forms_match_in_a_long_list_as_alone(entries: list[str], name: str) -> None:
    """What `re.match`, `fnmatch` and equality say of each entry. No prefix of a model has an x."""
    forms = ("{}", "{}*", "*{}*", "re:{}", "re:.*{}")
    others = [form.format(f"z{number:020}") for number in range(LONG + 1) for form in forms]
    expected = any(
        bool(re.match(each[3:], name)) if each.startswith("re:") else fnmatchcase(name, each)
        for each in entries
    )

    assert (name in ModuleNames.parse((*entries, *others))) == expected


# Entries that have the same signs, but between other characters.
COLLIDING = [
    (r"re:.*a", r"re:a.*", r"re:b.*a"),
    (r"re:x\.a", r"re:x\d.a", r"re:x\w\.a"),
    ("x.a*", "x.*a", "*x.a"),
    ("*a*", "a**", "a*b*"),
    (r"re:a\.b", r"x:a\.b", r"a:re:\.b"),
    ("a.b\nc", "a.b", "c"),
]


@pytest.mark.parametrize("entries", COLLIDING)
@given(st.integers(0, 2), st.text(alphabet="abx.1", min_size=1, max_size=5))
def test_entries_with_equal_signs_are_told_apart(entries: tuple[str, ...], turn: int, name: str) -> None:
    """What `re.match`, `fnmatch` and equality say of each entry of a list that is too long for one automaton.

    The entries are repeated, so a list of them means what the three of them mean.
    """
    several = (*entries[turn:], *entries[:turn]) * LONG
    expected = any(
        bool(re.match(each[3:], name)) if each.startswith("re:") else fnmatchcase(name, each)
        for each in entries
    )
    read = ModuleNames.parse(several)

    assert (name in read) == expected or not read.readable


EXTRA = st.sampled_from(["{}", r".*{}", r"{}\.", r".*{}\.1", "{}.*x", "{}+", "{}x$"])


@given(
    st.lists(st.builds(str.format, EXTRA, st.text(alphabet="xy", min_size=1, max_size=3)), max_size=6),
    st.text(alphabet="xy.1", min_size=1, max_size=8),
)
def test_keys_of_a_long_object_are_names_or_searched_for(keys: list[str], name: str) -> None:
    """AutoRound's `extra_config`: a key without operators is a whole name, others are as for `re.search`.

    No prefix of a model has an x or y.
    """
    others = [form.format(number) for number in range(LONG + 1) for form in ("z{}", r".*z\.{}", r"z_\.{}")]
    section = {"bits": 4, "group_size": 128, "extra_config": {key: {"bits": 8} for key in [*keys, *others]}}
    groups = read_scheme_groups(Config(section), "auto-round")
    expected = any(re.search(key, name) if set("\\*+^$").intersection(key) else key == name for key in keys)

    found = any(name in module_names(group.targets) for group in groups if group.targets)

    assert found == expected


@given(st.lists(st.sampled_from(["a", "b.c", "model.layers.1.mlp", ""]), min_size=1, max_size=12))
def test_parts_of_experts_are_named_by_the_fused_experts(parents: list[str]) -> None:
    """ModelOpt's mixed precision: the name before the first `.experts.`, in whatever order the parts come."""
    names = [f"{parent}.experts.{number}.up_proj" for number, parent in enumerate(parents)]
    names += ["lm_head", "x.experts", "a.experts.0.experts.1"]
    layers = {name: {"quant_algo": "FP8"} for name in names}
    (group,) = read_scheme_groups(Config({"quantized_layers": layers}), "modelopt_mixed")

    assert set(group.targets) == {*(f"{p}.experts" for p in parents), "lm_head", "x.experts", "a.experts"}


def test_a_name_of_a_long_object_comes_before_an_expression() -> None:
    """AutoRound's `extra_config`, vLLM 0.33.0, _resolve_raw: names are looked for first."""
    extra: dict[str, object] = {r".*x\.a": {"bits": 8}, "layers.x.a": {"bits": 2}}
    extra |= {rf".*z{number}\.q": {"bits": 8} for number in range(2 * LONG)}
    groups = read_scheme_groups(Config({"bits": 4, "group_size": 128, "extra_config": extra}), "auto-round")

    found = [
        next(g for g in groups if name in module_names(g.targets)) for name in ("layers.x.a", "layers.x.ab")
    ]

    assert [group.scheme and group.scheme.bits for group in found] == [2, 8]


@given(st.text(alphabet="ab.1", min_size=1, max_size=8))
def test_overrides_of_a_long_object_are_found_by_the_beginning_of_a_name(name: str) -> None:
    """GPTQ's `dynamic`: 2,000 patterns of two kinds with their signs, as `re.match` finds them."""
    kept = {rf"+:z\.{number}": {"bits": 8} for number in range(LONG)} | {r"+:a\.b": {"bits": 8}}
    left: dict[str, object] = {rf"-:y\.{number}": {} for number in range(LONG)}
    section = Config({"bits": 4, "group_size": 128, "dynamic": {**kept, **left, "-:b": {}}})
    groups = read_scheme_groups(section, "gptq")

    bits = [group.scheme and group.scheme.bits for group in groups if name in module_names(group.targets)]

    assert bits == ([8] if re.match(r"a\.b", name) else [None] if name.startswith("b") else [])
