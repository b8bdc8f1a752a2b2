"""Findings in text: no amounts below 0, what was not compared while it is few, changes named once."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.advisor.candidates.refusal import Fix
from service.advisor.candidates.verdict import Verdict
from service.advisor.request.plan_request import EngineChoice, PlanRequest
from service.application.text.cause_words import UNKNOWN, cause_in_words
from service.application.text.compared_values import FEW_FINDINGS
from service.application.text.explanation import render_explanation
from service.application.text.words import change_words
from service.engines.flags import ServeFlags
from service.explanation.explain import explain
from service.explanation.explanation_types import Agreement, Assumption, Finding
from service.gpus.catalog import find_gpu
from service.startup_log.catalogue.phrases import CAUSES
from service.startup_log.log import read_log
from service.units import gib_amount, gib_text
from tests.accuracy.startups_models import find_model
from tests.explanation.test_explain import REFUSED


def _request() -> PlanRequest:
    model = find_model("Qwen/Qwen3-4B").model
    serve = ServeFlags(kv_cache_dtype="auto", tensor_parallel_size=1)
    return PlanRequest(model, (find_gpu("rtx-5080-16gb"),), EngineChoice.of("0.17.1"), serve)


def _text(log: str, *findings: Finding) -> str:
    explained = explain(read_log(log), _request())
    return render_explanation(replace(explained, findings=findings or explained.findings), width=400)


def test_what_a_log_does_not_say_is_marked_in_the_heading_of_the_plan() -> None:
    explained = explain(read_log("x"), _request())
    assumed = replace(explained, assumptions=(Assumption("gpu", "rtx-5080-16gb", "not said"),))

    assert "the plan of vLLM 0.17.1 on rtx-5080-16gb:" in render_explanation(explained)
    assert "the plan of vLLM 0.17.1 on rtx-5080-16gb (assumed):" in render_explanation(assumed)


@given(st.integers(min_value=-(1 << 45), max_value=1 << 45))
def test_an_amount_is_never_negative(size: int) -> None:
    assert (gib_amount(size) == "none") == (size < 0)
    assert size < 0 or gib_amount(size) == gib_text(size)


def test_the_low_end_of_an_estimate_below_zero_is_none() -> None:
    graphs = Finding("cuda_graph_gib", 121, 0.86, 0.67, -0.33, 2.67, Agreement.WITHIN, "an estimate")
    assert "planned 0.67 (none to 2.67) GiB" in _text("x", graphs)


def test_a_negative_amount_that_the_engine_logs_is_shown_beside_its_plan() -> None:
    cache = Finding("available_kv_gib", 9, -2.5, -2.4, -4.5, -1.5, Agreement.WITHIN, "an estimate")
    assert "-2.50 GiB, planned -2.40 (-4.50 to -1.50) GiB" in _text("x", cache)


@pytest.mark.parametrize("unknown", [1, FEW_FINDINGS, FEW_FINDINGS + 1])
def test_what_is_not_compared_is_listed_while_it_is_few(unknown: int) -> None:
    agreeing = [Finding("x", line, "a", "a", None, None, Agreement.AGREES, "same") for line in range(9)]
    others = [
        Finding("y", line, 1.0, None, None, None, Agreement.NOT_COMPARED, f"reason {line}")
        for line in range(unknown)
    ]
    lines = _text("x", *agreeing, *others).splitlines()
    assert any(f"{unknown} not compared (?)" in line for line in lines)
    listed = [line for line in lines if line.startswith("? line")]
    assert len(listed) == (unknown if unknown <= FEW_FINDINGS else 0)


def test_values_that_are_not_compared_for_one_reason_say_it_once() -> None:
    whys = ["no GPU", "another model", "no GPU"]
    found = [
        Finding(f"y{at}", at, 1.0, None, None, None, Agreement.NOT_COMPARED, why)
        for at, why in enumerate(whys, 7)
    ]
    lines = _text("x", *found).splitlines()
    assert [line for line in lines if line.startswith("? line")] == [
        "? lines 7, 9: y7 1; y9 1: no GPU",
        "? line 8: y8 1: another model",
    ]


@pytest.mark.parametrize("reasons", [3, 30])
def test_an_explanation_stays_within_a_screen(reasons: int) -> None:
    """Issue 18: under 25 lines; what differs is always written out, and what is left out is said."""
    agreeing = [Finding("x", at, "a", "a", None, None, Agreement.AGREES, f"{at}") for at in range(reasons)]
    differing = Finding("z", 99, 1.0, 2.0, 2.0, 2.0, Agreement.DIFFERS, "why")
    lines = _text("x", *agreeing, differing).splitlines()
    assert len(lines) < 25
    assert "X line 99: z 1, planned 2: why" in lines
    assert any("what agrees is not listed" in line for line in lines) == (reasons == 30)


def test_flags_do_not_make_an_explanation_longer_than_a_screen() -> None:
    command = f"vllm serve m/m --dtype half --hf-overrides '{json.dumps({'a': 'b ' * 150})}'"
    long = "ValueError: " + " and ".join(["that must be that"] * 40)
    lines = render_explanation(explain(read_log(command), None), width=60).splitlines()
    assert any(line.startswith("Flags read: --dtype half") for line in lines)
    lines = render_explanation(explain(read_log(f"{command}\n{long}"), None), width=60).splitlines()
    assert len(lines) < 25


def test_a_change_says_whether_it_is_certain() -> None:
    fix = Fix("--gpu-memory-utilization 0.5", Verdict.UNCERTAIN, 1000, 1.5, "vllm serve m", "0.33.0")
    assert change_words(fix) == "--gpu-memory-utilization 0.5: 1,000 tokens, 1.50x (uncertain)"


def test_each_fix_of_a_failed_start_is_named_once() -> None:
    """In 0.17.1 fp8 and fp8_e4m3 are one format: its table of cache dtypes reads both as E4M3."""
    lines = [line for line in _text(REFUSED).splitlines() if line.startswith("Do (planned")]
    assert ": --max-model-len 35600" in " ".join(lines)
    assert not any("Fix:" in line or "fp8_e4m3" in line for line in lines)
    assert any("--kv-cache-dtype fp8:" in line for line in lines)


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ("RuntimeError: NCCL error in: NCCLUtils.hpp:219, unhandled system error", "NCCL failed"),
        ("OSError: [Errno 98] Address already in use", "address in use"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.44 GiB.", "out of memory"),
    ],
)
def test_a_cause_is_said_in_words(log: str, said: str) -> None:
    assert _text(log).splitlines()[0].endswith(f": {said}.")


def test_no_cause_is_said_with_underscores() -> None:
    assert not [each.name for each in CAUSES if "_" in cause_in_words(each.name)]
    assert cause_in_words(None) == UNKNOWN


def test_a_plan_is_asked_for_only_where_it_can_show_the_failure() -> None:
    """No plan shows that a library is missing; one shows whether memory is enough."""
    missing = "ModuleNotFoundError: No module named 'decord'"
    memory = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.44 GiB."

    unknown = (Assumption("model", "", "the log does not name the model"),)

    stray = "ValueError: DFlash2 requires an unquantized target LM head for candidate TopK."

    assert "Cannot plan" not in render_explanation(explain(read_log(missing), None, missing=unknown))
    assert "Cannot plan" not in render_explanation(explain(read_log(stray), None, missing=unknown))
    assert "Cannot plan" in render_explanation(explain(read_log(memory), None, missing=unknown))
