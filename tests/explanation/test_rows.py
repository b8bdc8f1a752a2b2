"""The logs of real starts, explained: what agrees is counted, and what differs has a reason."""

from dataclasses import replace
from typing import Any

import pytest

from service.advisor.candidates.verdict import Verdict
from service.advisor.dry_runs.dry_run import dry_run
from service.application.schemas.flags.serve import ServeInput
from service.engines.flags import ServeFlags
from service.engines.releases import find_release, rules_for
from service.explanation.explanation_types import Agreement, CauseBasis
from service.explanation.planned_start import available_gib
from service.startup_log.environment.arguments import command_arguments
from service.startup_log.text.lines import read_lines
from service.units import GIB
from tests.explanation.logged import Explained, explained_rows

PLANNED = [each for each in explained_rows() if each.startup is not None]
FAILED = [each for each in explained_rows() if each.row["status"] != "ok"]
EXPLAINED = [each for each in FAILED if each.startup is not None and each.explanation.ending is not None]
FROM_MEMORY = frozenset({"kv_cache_tokens", "max_concurrency", "kv_needed_gib", "est_max_model_len"})
"""What follows exactly from the logged memory."""


def test_every_log_is_explained() -> None:
    assert len(explained_rows()) == 443
    assert len(PLANNED) >= 50


def test_nine_in_ten_failures_are_named() -> None:
    named = [each for each in FAILED if each.explanation.ending and each.explanation.ending.cause]

    assert len(FAILED) == 89
    assert len(named) >= 0.9 * len(FAILED)


def test_only_shortages_are_taken_from_a_person_s_words() -> None:
    paraphrased = [
        each.row
        for each in explained_rows()
        if each.explanation.ending
        and each.explanation.ending.cause
        and each.explanation.ending.basis is CauseBasis.PARAPHRASED
    ]

    assert len(paraphrased) >= 4
    assert {(row["status"], row["error_type"]) for row in paraphrased} == {
        ("failed", "kv_needed_gt_available"),
        ("failed", "max_num_seqs_exceeds_mamba_blocks"),
    }


def test_a_failure_that_says_nothing_is_named_by_its_plan() -> None:
    by_plan = {
        each.row["id"]: ending.cause
        for each in FAILED
        if (ending := each.explanation.ending) is not None and ending.basis is CauseBasis.PLAN
    }

    # Both rows were read by a person as too little memory for one request.
    assert by_plan == dict.fromkeys(("s0027", "s0046"), "kv_cache_smaller_than_one_request")


def test_what_follows_from_the_logged_memory_agrees() -> None:
    """Rows that tell their release, unless a reader found why they cannot agree."""
    specified = [
        each for each in PLANNED if each.startup and each.startup.release_told and not each.startup.cause
    ]
    findings = [
        (each.row["id"], finding)
        for each in specified
        for finding in each.explanation.findings
        if finding.name in FROM_MEMORY and finding.why.startswith("from the logged")
    ]
    wrong = [found for found in findings if found[1].agreement is Agreement.DIFFERS]

    assert len(findings) >= 15
    assert wrong == []


def _leaves_the_rest(flags: ServeFlags, before: ServeFlags) -> bool:
    """Whether flags change the cache alone, so that the memory that a log reports is left for it still."""
    return before == replace(
        flags,
        max_model_len=before.max_model_len,
        kv_cache_dtype=before.kv_cache_dtype,
        gpu_memory_utilization=before.gpu_memory_utilization,
    )


@pytest.mark.parametrize("each", EXPLAINED, ids=lambda each: each.row["id"])
def test_every_fix_starts_when_its_command_is_planned(each: Explained) -> None:
    """The command of each fix is parsed and planned by itself, with the memory that the log tells."""
    ending, request = each.explanation.ending, each.explanation.request
    assert ending is not None
    assert request is not None
    for fix in ending.fixes:
        specified = command_arguments(read_lines(fix.command))
        assert specified is not None
        given: dict[str, Any] = {"tensor_parallel_size": 1, "kv_cache_dtype": "auto", **specified.flags}
        flags = ServeInput.model_validate(given).flags()
        gib = available_gib(each.explanation.log)
        if gib is not None and _leaves_the_rest(flags, request.serve):
            before = request.serve.gpu_memory_utilization or 0.9
            gained = ((flags.gpu_memory_utilization or before) - before) * request.gpus[0].memory_bytes
            flags = replace(flags, kv_cache_memory_bytes=round(gib * GIB + gained))
        other = (
            fix.change.removeprefix("vLLM ").removeprefix(">= ") if fix.words.startswith("vLLM ") else None
        )
        rules = rules_for(find_release(other or request.engine.version))
        candidate = dry_run(request, flags, rules, request.gpus[0])

        assert candidate.verdict is not Verdict.REFUSED, fix.words
