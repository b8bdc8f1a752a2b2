"""The timer of steps on an engine that is simulated by its rules of scheduling, with a clock of its own."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from service.worker.children import step_times
from service.worker.children.step_times import NoProgress, StepTimer

STEP, PROMPT_TOKEN = 0.010, 0.0001
"""Seconds of a decode step, and of a token of a prompt beside it."""


@dataclass
class Engine:
    """Prompts are computed first, up to ``budget`` tokens a step; then every request gets a token a step."""

    budget: int
    now: float = 0.0
    waiting: dict[str, int] = field(default_factory=dict)
    left: dict[str, int] = field(default_factory=dict)
    prompts: dict[str, list[int]] = field(default_factory=dict)

    def add_request(self, name: str, prompt: dict[str, list[int]], limits: SimpleNamespace) -> None:
        self.prompts[name] = prompt["prompt_token_ids"]
        self.waiting[name] = len(prompt["prompt_token_ids"])
        self.left[name] = limits.max_tokens

    def step(self) -> list[Any]:
        room, advanced = self.budget, []
        for name in list(self.left):
            tokens = min(room, self.waiting[name])
            self.waiting[name] -= tokens
            room -= tokens
            self.now += tokens * PROMPT_TOKEN
            if not self.waiting[name]:
                advanced.append(name)
                self.left[name] -= 1
                if not self.left[name]:
                    del self.left[name]
        self.now += STEP
        return [SimpleNamespace(request_id=name) for name in advanced]

    def abort_request(self, names: list[str]) -> None:
        for name in names:
            self.left.pop(name, None)

    def has_unfinished_requests(self) -> bool:
        return bool(self.left)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    made = Engine(budget=512)
    monkeypatch.setattr("service.worker.children.step_times.time.perf_counter", lambda: made.now)
    return made


def timer(engine: Engine) -> StepTimer:
    return StepTimer(engine, SimpleNamespace, vocabulary=1024)


def test_only_steps_of_the_whole_batch_are_timed(engine: Engine) -> None:
    # Eight prompts of 256 tokens take four steps, in which some requests run already.
    found = timer(engine).timed("p0", {"batch": 8, "context": 256, "prefill": 0})
    assert found["milliseconds"] == pytest.approx(10)
    assert found["timed"] == step_times.TIMED_STEPS
    assert not engine.left


def test_a_prompt_alone(engine: Engine) -> None:
    found = timer(engine).timed("p1", {"batch": 0, "context": 0, "prefill": 1024})
    # 1,024 tokens in two steps of 512.
    assert found["milliseconds"] == pytest.approx(1024 * 0.1 + 2 * 10)
    assert found["timed"] == step_times.PROMPTS


def test_no_two_prompts_begin_alike(engine: Engine) -> None:
    timer(engine).timed("p0", {"batch": 64, "context": 64, "prefill": 0})
    beginnings = {tuple(prompt[:16]) for prompt in engine.prompts.values()}
    assert len(beginnings) == 64
    assert all(1 <= token < 1024 for prompt in engine.prompts.values() for token in prompt)


def test_requests_that_never_run_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_times, "MOST_STEPS", 200)
    # The first request ends before the last one begins.
    with pytest.raises(NoProgress, match="4 requests of 2 tokens"):
        timer(Engine(budget=1)).timed("p0", {"batch": 4, "context": 2, "prefill": 0})
