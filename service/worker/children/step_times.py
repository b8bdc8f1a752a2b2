"""Times steps of a started engine: decode steps of several batches and contexts, and prompts alone.

The clock is that of whoever calls the engine, so scheduling and output count, as they do for a server.
"""

import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

WARM_STEPS = 4
TIMED_STEPS = 16
PROMPTS = 3
"""Prompts of one point, of which the median counts. One before them is left out: it compiles kernels."""
MOST_STEPS = 20_000
"""Calls of the engine for one point; with more it makes no progress."""


class NoProgress(Exception):
    """The engine puts out no tokens."""


class StepTimer:
    """Times a started engine, one point at a time; every point leaves the engine idle."""

    def __init__(
        self,
        engine: Any,  # noqa: ANN401 - a class of the engine
        sampling: Callable[..., Any],
        vocabulary: int,
    ) -> None:
        self._engine = engine
        self._sampling = sampling
        self._vocabulary = vocabulary

    def timed(self, name: str, point: Mapping[str, int]) -> dict[str, Any]:
        """Return a point with its milliseconds: of one step, or of one prompt up to its first token.

        Raises:
            NoProgress: the requests of the point never run together.
        """
        if point["batch"]:
            taken = self._decode(name, point["batch"], point["context"])
        else:
            taken = [self._prompt(f"{name}-{each}", point["prefill"]) for each in range(PROMPTS + 1)][1:]
        return {**point, "milliseconds": median(taken) * 1e3, "timed": len(taken)}

    def _decode(self, name: str, batch: int, context: int) -> list[float]:
        """Return the seconds of steps in which every request of the batch gets one token."""
        wanted = {f"{name}-{each}" for each in range(batch)}
        for number, request in enumerate(sorted(wanted)):
            # Far more tokens than are waited for: no request ends before the last step is timed.
            self._add(request, number, context, answer=context)
        begun: set[str] = set()
        taken: list[float] = []
        whole, before = 0, time.perf_counter()
        for _ in range(MOST_STEPS):
            advanced = {output.request_id for output in self._engine.step()}
            now = time.perf_counter()
            begun |= advanced
            if not advanced:
                continue
            if begun >= wanted and advanced >= wanted:
                whole += 1
                if whole > WARM_STEPS:
                    taken.append(now - before)
            before = now
            if len(taken) == TIMED_STEPS:
                break
        self._end(wanted)
        if not taken:
            raise NoProgress(f"{batch} requests of {context} tokens never ran together")
        return taken

    def _prompt(self, name: str, tokens: int) -> float:
        """Return the seconds from a prompt to its first token, alone in the engine."""
        before = time.perf_counter()
        self._add(name, 0, tokens, answer=1)
        for _ in range(MOST_STEPS):
            if any(output.request_id == name for output in self._engine.step()):
                taken = time.perf_counter() - before
                self._end({name})
                return taken
        raise NoProgress(f"a prompt of {tokens} tokens had no answer")

    def _add(self, name: str, number: int, tokens: int, *, answer: int) -> None:
        limits = self._sampling(temperature=0.0, max_tokens=answer, ignore_eos=True, detokenize=False)
        # The first tokens differ between requests, so that no prefix is found again.
        first = sum(ord(letter) * 131**place for place, letter in enumerate(f"{name}-{number}"))
        usable = max(2, self._vocabulary - 1)
        prompt = [1 + (first + place * (2 * number + 7)) % usable for place in range(tokens)]
        self._engine.add_request(name, {"prompt_token_ids": prompt}, limits)

    def _end(self, requests: set[str]) -> None:
        self._engine.abort_request(sorted(requests))
        for _ in range(MOST_STEPS):
            if not self._engine.has_unfinished_requests():
                return
            self._engine.step()
        raise NoProgress("the engine does not end requests")
