"""Let requests into one release's own block pool; run by the Python of that release's environment.

``python admission_driver.py QUESTIONS ANSWERS`` reads one JSON object a line and writes one for each: the
cache is planned as in driver.py, then equal prompts of different tokens are read one after the other, chunk
by chunk, by the release's KVCacheManager, until one has to wait.
"""

import inspect
import json
import logging
import sys
from importlib import import_module
from itertools import pairwise
from math import gcd, lcm
from pathlib import Path
from typing import Any

from driver import (  # type: ignore[import-not-found]  # it lies beside this file, which is run by its path
    REFUSALS,
    Release,
    config_of,
    plan,
    spec_of,
)

RESOLVED = 3
"""Tokens of the answer that each request is given room for before the next one is looked at."""


class Pool:
    """The release's manager over the cache that it planned, and the requests in it."""

    def __init__(self, question: dict[str, Any], planned: Any) -> None:  # noqa: ANN401 - a KVCacheConfig
        words = question["config"]
        ends = [0, *question["steps"]]
        self.steps = [end - start for start, end in pairwise(ends)]
        self.behind: int = question["batches_behind"]
        self.prompt: int = question["prompt_tokens"]
        self.manager = _manager(words, planned)
        # 0.19.0 to 0.20.2 ask before they make room; later releases as they do, and earlier ones never.
        self.asks_first = hasattr(self.manager, "can_fit_full_sequence")
        known = inspect.signature(self.manager.allocate_slots).parameters
        self.asks_meanwhile = "full_sequence_must_fit" in known
        self.gated = self.asks_first or self.asks_meanwhile
        self.in_flight: dict[str, list[int]] = {}
        self.request_class = import_module("vllm.v1.request").Request
        self.sampling = import_module("vllm.sampling_params").SamplingParams(max_tokens=RESOLVED + 1)

    def request(self, number: int) -> Any:  # noqa: ANN401 - a Request
        """Return a request whose tokens are its own."""
        fields = {
            "request_id": str(number),
            "prompt_token_ids": [number] * self.prompt,
            "sampling_params": self.sampling,
            "pooling_params": None,
            "eos_token_id": None,
        }
        known = inspect.signature(self.request_class).parameters
        return self.request_class(**{key: value for key, value in fields.items() if key in known})

    def gate(self, request: Any) -> list[int]:  # noqa: ANN401 - a Request
        """Return the blocks of each group that the gate asks for: before 0.19.0, those of the first chunk."""
        counts, tokens = [], self.prompt if self.gated else self.steps[0]
        for manager in self.manager.coordinator.single_type_managers:
            fields = {
                "request_id": request.request_id,
                "num_tokens": tokens,
                "new_computed_blocks": [],
                "total_computed_tokens": 0,
                "num_local_computed_tokens": 0,
                "num_tokens_main_model": tokens,
                "apply_admission_cap": True,
            }
            known = inspect.signature(manager.get_num_blocks_to_allocate).parameters
            requested = {key: value for key, value in fields.items() if key in known}
            counts.append(int(manager.get_num_blocks_to_allocate(**requested)))
        return counts

    def let_in(self, request: Any) -> bool:  # noqa: ANN401 - a Request
        """Ask the gate as the scheduler does, and make room for the first chunk."""
        if self.asks_first and not self.manager.can_fit_full_sequence(request):
            return False
        words = {"full_sequence_must_fit": True} if self.asks_meanwhile else {}
        return self.step(request, self.steps[0], **words)

    def step(self, request: Any, tokens: int, **words: Any) -> bool:  # noqa: ANN401
        """Make room for some tokens of a request and have them computed; return whether there was room."""
        steps = self.in_flight.setdefault(request.request_id, [])
        if hasattr(request, "num_in_flight_tokens"):
            request.num_in_flight_tokens = sum(steps[len(steps) - self.behind :]) if self.behind else 0
        # Prefixes are not looked up, so that nothing need be hashed.
        if self.manager.allocate_slots(request, tokens, delay_cache_blocks=True, **words) is None:
            return False
        request.num_computed_tokens += tokens
        steps.append(tokens)
        return True

    def held(self, request: Any) -> list[int]:  # noqa: ANN401 - a Request
        """Return the blocks of each group that a request holds."""
        return [
            sum(not block.is_null for block in manager.req_to_blocks.get(request.request_id, ()))
            for manager in self.manager.coordinator.single_type_managers
        ]

    def read(self, request: Any) -> int | None:  # noqa: ANN401 - a Request
        """Read a prompt to its end and start to answer; return the most blocks held meanwhile."""
        peak = sum(self.held(request))
        for tokens in (*self.steps[1:], *[1] * RESOLVED):
            if request.num_computed_tokens >= self.prompt:
                request.append_output_token_ids(0)
            if not self.step(request, tokens):
                return None
            peak = max(peak, sum(self.held(request)))
        return peak


def _manager(words: dict[str, Any], planned: Any) -> Any:  # noqa: ANN401 - the engine's own
    kind = import_module("vllm.v1.core.kv_cache_manager").KVCacheManager
    blocks = [group.kv_cache_spec.block_size for group in planned.kv_cache_groups]
    fields = {
        "kv_cache_config": planned,
        "max_model_len": words["max_model_len"],
        "hash_block_size": gcd(*blocks),
        "scheduler_block_size": lcm(*blocks),
        "max_num_batched_tokens": words["max_num_batched_tokens"],
        "max_in_flight_tokens": words["max_in_flight_tokens"],
        "enable_caching": words["enable_prefix_caching"],
    }
    known = inspect.signature(kind.__init__).parameters
    return kind(**{key: value for key, value in fields.items() if key in known})


def answer(release: Release, question: dict[str, Any]) -> dict[str, Any]:
    """Return what the pool says to one workload."""
    config = config_of(question["config"])
    specs = [spec_of(release, words, question["config"]) for words in question["specs"]]
    stages = [{name: specs[number] for name, number in stage.items()} for stage in question["stages"]]
    try:
        configs = plan(release, config, stages, question["available_bytes"])
    except REFUSALS as refusal:
        return {"error": type(refusal).__name__}
    planned = release.utils.generate_scheduler_kv_cache_config(configs)
    pool = Pool(question, planned)
    free = pool.manager.block_pool.get_num_free_blocks()
    counts: dict[str, Any] = {"free_blocks": free, "admitted": 0}
    for number in range(question["requests"]):
        request = pool.request(number)
        counts.setdefault("gate", pool.gate(request))
        peak = pool.read(request) if pool.let_in(request) else None
        if peak is None:
            break
        counts.setdefault("prefill", peak)
        counts.setdefault("settled", pool.held(request))
        counts["admitted"] += 1
    return counts


def main() -> None:
    """Answer every question."""
    logging.disable(logging.WARNING)
    source, target = map(Path, sys.argv[1:])
    release = Release()
    with source.open(encoding="utf-8") as questions, target.open("w", encoding="utf-8") as answers:
        for line in questions:
            answers.write(json.dumps(answer(release, json.loads(line))) + "\n")


if __name__ == "__main__":
    main()
