"""Starts with a draft against real engines, and as laws."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from packaging.version import Version

from service.advisor.candidates.engine_start import Start
from service.advisor.dry_runs.dry_run import dry_start
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal, Stage
from service.engines.releases import RELEASES, find_release, rules_for
from service.engines.speculative_config import SpeculativeConfig
from service.gpus.catalog import find_gpu
from service.kv_cache.capacity import size_cache
from service.kv_cache.specs import AttentionSpec, StateSpec, each_layer
from tests.accuracy.oracle import (
    asked_architecture,
    bundled_architecture,
    difference,
    read_rows,
)
from tests.kv_cache.drafts import architecture_of_row, drafted, recorded_rows
from tests.kv_cache.test_oracle import CASES

ROWS = recorded_rows()
H100 = find_gpu("h100-sxm-80gb")
QWEN, DEEPSEEK, GPT = "Qwen/Qwen3-Next-80B-A3B-Instruct", "deepseek-ai/DeepSeek-V3", "openai/gpt-oss-20b"

OTHER_STATE = {"6adf37eef10e": "the layer keeps 32 bits where the flag says 16, which alignment heeds"}
"""Rows that differ by something else than their draft."""


def label(key: tuple[str, str]) -> str:
    return "-".join(key)


@pytest.mark.parametrize("key", sorted({(row["engine_version"], row["config"]) for row in ROWS}), ids=label)
def test_every_answer_of_an_engine_agrees_in_every_field(key: tuple[str, str]) -> None:
    rules = rules_for(find_release(key[0]))
    disagreements = [
        f"{row['id']} {row['serve']}: {found}"
        for row in ROWS
        if (row["engine_version"], row["config"]) == key
        and row["id"] not in OTHER_STATE
        and (found := difference(row, architecture_of_row(row), rules)) is not None
    ]
    assert not disagreements


def test_the_answers_cover_every_method_and_refusals_of_drafts() -> None:
    methods = {row["serve"]["speculative_config"].get("method") for row in ROWS}
    assert methods >= {None, "mtp", "deepseek_mtp", "qwen3_next_mtp", "eagle", "eagle3", "draft_model"}
    assert methods >= {"ngram", "ngram_gpu"}
    words = " ".join(row["expect"].get("error", {}).get("message", "") for row in ROWS)
    assert "SupportsPP" in words
    assert "Duplicate layer name" in words
    assert "same vocabulary size" in words


def unset(row: Mapping[str, Any]) -> bool:
    return "speculative_config" not in row["serve"] and row["config"] in {QWEN, DEEPSEEK}


@pytest.mark.parametrize("row", [row for row in read_rows(CASES) if unset(row)], ids=lambda row: row["id"])
def test_published_answers_without_a_draft_stay_as_they_are(row: Mapping[str, Any]) -> None:
    rules = rules_for(find_release(row["engine_version"]))
    assert difference(row, asked_architecture(row["config"]), rules) is None


# ------------------------------------------------------------------------------------------------ laws


def start(model: str, release: str | Version, speculative: dict[str, Any] | None, **flags: Any) -> Start:  # noqa: ANN401
    config = None if speculative is None else SpeculativeConfig.parse(speculative)
    draft = None if speculative is None or speculative.get("method") == "ngram" else speculative.get("model")
    rules = rules_for(Version(str(release)))
    return dry_start(drafted(model, draft), ServeFlags(speculative_config=config, **flags), rules, H100)


MTP = {"method": "mtp", "num_speculative_tokens": 1}
NGRAM = {"method": "ngram", "num_speculative_tokens": 3}
HEAD = {"method": "eagle3", "model": "drafts/EAGLE3-gpt-oss-20b", "num_speculative_tokens": 3}


@pytest.mark.parametrize(
    "release", [release for release in RELEASES if release >= Version("0.11.0")], ids=str
)
def test_a_prediction_layer_is_one_more_layer_of_the_models_own_kind(release: Version) -> None:
    plain, drafted = start(DEEPSEEK, release, None), start(DEEPSEEK, release, MTP)

    (layers,), (more,) = plain.layout.layers, drafted.layout.layers

    own, drafted_too = each_layer(layers), each_layer(more)
    assert drafted_too[: len(own)] == own
    assert [spec for _, spec in drafted_too[len(own) :]] == [own[-1][1]]


@pytest.mark.parametrize(
    "release", [release for release in RELEASES if release >= Version("0.15.0")], ids=str
)
def test_more_guesses_never_leave_more_room(release: Version) -> None:
    def concurrency(tokens: int) -> float:
        speculative = {"method": "mtp", "num_speculative_tokens": tokens}
        started = start(QWEN, release, speculative, max_model_len=32768)
        return size_cache(started.layout, started.engine_config, 40 << 30).max_concurrency

    found = [concurrency(tokens) for tokens in (1, 2, 3, 5)]
    assert found == sorted(found, reverse=True)


@pytest.mark.parametrize("release", RELEASES, ids=str)
def test_lookups_add_no_layer(release: Version) -> None:
    plain, drafted = start(GPT, release, None), start(GPT, release, NGRAM)
    assert drafted.layout.layers == plain.layout.layers


def test_drafts_live_on_the_last_stage() -> None:
    started = start(DEEPSEEK, "0.32.0", MTP, pipeline_parallel_size=2)
    first, last = map(each_layer, started.layout.layers)
    assert (first[-1][0], last[-1][0]) == (30, 61)
    assert (len(first), len(last)) == (31, 31)


def test_chunks_share_no_pool_with_layers_that_read_hidden_states() -> None:
    # vLLM 0.32.0, VllmConfig: "not yet supported with chunked local attention + eagle".
    head = drafted("meta-llama/Llama-3.1-8B", "drafts/EAGLE-LLaMA3.1-Instruct-8B").drafts.checkpoint
    assert head is not None
    model = bundled_architecture("meta-llama/Llama-4-Scout-17B-16E-Instruct")
    model = replace(model, drafts=replace(model.drafts, checkpoint=head))
    flags = ServeFlags(max_model_len=131_072, tensor_parallel_size=8)
    rules = rules_for(Version("0.32.0"))

    def kinds(speculative: dict[str, Any]) -> list[str]:
        given = replace(flags, speculative_config=SpeculativeConfig.parse(speculative))
        return [group.kind for group in dry_start(model, given, rules, H100).layout.groups]

    assert kinds(NGRAM) == [*["chunked_local_attention"] * 3, "full_attention"]
    assert kinds({"model": head.id, "num_speculative_tokens": 2}) == ["full_attention"]


def states(started: Start) -> tuple[StateSpec, ...]:
    (layers,) = started.layout.layers
    return tuple(cache.spec for cache in layers if isinstance(cache.spec, StateSpec))


@pytest.mark.parametrize(
    ("release", "model", "rows"),
    [
        ("0.16.0", QWEN, 3),
        ("0.17.0", "NemotronHForCausalLM/Nemotron-H-8B-Base-8K", 3),
        ("0.26.0", "KimiLinearForCausalLM/kimi-linear-small", 0),
        ("0.27.0", "KimiLinearForCausalLM/kimi-linear-small", 3),
        ("0.28.0", "Lfm2ForCausalLM/LFM2-350M", 0),
        ("0.29.0", "Lfm2ForCausalLM/LFM2-350M", 3),
        ("0.33.0", "JambaForCausalLM/jamba-small-dense", 0),
    ],
)
def test_convolutions_keep_a_row_per_guess_since_their_release(release: str, model: str, rows: int) -> None:
    plain, one, three = (
        states(start(model, release, speculative))[0].state_bytes
        for speculative in (None, {**NGRAM, "num_speculative_tokens": 1}, NGRAM)
    )
    row = one - plain
    assert three - plain == 3 * row
    assert (row > 0) is (rows > 0)


@pytest.mark.parametrize(
    ("release", "mode", "pages"),
    [("0.14.1", None, 1), ("0.15.0", None, 4), ("0.22.0", None, 4), ("0.24.0", "align", 5)],
)
def test_a_request_holds_a_state_per_guess(release: str, mode: str | None, pages: int) -> None:
    caching = {} if mode is None else {"enable_prefix_caching": True, "mamba_cache_mode": mode}
    started = start(QWEN, release, NGRAM, max_model_len=8192, **caching)
    assert states(started)[0].blocks_per_request(started.engine_config.demand()) == pages


@pytest.mark.parametrize(("release", "extra"), [("0.21.0", 0), ("0.22.0", 3)])
def test_states_of_every_block_are_joined_by_those_of_guesses(release: str, extra: int) -> None:
    flags = {"enable_prefix_caching": True, "mamba_cache_mode": "all", "max_model_len": 8192}
    model = "JambaForCausalLM/jamba-small-dense"
    plain, drafted = (start(model, release, speculative, **flags) for speculative in (None, NGRAM))
    counts = [
        states(started)[0].blocks_per_request(started.engine_config.demand()) for started in (plain, drafted)
    ]
    assert counts[1] - counts[0] == extra


def test_windows_reach_back_for_several_modules() -> None:
    started = start(GPT, "0.28.0", HEAD, max_model_len=65536, max_num_batched_tokens=2048)
    demand = started.engine_config.demand()
    window = next(
        cache.spec
        for cache in started.layout.layers[0]
        if isinstance(cache.spec, AttentionSpec) and cache.spec.sliding_window
    )
    further = replace(demand, retained_tokens=16)
    assert demand.retained_tokens == 0
    assert window.blocks_per_request(further) == window.blocks_per_request(demand) + 1


@pytest.mark.parametrize("release", ["0.10.2", "0.13.0", "0.16.0"])
def test_states_but_of_qwen_refused_guesses_at_first(release: str) -> None:
    with pytest.raises(EngineRefusal, match="Mamba with speculative decoding") as caught:
        start("JambaForCausalLM/jamba-small-dense", release, NGRAM)
    assert caught.value.stage is Stage.PAGE_SIZE
    assert start(QWEN, release, NGRAM).engine_config.speculative_tokens == 3
