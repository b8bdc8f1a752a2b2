"""A planned remedy is no surer than a plan of its own command, and the fixes of a plan are among them."""

import asyncio
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

from service.advisor.candidates.plan_types import Candidate
from service.advisor.candidates.refusal import Fix
from service.advisor.candidates.verdict import VERDICTS, Verdict
from service.advisor.fixes.fix_notes import SLOW_OFFLOAD
from service.advisor.fixes.memory_changes import OFFLOAD
from service.application.plans.log_requests import log_request
from service.application.plans.plan_requests import answer_plan_request, plan_request, read_plan_body
from service.application.schemas.explanation import ExplainBody
from service.application.text.explanation import render_explanation
from service.application.text.explanation_markdown import render_markdown
from service.explanation.explanation_types import Diagnosis, Explanation
from service.startup_log.log import read_log
from service.units import GIB
from tests.explanation.shared_logs import services

UNDER_LOAD = "memory may run out under load"
MOST_LINES = 25
SHARE = "--gpu-memory-utilization "

# The engine's own words with figures of Qwen3-8B, whose token takes 147,456 bytes: 32,768 take 4.50 GiB, and
# 3.18 GiB hold 23,156 tokens, 23,152 in whole blocks.
TOO_LITTLE = """\
INFO 10-02 10:00:00 [api_server.py:1839] vLLM API server version {release}
INFO 10-02 10:00:00 [utils.py:233] non-default args: {{'model': '{model}', 'max_model_len': 32768}}
INFO 10-02 10:00:40 [gpu_model_runner.py:2653] Model loading took 15.2683 GiB and 3.2 seconds
INFO 10-02 10:01:20 [gpu_worker.py:298] Available KV cache memory: {gib} GiB
ERROR 10-02 10:01:20 [core.py:708] ValueError: To serve at least one request with the models's max seq len \
(32768), (4.50 GiB KV cache is needed, which is larger than the available KV cache memory ({gib} GiB). Based \
on the available memory, the estimated maximum model length is {length}. Try increasing \
`gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.
"""
WEIGHTS = """\
INFO 10-02 10:00:00 [api_server.py:1839] vLLM API server version {release}
INFO 10-02 10:00:00 [utils.py:233] non-default args: {{'model': '{model}'}}
INFO 10-02 10:00:20 [gpu_model_runner.py:2653] Starting to load model {model}...
ERROR 10-02 10:01:20 [core.py:708] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 500.00 MiB. \
GPU 0 has a total capacity of {total} GiB of which 187.31 MiB is free.
"""
TAKEN = """\
INFO 10-02 10:00:00 [api_server.py:1839] vLLM API server version {release}
INFO 10-02 10:00:00 [utils.py:233] non-default args: {{'model': '{model}'}}
ERROR 10-02 10:01:20 [core.py:708] ValueError: Free memory on device cuda:0 ({free}/23.52 GiB) on startup is \
less than desired GPU memory utilization (0.9, 21.17 GiB). Decrease GPU memory utilization or reduce GPU \
memory used by other processes.
"""
SAMPLER = """\
INFO 10-02 10:00:00 [api_server.py:1839] vLLM API server version {release}
INFO 10-02 10:00:00 [utils.py:233] non-default args: {{'model': '{model}', 'max_num_seqs': 256}}
ERROR 10-02 10:01:20 [core.py:1104] RuntimeError: CUDA out of memory occurred when warming up sampler \
with 256 dummy requests. Please try lowering `max_num_seqs` or `gpu_memory_utilization` when initializing \
the engine.
"""
DTYPE = """\
INFO 10-02 10:00:00 [api_server.py:1839] vLLM API server version {release}
INFO 10-02 10:00:00 [utils.py:233] non-default args: {{'model': '{model}', 'dtype': 'bfloat16'}}
ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0. Your Tesla T4 \
GPU has compute capability 7.5. You can use float16 instead by explicitly setting the `dtype` flag in \
CLI, for example: --dtype=half.
"""


@dataclass(frozen=True)
class Start:
    """A start that failed."""

    model: str
    gpu: str
    release: str
    log: str
    serve: str = ""
    free_gib: float | None = None

    @property
    def body(self) -> dict[str, Any]:
        """What a plan of exactly this start is asked with."""
        return self.planned(f"vllm serve {self.model} {self.serve}".strip(), self.release)

    def planned(self, command: str, release: str) -> dict[str, Any]:
        """Return what a plan of a command is asked with, on the GPU as it was."""
        free = {} if self.free_gib is None else {"free_memory_bytes": round(self.free_gib * GIB)}
        asked = {"command": command, "gpus": [self.gpu], "engine": {"version": release}, "search": False}
        return {**asked, **free}


def _too_little(gpu: str, release: str, gib: str, length: int) -> Start:
    model = "Qwen/Qwen3-8B"
    log = TOO_LITTLE.format(release=release, model=model, gib=gib, length=length)
    return Start(model, gpu, release, log, "--max-model-len 32768")


def _weights(model: str, gpu: str, total: str) -> Start:
    return Start(model, gpu, "0.20.2", WEIGHTS.format(release="0.20.2", model=model, total=total))


def _taken(model: str, free: float) -> Start:
    log = TAKEN.format(release="0.11.0", model=model, free=free)
    return Start(model, "rtx-4090-24gb", "0.11.0", log, free_gib=free)


def _said(log: str, model: str, gpu: str, serve: str) -> Start:
    return Start(model, gpu, "0.20.2", log.format(release="0.20.2", model=model), serve)


STARTS = {
    "cache": _too_little("l4-24gb", "0.11.0", "3.18", 23152),
    "cache of a later release": _too_little("l4-24gb", "0.20.2", "3.18", 23152),
    "far less than planned": _too_little("l4-24gb", "0.11.0", "1.00", 7280),
    "weights": _weights("Qwen/Qwen3-32B", "l40s-48gb", "44.40"),
    "weights of images": _weights("mistralai/Mistral-Small-3.2-24B-Instruct-2506", "rtx-a6000-48gb", "47.41"),
    "sampler": _said(SAMPLER, "google/gemma-3-27b-it", "a100-sxm-80gb", "--max-num-seqs 256"),
    "dtype": _said(DTYPE, "Qwen/Qwen3-8B", "t4-16gb", "--dtype bfloat16"),
    "taken": _taken("Qwen/Qwen3-8B", 15.6),
    "taken beside a small model": _taken("Qwen/Qwen3-4B", 18.9),
}
EVERY = pytest.mark.parametrize("name", STARTS)


@cache
def explained(name: str) -> Explanation:
    start, parts = STARTS[name], services()

    async def answer() -> Explanation:
        read = read_log(start.log)
        return (await log_request(read, ExplainBody(log="", gpu=start.gpu), parts)).explain(read)

    return asyncio.run(answer())


def ending(name: str) -> Diagnosis:
    found = explained(name).ending
    assert found is not None
    return found


def planned(body: dict[str, Any]) -> Candidate:
    parts = services()

    async def answer() -> Candidate:
        request = await plan_request(read_plan_body(body), parts)
        (only,) = answer_plan_request(request, parts).plans[0].candidates
        return only

    return asyncio.run(answer())


def runnable(fix: Fix) -> bool:
    """Whether a plan of a fix needs no config that is not at hand."""
    return fix.checkpoint is None or fix.checkpoint in services().snapshot.ids()


def start_with(name: str, fix: Fix) -> Candidate:
    """Return the plan of a fix, with the memory for the cache that it names where the log tells it."""
    logged = fix.logged_cache_bytes
    given = "" if logged is None else f" --kv-cache-memory-bytes {logged}"
    return planned(STARTS[name].planned(fix.command + given, fix.version))


@EVERY
def test_no_remedy_is_surer_than_a_plan_of_its_command(name: str) -> None:
    fixes = [fix for fix in ending(name).fixes if runnable(fix)]

    assert fixes
    for fix in fixes:
        alone = planned(STARTS[name].planned(fix.command, fix.version))
        assert VERDICTS.index(fix.verdict) >= VERDICTS.index(alone.verdict), fix.change
        assert alone.may_serve, fix.change
        warned = any(UNDER_LOAD in each for each in alone.warnings)
        assert (fix.warning is not None) == warned, fix.change
        given = start_with(name, fix)
        assert given.kv_cache is not None
        assert given.kv_cache.tokens == fix.tokens, fix.change


@pytest.mark.parametrize("name", [each for each in STARTS if each != "sampler"])  # its plan is no refusal
def test_the_fixes_of_a_plan_are_among_them(name: str) -> None:
    start = STARTS[name]
    refused = planned(start.body).error
    assert refused is not None
    named = {fix.change for fix in ending(name).fixes}
    shares = [float(each.split()[1]) for each in named if each.startswith(SHARE)]
    log = explained(name).log.number("available_kv_gib")
    own = {fix.change for fix in refused.fixes if log is None or not _refuted(fix, log)}

    for change in own - named:
        # A lower share of the memory, which leaves more for a full step, is named in its place.
        assert change.startswith(SHARE), change
        assert min(shares) < float(change.split()[1])
    assert own or start.free_gib is not None


def _refuted(fix: Fix, gib: float) -> bool:
    """Whether the logged memory does not hold a shorter context, or one of 8 bits: 147,456 bytes a token."""
    words = fix.change.split()
    if len(words) != 2:
        return False
    needed = {"--max-model-len": 147_456 * int(words[1]) if words[1].isdigit() else 0}
    needed["--kv-cache-dtype"] = 32_768 * 147_456 // 2
    return needed.get(words[0], 0) > (gib + 0.005) * GIB


@EVERY
def test_the_safest_are_first_and_there_are_few_enough(name: str) -> None:
    slow = [OFFLOAD in fix.change for fix in ending(name).fixes]
    risks = [fix.risk for fix in ending(name).fixes if OFFLOAD not in fix.change]

    # Weights in the host's memory slow every step, which is said: what else there is comes first.
    assert slow == sorted(slow)
    assert (SLOW_OFFLOAD in ending(name).notes) is any(slow)
    assert risks == sorted(risks)
    assert len(render_explanation(explained(name)).splitlines()) <= MOST_LINES


def test_what_may_run_out_of_memory_is_said_in_every_text() -> None:
    (two,) = (fix for fix in ending("cache").fixes if fix.change == "--tensor-parallel-size 2")
    alone = planned(STARTS["cache"].planned(two.command, two.version))

    assert two.warning in alone.warnings
    for text in (render_explanation(explained("cache")), render_markdown(explained("cache"))):
        (line,) = (each for each in text.splitlines() if "--tensor-parallel-size 2" in each)
        assert UNDER_LOAD in line


def test_figures_of_the_logged_memory_say_so() -> None:
    """1.00 GiB hold 7,281 tokens; a plan of the same command estimates three times as many."""
    (fitted,) = (each for each in ending("far less than planned").fixes if "7280" in each.change)

    assert (fitted.tokens, fitted.logged_cache_bytes) == (7280, GIB)
    for text in (
        render_explanation(explained("far less than planned")),
        render_markdown(explained("far less than planned")),
    ):
        (line,) = (each for each in text.splitlines() if "--max-model-len 7280" in each)
        assert "planned with the logged memory" in line


def test_what_the_sampler_needs_is_left_to_it_before_more_gpus_are_named() -> None:
    """The engine's message names both: lower max_num_seqs or gpu_memory_utilization."""
    changes = [fix.change for fix in ending("sampler").fixes]

    assert changes[:2] == ["--gpu-memory-utilization 0.87", "--max-num-seqs 128"]


def test_a_dtype_that_the_gpu_has_is_named_with_what_the_start_then_needs() -> None:
    """In float16 the 15.26 GiB of weights still exceed the 14.56 GiB of a T4."""
    alone = planned({**STARTS["dtype"].planned("vllm serve Qwen/Qwen3-8B --dtype float16", "0.20.2")})
    assert alone.error is not None
    given = {f"{fix.change} --dtype float16": fix.tokens for fix in alone.error.fixes}

    assert given
    assert {fix.change: fix.tokens for fix in ending("dtype").fixes} == given


def test_the_gpu_that_the_engine_names_is_read() -> None:
    assert read_log(STARTS["dtype"].log).word("gpu_name") == "Tesla T4"


def test_one_dtype_of_the_cache_is_enough() -> None:
    for name in STARTS:
        assert len([fix for fix in ending(name).fixes if fix.change.startswith("--kv-cache-dtype")]) <= 1


def test_a_share_without_room_for_a_full_step_is_not_offered() -> None:
    assert not [fix for fix in ending("cache").fixes if "utilization" in fix.change]


def test_a_length_that_the_log_refutes_is_not_offered() -> None:
    """1.00 GiB hold 7,281 tokens of 147,456 bytes; the plan expects three times that."""
    lengths = [fix.change for fix in ending("far less than planned").fixes if "max-model-len" in fix.change]

    assert all(int(each.split()[1]) <= 7280 for each in lengths if each.startswith("--max-model-len"))


def test_a_share_that_the_weights_fill_is_not_offered() -> None:
    """0.66 of 23.52 GiB are 15.52 GiB; the weights of Qwen3-8B take 15.27 GiB of them."""
    found = ending("taken")

    assert not found.offers
    assert not [fix for fix in found.fixes if fix.change.startswith("--gpu-memory-utilization")]
    assert any("15.27 GiB" in each for each in found.notes)
    assert {fix.checkpoint for fix in found.fixes} >= {"Qwen/Qwen3-8B-AWQ", "Qwen/Qwen3-8B-FP8"}
    # Nothing asks for more than the 15.6 GiB that are free.
    for fix in found.fixes:
        share = float(fix.command.split("--gpu-memory-utilization ")[1].split()[0])
        assert share * 23.52 <= 15.6


def test_a_share_in_which_the_model_fits_is_planned() -> None:
    """The weights of Qwen3-4B take 7.5 GiB, and 40,960 tokens of 147,456 bytes 5.63 GiB."""
    (fix,) = ending("taken beside a small model").fixes

    assert fix.verdict is Verdict.STARTS
    assert 13.2 / 23.52 < float(fix.change.split()[1]) <= 18.9 / 23.52


def test_many_more_gpus_are_not_the_only_advice() -> None:
    # 60 GiB of weights beside GPUs of 12 GB: a host with 8 of them hardly holds it
    start = _weights("Qwen/Qwen3-32B", "rtx-5070-12gb", "11.49")
    read, parts = read_log(start.log), services()

    async def answer() -> Explanation:
        return (await log_request(read, ExplainBody(log="", gpu=start.gpu), parts)).explain(read)

    found = asyncio.run(answer()).ending
    assert found is not None
    assert min(fix.gpus for fix in found.fixes) == 8
    assert any("4-bit weights" in note for note in found.notes)
