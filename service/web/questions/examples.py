"""Questions that show what the pages are for."""

from dataclasses import dataclass
from typing import Final

from service.web.questions.page_question import PageQuestion


@dataclass(frozen=True, slots=True)
class ExampleQuestion:
    """A question with its reason."""

    title: str
    words: str
    question: PageQuestion

    @property
    def link(self) -> str:
        """Address of its page."""
        return self.question.link()


def _asked(**values: str) -> PageQuestion:
    return PageQuestion(tuple(values.items()))


EXAMPLES: Final = (
    ExampleQuestion(
        "Gemma 4 31B on two RTX 3090: why 1.87 requests?",
        "The engine logs 25,200 tokens. The sum over its KV cache groups says what fits.",
        _asked(
            model="google/gemma-4-31B-it", gpu="rtx-3090-24gb", engine_version="0.19.0",
            tensor_parallel_size="2", max_model_len="131072", max_num_batched_tokens="2048",
            kv_cache_dtype="auto", kv_cache_memory_bytes="12390980648", view="pages",
        ),
    ),
    ExampleQuestion(
        "Gemma 4 31B with int8_per_token_head: why is it refused?",
        "520 and 1,032 bytes for each token and head: pages that no whole number links.",
        _asked(
            model="google/gemma-4-31B-it", gpu="rtx-3090-24gb", engine_version="0.20.2",
            tensor_parallel_size="2", max_model_len="131072", max_num_batched_tokens="2048",
            kv_cache_dtype="int8_per_token_head", kv_cache_memory_bytes="12390980648", view="pages",
        ),
    ),
    ExampleQuestion(
        "Qwen3.6 35B-A3B with TurboQuant: why blocks of 2,816 tokens?",
        "The recurrent state decides the block: 2,816 tokens, with little padding.",
        _asked(
            model="Qwen/Qwen3.6-35B-A3B", gpu="h200-sxm-141gb", engine_version="0.33.0",
            tensor_parallel_size="1", kv_cache_dtype="turboquant_k8v4", view="pages",
        ),
    ),
    ExampleQuestion(
        "Qwen3 32B for 16 requests of 8,000 tokens: which GPU?",
        "Every GPU type with every cache dtype in one table.",
        _asked(model="Qwen/Qwen3-32B", prompt_tokens="8000", output_tokens="1000", concurrent_requests="16"),
    ),
)  # fmt: skip
