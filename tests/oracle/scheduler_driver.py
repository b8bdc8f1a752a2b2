"""Let one release's own scheduler serve a request; run by the Python of that release's environment.

``python scheduler_driver.py QUESTIONS ANSWERS`` reads one JSON object a line and writes one for each: the
most blocks that the request holds in each KV cache group. The scheduler, its block pool and configuration
are the release's; a worker's results are made up: one token for each step, and no accepted draft token.
It knows nothing of the project, as driver.py does not.
"""

import inspect
import json
import logging
import os
import sys
import tempfile
from collections import deque
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

OFFLINE = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_PLUGINS": ""}
MODEL = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "intermediate_size": 512,
    "vocab_size": 1000,
    "max_position_embeddings": 1 << 20,
    "torch_dtype": "bfloat16",
}
"""Any model that the engine's configuration accepts: the scheduler is told the groups of the cache itself."""
REQUEST = "0"
TOKEN = 1
BLOCKS = 60_000
"""More than a request needs."""
SEQUENCES = 8


def call(function: Any, **words: Any) -> Any:  # noqa: ANN401 - the engine's own
    """Call one of the release's functions with those words that it knows."""
    known = inspect.signature(function).parameters
    return function(**{key: value for key, value in words.items() if key in known})


def config_of(folder: str, question: dict[str, Any]) -> Any:  # noqa: ANN401 - a VllmConfig
    """Return the release's configuration, with drafts where the question has some."""
    config = import_module("vllm.config")
    length = question["length"]
    model = config.ModelConfig(model=folder, dtype="bfloat16", max_model_len=length, skip_tokenizer_init=True)
    scheduling = config.SchedulerConfig(
        max_num_seqs=SEQUENCES,
        max_num_batched_tokens=question["batched_tokens"],
        max_model_len=length,
        enable_chunked_prefill=True,
        is_encoder_decoder=False,
    )
    cache = config.CacheConfig(block_size=question["block"], enable_prefix_caching=False)
    whole = config.VllmConfig(scheduler_config=scheduling, model_config=model, cache_config=cache)
    cache.num_gpu_blocks = BLOCKS
    # The checks of a start have passed: what the scheduler reads may now be set without a draft or a GPU.
    scheduling.async_scheduling = question["concurrent"]
    if question["draft_tokens"]:
        whole.speculative_config = drafts_of(config, model, question)
    return whole


def drafts_of(config: Any, model: Any, question: dict[str, Any]) -> Any:  # noqa: ANN401 - a SpeculativeConfig
    """Return drafts by n-grams, or by a model whose own cache is ``lookahead`` tokens ahead (EAGLE)."""
    drafts = config.SpeculativeConfig(
        method="ngram",
        num_speculative_tokens=question["draft_tokens"],
        prompt_lookup_max=3,
        target_model_config=model,
        target_parallel_config=config.ParallelConfig(),
    )
    if question["lookahead"]:
        vars(drafts).update(method="eagle", use_eagle=lambda: True)
    return drafts


def groups_of(question: dict[str, Any]) -> Iterator[Any]:
    """Yield a group of full attention and, where the question has a window, one of it."""
    interface = import_module("vllm.v1.kv_cache_interface")
    shape = {
        "block_size": question["block"],
        "num_kv_heads": 1,
        "head_size": 1,
        "dtype": import_module("torch").float32,
    }
    yield interface.KVCacheGroupSpec(["full"], interface.FullAttentionSpec(**shape))
    if question["window"]:
        spec = interface.SlidingWindowSpec(sliding_window=question["window"], **shape)
        yield interface.KVCacheGroupSpec(["window"], spec)


class Serving:
    """The release's scheduler with one request, and the steps whose results it has not seen."""

    def __init__(self, folder: str, question: dict[str, Any]) -> None:
        config = config_of(folder, question)
        self.question = question
        self.concurrent: bool = question["concurrent"]
        self.scheduler = self._scheduler(config)
        self.request = self._request()
        self.scheduler.add_request(self.request)
        self.steps: deque[tuple[Any, bool]] = deque()
        managers = self.scheduler.kv_cache_manager.coordinator.single_type_managers
        self.managers = managers
        self.peaks = [0] * len(managers)

    def _scheduler(self, config: Any) -> Any:  # noqa: ANN401 - the engine's own
        interface = import_module("vllm.v1.kv_cache_interface")
        plain = import_module("vllm.v1.core.sched.scheduler").Scheduler
        kind = (
            import_module("vllm.v1.core.sched.async_scheduler").AsyncScheduler if self.concurrent else plain
        )
        words = {
            "vllm_config": config,
            "kv_cache_config": interface.KVCacheConfig(
                num_blocks=BLOCKS, kv_cache_tensors=[], kv_cache_groups=list(groups_of(self.question))
            ),
            "structured_output_manager": import_module("vllm.v1.structured_output").StructuredOutputManager(
                config
            ),
            "block_size": self.question["block"],
            "log_stats": False,
        }
        # A subclass may take its parent's arguments unnamed.
        known = inspect.signature(plain.__init__).parameters
        return kind(**{key: value for key, value in words.items() if key in known})

    def _request(self) -> Any:  # noqa: ANN401 - the engine's own
        sampling = import_module("vllm.sampling_params").SamplingParams(
            max_tokens=self.question["answer"], ignore_eos=True
        )
        return call(
            import_module("vllm.v1.request").Request,
            request_id=REQUEST,
            prompt_token_ids=[TOKEN] * self.question["prompt"],
            sampling_params=sampling,
            pooling_params=None,
            eos_token_id=None,
        )

    def serve(self) -> list[int]:
        """Serve the request to its end; return the most blocks that it held in each group."""
        while self.unfinished or self.steps:
            ahead = self.unfinished and self._schedule()
            # A concurrent scheduler plans the next step before it sees the result of this one.
            if ahead and self.concurrent and len(self.steps) == 1 and self.unfinished:
                continue
            if not self.steps:
                raise RuntimeError("nothing is scheduled of an unfinished request")
            self._finish(*self.steps.popleft())
        return self.peaks

    @property
    def unfinished(self) -> bool:
        """Whether the scheduler still has the request."""
        return REQUEST in self.scheduler.requests

    def _schedule(self) -> bool:
        """Schedule a step; return whether it has tokens."""
        step = self.scheduler.schedule()
        if not step.total_num_scheduled_tokens:
            return False
        held = (self._held(manager) for manager in self.managers)
        self.peaks = [max(pair) for pair in zip(self.peaks, held, strict=True)]
        self.steps.append((step, self.request.num_computed_tokens >= self.question["prompt"]))
        return True

    def _held(self, manager: Any) -> int:  # noqa: ANN401 - the engine's own
        return sum(not block.is_null for block in manager.req_to_blocks.get(REQUEST, ()))

    def _finish(self, step: Any, answering: bool) -> None:  # noqa: ANN401 - the engine's own
        """Return a step's result: a token once the prompt is read, and new draft tokens."""
        outputs = import_module("vllm.v1.outputs")
        result = outputs.ModelRunnerOutput(
            req_ids=[REQUEST],
            req_id_to_index={REQUEST: 0},
            sampled_token_ids=[[TOKEN] if answering else []],
            logprobs=None,
            prompt_logprobs_dict={},
            pooler_output=[],
        )
        self.scheduler.update_from_output(step, result)
        drafted = self.question["draft_tokens"]
        # The concurrent scheduler counts on drafts by itself.
        if drafted and answering and not self.concurrent and self.unfinished:
            self.scheduler.update_draft_token_ids(outputs.DraftTokenIds([REQUEST], [[TOKEN] * drafted]))


def main() -> None:
    """Answer every question."""
    os.environ.update(OFFLINE)
    logging.disable(logging.WARNING)
    # Some releases are installed as their build for CUDA, which finds no platform where there is no GPU.
    vars(import_module("vllm.platforms"))["_current_platform"] = import_module(
        "vllm.platforms.cpu"
    ).CpuPlatform()
    source, target = map(Path, sys.argv[1:])
    with (
        tempfile.TemporaryDirectory() as folder,
        source.open(encoding="utf-8") as questions,
        target.open("w", encoding="utf-8") as answers,
    ):
        Path(folder, "config.json").write_text(json.dumps(MODEL), encoding="utf-8")
        for line in questions:
            answers.write(json.dumps({"blocks": Serving(folder, json.loads(line)).serve()}) + "\n")


if __name__ == "__main__":
    main()
