"""The causes of real failures, by the words that were logged."""

import gzip
import json
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest

from service.startup_log.failures.logged_failure import Failure
from service.startup_log.log import read_log
from tests.accuracy.startups_rows import DATA, Row
from tests.startup_log.logged_rows import read_row, started_rows

CAUSES = tomllib.loads((DATA / "log-causes.toml").read_text("utf-8"))
FAILED = [row for row in started_rows() if row["status"] != "ok"]
SILENT = CAUSES["silent"]


@pytest.mark.parametrize("row", FAILED, ids=lambda row: row["id"])
def test_a_failure_that_says_why_is_named(row: Row) -> None:
    failure = read_row(row["id"]).failure
    named = failure.cause.name if failure is not None and failure.cause is not None else None

    if row["id"] in SILENT:
        assert named is None
    else:
        assert named in CAUSES["causes"][row.get("error_type", "untyped")]


def test_most_failures_are_named() -> None:
    assert len(FAILED) == 89
    assert len(SILENT) <= 0.17 * len(FAILED)


def test_no_start_that_succeeded_is_called_a_failure() -> None:
    started = [row["id"] for row in started_rows() if row["status"] == "ok"]

    assert len(started) > 350
    assert [name for name in started if read_row(name).failure is not None] == []


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("model_loading_gib", "model_loading_gib"),
        ("available_kv_gib", "available_kv_gib"),
        ("kv_cache_tokens", "kv_cache_tokens"),
        ("max_concurrency", "max_concurrency"),
        ("kv_needed_gib", "kv_needed_gib"),
        ("est_max_model_len", "est_max_model_len"),
        ("attention_block_size", "attention_block_size_set"),
    ],
)
def test_numbers_are_those_that_a_reader_found(name: str, keys: str) -> None:
    """Where our reading has a number, a person's reading of the same row has the same."""
    wrong, read = [], 0
    for row in started_rows():
        number = read_row(row["id"]).number(name)
        if number is None or keys not in row:
            continue
        read += 1
        if abs(number - row[keys]) > 0.005:
            wrong.append((row["id"], number, row[keys]))

    assert read >= 20
    assert len(wrong) <= 0.03 * read, wrong


@cache
def read_refusals() -> Sequence[tuple[Mapping[str, str], Failure | None]]:
    """Return the errors with which releases refused starts, and what is read in each; many repeat."""
    recorded = Path(__file__).parents[1] / "data" / "oracle" / "cases.jsonl.gz"
    with gzip.open(recorded, "rt", encoding="utf-8") as lines:
        errors = [row["expect"]["error"] for row in map(json.loads, lines) if not row["expect"]["starts"]]
    texts = [f"{error['type']}: {error['message']}" for error in errors]
    read = {text: read_log(text).failure for text in dict.fromkeys(texts)}
    return [(error, read[text]) for error, text in zip(errors, texts, strict=True)]


def test_what_releases_refuse_with_is_named() -> None:
    """The words of thirteen releases, recorded from the releases themselves, and the stage they stand for."""
    read = read_refusals()
    named = [(error, failure) for error, failure in read if failure and failure.cause]
    by_words = [(error, failure.cause) for error, failure in named if not failure.by_origin]
    elsewhere = {cause.name for error, cause in by_words if cause and cause.stage != error["stage"]}

    assert len(read) > 1000
    assert len(named) >= 0.95 * len(read)
    # Causes that are found at several stages: when flags are checked, when a layer or its kernel is built.
    assert elsewhere <= {
        *("fp8_cache_on_old_gpu", "dtype_not_on_this_gpu", "heads_do_not_divide"),
        *("quantization_not_supported", "feature_not_supported", "call_not_known"),
    }


def test_the_stage_of_a_refusal_is_that_of_the_part_that_raised_it() -> None:
    """Refusals without catalogued words, by the releases' sources, beside the stage that was recorded."""
    stages = {"settings_refused": "config", "speculative_settings": "config", "model_class_failed": "model"}
    found = [
        (stages.get(failure.cause.name), error["stage"])
        for error, failure in read_refusals()
        if failure is not None and failure.by_origin and failure.cause is not None
    ]
    known = [(ours, recorded_stage) for ours, recorded_stage in found if ours is not None]

    assert len(known) >= 25
    assert {ours == recorded_stage for ours, recorded_stage in known} == {True}


def test_a_build_without_kernels_is_named() -> None:
    """The words of vllm-project/vllm#39878."""
    words = (
        "(Worker pid=369) ERROR 04-18 15:45:48 [multiproc_executor.py:870] torch.AcceleratorError: "
        "CUDA error: no kernel image is available for execution on the device"
    )
    failure = read_log(words).failure

    assert failure is not None
    assert failure.cause is not None
    assert (failure.type, failure.cause.name) == ("AcceleratorError", "no_kernels_for_this_gpu")


FORESEEN = {
    # vllm-project/vllm#28407, #47779 (0.25.1), #47436 and #47130, as their users quote them.
    "DCP requires attention impls to return the softmax lse for decode, but the impl FlashInferImpl does "
    "not return the softmax lse for decode.": "backend_without_context_parallelism",
    "Decode Context Parallelism (DCP) requires attention implementations to return the softmax LSE during "
    "decode, but FlashInferMLASparseSM120Impl does not.": "backend_without_context_parallelism",
    "DCP not support hybrid attn now.": "context_parallelism_with_several_caches",
    "Assertion error (/workspace/.deps/deepgemm-src/csrc/apis/layout.hpp:59): Unknown SF transformation": (
        "deep_gemm_without_kernels"
    ),
    "Assertion error (/workspace/.deps/deepgemm-src/csrc/apis/../jit_kernels/impls/../heuristics/../../utils/"
    "layout.hpp:76): Unknown recipe": "deep_gemm_without_kernels",
}


@pytest.mark.parametrize("words", FORESEEN)
def test_failures_that_plans_foresee_are_named(words: str) -> None:
    failure = read_log(f"{'RuntimeError' if 'deepgemm' in words else 'AssertionError'}: {words}").failure

    assert failure is not None
    assert failure.cause is not None
    assert failure.cause.name == FORESEEN[words]


NO_EXTENSION = (
    "WARNING 10-25 00:26:20 _custom_ops.py:19] Failed to import from vllm._C with "
    "ModuleNotFoundError(\"No module named 'vllm._C'\")"
)


@pytest.mark.parametrize(
    ("above", "cause"),
    [
        ("", "unknown_architecture"),
        (
            "ERROR 10-26 11:35:32 registry.py:267] Error in inspecting model architecture 'LlamaForCausalLM'",
            "inspect_failed",
        ),
        (NO_EXTENSION, "build_does_not_match"),
    ],
)
def test_a_class_that_could_not_be_imported_is_not_an_unknown_one(above: str, cause: str) -> None:
    raised = "ValueError: Model architectures ['LlamaForCausalLM'] are not supported for now."
    failure = read_log(f"{above}\n{raised}").failure

    assert failure is not None
    assert failure.cause is not None
    assert failure.cause.name == cause


def test_what_pip_lists_as_conflicts_is_no_failure() -> None:
    """Lines that pip prints after it has installed a package, _internal/commands/install.py."""
    text = (
        "ERROR: pip's dependency resolver does not currently take into account all the packages.\n"
        "abc 2.39.0 requires def<3.0.0,>=2.30.0, which is not installed.\n"
        "ghi 1.0.0 requires jkl==2.14.0, but you have jkl 2.12.5 which is incompatible.\n"
    )
    assert read_log(text).failure is None
