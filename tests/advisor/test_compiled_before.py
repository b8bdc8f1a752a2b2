"""Starts whose compiled model is in the cache, beside what two logs of equal flags have.

On one A40 a start of Qwen2.5-7B (0.25.0) leaves 25.46 GiB, and the next one, which finds the compiled model,
26.23: its embedding has 152,064 rows of 3,584 numbers of 2 bytes, 1.02 GiB, and the forward pass of 2,048
tokens takes part of that anyway.
"""

from dataclasses import replace

import pytest
from packaging.version import Version

from service.advisor.candidates.plan_types import Candidate
from service.advisor.dry_runs.dry_run import dry_run
from service.advisor.request.plan_request import Model, PlanRequest
from service.engines.flags import ServeFlags
from service.engines.releases import rules_for
from service.gpus.catalog import find_gpu
from service.memory.budget_types import MemoryBudget
from service.units import GIB
from tests.accuracy.oracle import bundled_architecture

A40 = find_gpu("a40-48gb")
FLAGS = ServeFlags(tensor_parallel_size=1, max_model_len=4096)
NAME = "Qwen/Qwen2.5-7B-Instruct"
REQUEST = PlanRequest(Model(NAME, None, "bundled", bundled_architecture(NAME)), (A40,), serve=FLAGS)


def budget(flags: ServeFlags = FLAGS, *, compiled: bool) -> MemoryBudget:
    request = replace(REQUEST, serve=flags, compiled_before=compiled)
    found: Candidate = dry_run(request, flags, rules_for(Version("0.25.0")), A40)
    assert found.memory is not None
    return found.memory


def test_a_compiled_model_leaves_as_much_more_as_logs_do() -> None:
    anew, before = (budget(compiled=each) for each in (False, True))
    more = before.available_kv.bytes - anew.available_kv.bytes
    assert more / GIB == pytest.approx(26.23 - 25.46, abs=0.03)
    assert anew.activation.bytes - before.activation.bytes == anew.compiled_copy.bytes == more
    assert not before.compiled_copy.high
    doubt, less = (each.available_kv.high - each.available_kv.low for each in (anew, before))
    assert less < doubt


def test_a_cache_of_a_given_size_stays_as_it_is() -> None:
    flags = replace(FLAGS, kv_cache_memory_bytes=8 * GIB)
    assert budget(flags, compiled=True).available_kv.bytes == 8 * GIB


def test_a_start_that_compiles_nothing_is_the_same() -> None:
    flags = replace(FLAGS, enforce_eager=True)
    anew, before = (budget(flags, compiled=each) for each in (False, True))
    assert (anew.activation.bytes, anew.available_kv) == (before.activation.bytes, before.available_kv)
