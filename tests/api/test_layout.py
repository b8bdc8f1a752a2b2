"""Texts for people: they fit the terminal, reasons come first, and values are named by their options."""

import json
import os
import re
import shlex
from functools import cache
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient
from typer.testing import CliRunner

from service.application.text.layout import LEAST_CUT, Column, drawn
from service.cli.bad_input import option_name
from service.cli.main import cli
from tests.api.plan_bodies import LLAMA_CONFIG

TAKE_VALUES = {
    "--hf-overrides", "--max-model-len", "--gpu-memory-utilization", "--max-num-batched-tokens",
    "--max-num-seqs", "--tensor-parallel-size", "--pipeline-parallel-size", "--cpu-offload-gb",
    "--quantization", "--kv-cache-dtype", "--decode-context-parallel-size", "checkpoint",
}  # fmt: skip
QUESTIONS = [
    "plan google/gemma-3-27b-it --gpu rtx-4090-24gb",
    "plan google/gemma-4-31B-it --gpu rtx-3090-24gb --tensor-parallel-size 2",
    "plan Qwen/Qwen3-32B --gpu h100-sxm-80gb --gpu l4-24gb --include levers --prompt-tokens 8000",
    "plan Qwen/Qwen3-32B --prompt-tokens 8000 --output-tokens 30000 --concurrent-requests 30",
    "check Qwen/Qwen3-235B-A22B-FP8 --max-model-len 131072",
    "check google/gemma-3-27b-it --sort memory",
    "plan Qwen/Qwen3.6-35B-A3B --gpu h100-sxm-80gb --include levers",
    "plan Qwen/Qwen2.5-VL-7B-Instruct --gpu l4",
    "plan deepseek-ai/DeepSeek-V3.1 --gpu h200 --prompt-tokens 8k --output-tokens 1k --concurrent-requests 9",
    "plan Qwen/Qwen3-8B --gpu l4,h100:2 --compare-engines vllm,llama.cpp,sglang,tensorrt-llm",
]


def text(question: str, width: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return _written(question, width)


@cache
def _written(question: str, width: int) -> list[str]:
    """Return the lines at a width that the environment says; many tests read them."""
    assert os.environ["COLUMNS"] == str(width)
    return CliRunner().invoke(cli, [*shlex.split(question), "--format", "table"]).stdout.splitlines()


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("question", QUESTIONS)
def test_lines_fit_the_terminal(question: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands are not broken; a long address or a JSON object cannot be.

    An object stands on one line with its option, so that both can be copied into a command.
    """
    for line in text(question, width, monkeypatch):
        words = line.split()
        whole = line.startswith("vllm serve") or "://" in line or len(words) == 1
        option = len(words) == 2 and words[0].startswith("--") and words[1].startswith("'{")
        assert whole or option or len(line) <= width, line


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("question", QUESTIONS)
def test_no_option_is_parted_from_its_value(
    question: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line that ends in an option which takes a value cannot be copied into a command."""
    parted = [
        (line, following)
        for line, following in pairwise(text(question, width, monkeypatch))
        if line.split() and line.split()[-1] in TAKE_VALUES and following.startswith(" ")
    ]
    assert parted == []


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("question", QUESTIONS)
def test_no_number_is_parted_from_its_unit(
    question: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    units = ("tokens", "GiB", "GPUs", "B", "requests", "blocks", "ms", "%")
    parted = [
        (line, following)
        for line, following in pairwise(text(question, width, monkeypatch))
        if line.strip() and line.split()[-1].replace(",", "").replace(".", "").isdecimal()
        and following.strip() and following.split()[0].rstrip(".,;:)") in units
    ]  # fmt: skip
    assert parted == []


@pytest.mark.parametrize(
    "question", [each for each in QUESTIONS if each.count("--gpu ") == 1 and "--compare" not in each]
)
def test_a_narrow_table_of_one_gpu_type_says_contexts_and_weights(
    question: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tokens of starts with other contexts, or with rounded weights, are not alike."""
    lines = text(question, 80, monkeypatch)
    titles = [line for line in lines if line.startswith("cache dtype ")]
    assert all(" context " in title for title in titles)
    at = lines.index(titles[0])
    rows = list(takewhile(str.strip, lines[at + 2 :]))
    quantized = any("--quantization" in line for line in lines if line.startswith("vllm serve"))
    assert not quantized or " weights " in titles[0] or any("fp8 weights" in row for row in rows)


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("question", QUESTIONS)
def test_no_thought_is_longer_than_a_few_lines(
    question: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason, what is short, speed and price are lines of their own."""
    found = text(question, width, monkeypatch)
    start = next((at for at, line in enumerate(found) if line.startswith("vllm serve ")), None)
    if start is None:
        return
    reasons = takewhile(lambda line: not line.startswith(("  !", "  log:")), found[start + 2 :])
    thoughts = "\n".join(reasons).replace("\n    ", " ").split("\n")
    assert max(each.count(". ") for each in thoughts) <= 4


def test_what_goes_on_in_the_head_is_indented(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but a new statement, a rule, a row or a command starts at the margin."""
    lines = text("plan Qwen/Qwen3-32B --gpu l40s-48gb", 60, monkeypatch)
    head = lines[: next(at for at, line in enumerate(lines) if line.startswith("vllm serve"))]
    starts = ("Qwen/Qwen3-32B", "Qwen3ForCausalLM", "Note:", "== ", "Recommended, ")
    assert any(line.startswith("  ") for line in head)
    assert [line for line in head if line and not line.startswith((*starts, "  "))] == []


TERMS = {"context": "{} tokens of context", "cache dtype": "({}) cache", "weights": "{} weights"}
"""How a row says what has no column."""


@pytest.mark.parametrize("width", [60, 80, 120, 160])
@pytest.mark.parametrize("model", ["Qwen/Qwen3-32B"])
def test_each_row_says_the_terms_on_which_it_was_planned(
    model: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Figures of an fp8 cache, of rounded weights or of a short context are no figures of the whole model."""
    question = f"plan {model} --gpu h100,l40s,b200,rtx-pro-6000-server,t4,h200 --kv-cache-dtype auto"
    lines = [*text(question, width, monkeypatch), ""]
    plans = json.loads(CliRunner().invoke(cli, [*shlex.split(question), "--format", "json"]).stdout)["plans"]
    title = next(line for line in lines if line.startswith("GPU "))
    most = " ".join(" ".join(lines).split()).partition("Rows that do not say otherwise: ")[2]
    terms = {each["gpu"]["id"]: _terms(each["recommended"]) for each in plans}

    assert all(len({each[name] for each in terms.values()}) > 1 for name in TERMS)
    for gpu, values in terms.items():
        at = next(number for number, line in enumerate(lines) if line.split()[:1] == [gpu])
        below = " ".join(map(str.strip, takewhile(lambda line: line.startswith("  "), lines[at + 1 :])))
        for name, value in values.items():
            words = TERMS[name].format(value)
            own = value in lines[at] if f" {name} " in f"{title} " else words in below
            otherwise = TERMS[name].partition("}")[2] in below
            assert own or (words in most and not otherwise), (gpu, name, value)


def _terms(best: dict[str, Any]) -> dict[str, str]:
    """Return the terms of a start, the weights by the option of its command."""
    words = shlex.split(best["command"])
    quantized = words[words.index("--quantization") + 1] if "--quantization" in words else "unchanged"
    return {
        "context": f"{best['kv_cache']['max_model_len']:,}",
        "cache dtype": best["resolved_kv_cache_dtype"],
        "weights": quantized.removesuffix("_per_tensor"),
    }


def test_a_refusal_that_all_gpus_share_is_printed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Qwen3-235B-A22B has max_position_embeddings 40,960, so no GPU helps a longer context."""
    lines = text("plan Qwen/Qwen3-235B-A22B-FP8 --max-model-len 131072", 110, monkeypatch)
    words = " ".join(" ".join(lines).split())

    assert words.count("User-specified max_model_len (131072)") == 1
    assert "Fix: --max-model-len 40960: " in words
    assert words.count("Fixes are tried on") == 1
    assert len(lines) <= 16


def test_cache_dtypes_that_nobody_asked_for_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ada reads no FP4 cache, and MLA's formats are no formats of this model's attention."""
    lines = text("plan google/gemma-3-27b-it --gpu rtx-4090-24gb", 110, monkeypatch)
    every_line = "\n".join(lines)
    absent = re.search(
        r"^(\d+) cache dtypes are not for this model on this GPU; --all lists them\.$",
        every_line,
        re.MULTILINE,
    )

    assert absent is not None
    assert int(absent[1]) > 5
    assert not any(dtype in every_line for dtype in ("nvfp4", "fp8_ds_mla", "turboquant_k8v4"))
    assert not any("AttentionSelectorConfig" in line for line in lines)
    every = text("plan google/gemma-3-27b-it --gpu rtx-4090-24gb --all", 110, monkeypatch)
    assert any("AttentionSelectorConfig" in line for line in every)


def test_words_that_differ_in_their_numbers_alone_are_whole_once(monkeypatch: pytest.MonkeyPatch) -> None:
    question, words = "plan Qwen/Qwen3-VL-8B-Instruct --gpu l4", "To serve at least one request"
    short, every = (" ".join(text(f"{question}{more}", 110, monkeypatch)) for more in ("", " --all"))

    assert short.count(words) == 1
    assert every.count(words) > 5
    same = [
        part for part in short.split("Does not start, for the same reason: ")[1:] if part.startswith("TP 1")
    ]
    for dtype in ("nvfp4", "turboquant_k8v4", "int4_per_token_head"):
        (words,) = [part for part in same if dtype in part.partition(" GiB ")[0]]
        assert ": 0.86 GiB left for the cache are too few Fix: --max-model-len " in " ".join(words.split())


def test_one_change_for_several_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of one recurrent state each are too few for 1,024 sequences with every cache dtype."""
    lines = text("plan Qwen/Qwen3.6-35B-A3B --gpu h100", 110, monkeypatch)
    assert sum("exceeds available Mamba cache blocks" in " ".join(pair) for pair in pairwise(lines)) <= 2
    fixes = [line for line in lines if line.startswith("  Fix: --enforce-eager")]
    assert len(fixes) == len(set(fixes)) <= 5, "of nine cache dtypes"
    assert any(
        re.fullmatch(r"  Fix: --enforce-eager: [\d,]+ to [\d,]+ tokens(?: \(uncertain\))?", line)
        for line in fixes
    )


def test_a_plan_names_quantized_checkpoints_with_their_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Qwen3-32B: 31.2 billion elements in linear layers, 2 x 0.78 of 16 bits in the vocabulary."""
    words = " ".join(" ".join(text("plan Qwen/Qwen3-32B --gpu h100", 110, monkeypatch)).split())
    size = (31_205_621_760 + 2 * 2 * 151_936 * 5120) / 2**30

    assert f"Quantized checkpoints: Qwen/Qwen3-32B-FP8 (about {size:.0f} GiB of weights), " in words
    fixed = text("check Qwen/Qwen3-32B --gpu l40s", 200, monkeypatch)
    fixes = [line.strip() for line in fixed if line.startswith("  Fix: checkpoint")]
    assert fixes[0].startswith(
        "Fix: checkpoint Qwen/Qwen3-32B-FP8 (about 32 GiB of weights) --max-model-len "
    )
    assert fixes[1].startswith("Fix: checkpoint Qwen/Qwen3-32B-AWQ (about 18 GiB of weights): ")


def test_an_asked_cache_dtype_is_refused_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    question = "plan google/gemma-3-27b-it --gpu rtx-4090-24gb --kv-cache-dtype nvfp4"
    assert any("AttentionSelectorConfig" in line for line in text(question, 110, monkeypatch))


def test_the_memory_of_a_refused_start_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    """62.5 GB of weights on two cards of 24 GB: none is left for the cache, and some is missing."""
    question = "check google/gemma-4-31B-it --gpu rtx-3090-24gb --tensor-parallel-size 2"
    (line,) = [each for each in text(question, 110, monkeypatch) if each.startswith("    KV cache")]
    amount, missing = line.split()[2:4]
    assert amount == "none,"
    assert float(missing) > 0
    assert "too little" in line
    assert "-" not in line.replace("non-torch", "")


def test_the_command_stands_before_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = text("plan google/gemma-3-27b-it --gpu rtx-4090-24gb", 110, monkeypatch)
    assert [line for line in lines[:12] if line.startswith("vllm serve google/gemma-3-27b-it")]


@pytest.mark.parametrize("only", ["starting", "serving"])
def test_rows_are_sorted_and_left_out(only: str, monkeypatch: pytest.MonkeyPatch) -> None:
    work = "--prompt-tokens 8000 --output-tokens 30000 --concurrent-requests 30"
    lines = text(f"plan Qwen/Qwen3-32B {work} --sort gpus --only {only}", 120, monkeypatch)
    rule = next(i for i, line in enumerate(lines) if line.startswith("---"))
    rows = [
        line for line in lines[rule + 1 :] if " (" in line and not line.startswith((" ", "(", "Rows that"))
    ]
    gpus = [int(row.split()[1]) for row in rows]

    assert rows
    assert gpus == sorted(gpus)
    if only == "serving":
        assert all("all 30" in row for row in rows)


def test_no_name_reaches_the_terminal_as_a_control_sequence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA_CONFIG))
    name = shlex.quote("a\x1b[31m\r\nvllm serve evil\x9b")
    lines = text(f"check {name} --config {tmp_path}/config.json --gpu h100-sxm-80gb", 110, monkeypatch)

    assert all(line.isprintable() for line in lines)
    assert not any(line.startswith("vllm serve evil") for line in lines)


@pytest.mark.parametrize(
    ("pointer", "option"),
    [
        ("/serve/gpu_memory_utilization", "--gpu-memory-utilization"),
        ("/gpu_memory_utilization", "--gpu-memory-utilization"),
        ("/gpus/0", "--gpu"),
        ("/engine/version", "--engine-version"),
        ("/engine/patches/1", "--patch"),
        ("/workload/prompt_tokens", "--prompt-tokens"),
        ("/serve/speculative_config/model", "--speculative-config.model"),
        ("/model", "MODEL"),
        ("/config/architectures", "--config"),
    ],
)
def test_a_value_is_named_by_its_option(pointer: str, option: str) -> None:
    assert option_name(pointer) == option


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--gpu-memory-utilization 95", "--gpu-memory-utilization must be between 0 and 1 (got 95)\n"),
        ("--max-model-len 0", "--max-model-len must be -1 or at least 1\n"),
        (
            "--speculative-config 3",
            (
                "--speculative-config must be an object, such as "
                '{"method": "ngram", "num_speculative_tokens": 3} (got 3)\n'
            ),
        ),
        (
            "--include all",
            "--include must be 'memory', 'cache', 'candidates', 'levers', 'curve' or 'details' (got 'all')\n",
        ),
    ],
)
def test_a_wrong_value_is_named_in_our_own_words(words: str, said: str) -> None:
    result = CliRunner().invoke(cli, ["plan", "Qwen/Qwen3-32B", *words.split()])
    assert (result.exit_code, result.stderr) == (2, said)


CELLS = st.text(st.characters(min_codepoint=48, max_codepoint=122), max_size=40)


@given(st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=5), st.integers(60, 160))
def test_a_table_loses_spare_columns_before_others(rows: list[tuple[str, str, str]], width: int) -> None:
    """The first column is never lost; no line is longer than allowed unless nothing else is left."""
    columns = [Column("first", left=True), Column("spare", spare=1), Column("last", left=True)]
    named = [dict(zip(("first", "spare", "last"), row, strict=True)) for row in rows]
    named[0] = {"first": "1", "spare": "2", "last": "3"}
    heading, rule, *lines = drawn(columns, named, width)

    assert heading.split()[0] == "first"
    assert len(lines) == len(rows)
    assert all(len(line) <= width for line in (heading, rule, *lines))
    if "spare" not in heading:
        longest = [max(len(name), *(len(row[name]) for row in named)) for name in ("first", "spare")]
        assert sum(longest) + LEAST_CUT > width - 6


def test_adapters_have_a_line_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """What they take is the difference between two starts, with and without them."""
    question = "check Qwen/Qwen3-8B --gpu h100:1"
    plain, served = (
        text(f"{question}{more}", 110, monkeypatch)
        for more in ("", " --enable-lora --max-loras 4 --max-lora-rank 64")
    )

    def amount(lines: list[str], name: str) -> float:
        (line,) = [each for each in lines if each.strip().startswith(name)]
        return float(line.removeprefix(" ").strip().removeprefix(name).split()[0])

    added = amount(served, "weights") - amount(plain, "weights")
    # 36 layers: 4 adapters of 64 rows beside each linear layer make about 1.4 GiB.
    assert abs(amount(served, "of which LoRA adapters") - added) < 0.02
    assert 1.2 < added < 1.6
    assert not any("adapters" in line for line in plain)


def test_a_start_on_several_nodes_warns_beside_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = text("plan deepseek-ai/DeepSeek-V3.1 --gpu h100", 110, monkeypatch)
    at = next(at for at, line in enumerate(lines) if line.startswith("vllm serve"))
    assert "this line alone does not start them" in " ".join(lines[at + 1 : at + 4])


@pytest.mark.parametrize("width", [80, 120])
def test_what_decides_is_said_and_not_the_memory(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Published builds have no kernels for compute capability 7.0: memory decides nothing there."""
    lines = text("plan Qwen/Qwen3-32B --gpu v100-sxm2-32gb,l40s", width, monkeypatch)
    table = " ".join(" ".join(lines[: lines.index("", 6)]).split())
    assert "hold no kernels for compute capability 7.0" in table
    assert "left for the cache" not in table


def test_a_manifest_that_starts_every_node_is_not_said_to_start_one(client: TestClient) -> None:
    """What is written for a cluster, and read back; the commands of its two nodes stand in it."""
    flags = {"data_parallel_size": 16, "enable_expert_parallel": True, "tensor_parallel_size": 1}
    body = {"model": "deepseek-ai/DeepSeek-V3.1", "gpus": ["h200-sxm-141gb"], "serve": flags, "search": False}
    manifest = client.post("/plan", params={"format": "kubernetes"}, json=body).text
    read = {"command": manifest, "gpus": ["h200-sxm-141gb"]}
    said = " ".join(client.post("/plan", headers={"Accept": "text/plain"}, json=read).text.split())
    alone = " ".join(client.post("/plan", headers={"Accept": "text/plain"}, json=body).text.split())

    assert manifest.count("vllm serve") == 2
    assert "! 16 GPUs (TP 1 x DP 16 x EP) are 2 nodes of 8: this line alone does not start them" in alone
    assert "this line alone" not in said
    assert "the text that was read has those of all" in said
