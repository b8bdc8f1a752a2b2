"""What a plan of a model that returns vectors or scores says in words."""

from service.advisor.candidates.plan_types import Candidate
from service.architecture.pooling import PoolingHead, SequencePooling


def pooling_sentence(candidate: Candidate) -> str:
    """Say what limits the requests of a pooling model; empty for one that generates text."""
    start = candidate.start
    head = None if start is None else start.architecture.pooling
    if start is None or head is None:
        return ""
    config = start.engine_config
    batch = (
        f"a step takes at most {config.max_num_seqs:,} requests (max_num_seqs) and "
        f"{config.max_num_batched_tokens:,} tokens together (max_num_batched_tokens)"
    )
    if candidate.caches_nothing:
        return (
            "No KV cache: every token sees the whole prompt, so that nothing is kept between steps, and the "
            f"engine logs no cache size. Requests are limited by the batch alone: {batch}, and a prompt has "
            f"at most {config.max_model_len:,} tokens."
        )
    prefixes = "prefixes are cached" if config.enable_prefix_caching else "prefixes are not cached"
    return (
        f"It returns {_returned(head)} and writes no text (pooling runner); {batch}. The KV cache holds the "
        f"prompts that are being computed; {prefixes}."
    )


def _returned(head: PoolingHead) -> str:
    if head.weights.classifier or head.weights.split:
        return "scores"
    if head.by_token:
        return "a vector for each token"
    of = {
        SequencePooling.LAST: "the last token",
        SequencePooling.CLS: "the first token",
        SequencePooling.MEAN: "all tokens (mean)",
    }
    return f"one vector of {of[head.sequence]}"
