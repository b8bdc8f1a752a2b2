"""Words that every text for people shares: verdicts, GPUs, cache dtypes, fixes."""

from collections.abc import Iterator, Sequence
from typing import Final

from service.advisor.candidates.plan_types import Candidate
from service.advisor.candidates.refusal import Fix
from service.advisor.candidates.verdict import Verdict
from service.application.text.layout import folded

OBJECT: Final = "'{"
MOST_OF_A_MESSAGE: Final = 420
"""Characters of a message that are shown; JSON has all of it."""
SHORT: Final = "memory may run out under load"
"""Said of a change whose start has a warning of that."""


def printable(text: str) -> str:
    """Return a text with a space for each character that a terminal would obey; line breaks stay."""
    return "".join(each if each.isprintable() or each == "\n" else " " for each in text)


def cut(text: str, most: int) -> str:
    """Return a text, or its first characters and a mark that it goes on."""
    return text if len(text) <= most else f"{text[:most]} ..."


def with_type(name: str, message: str) -> str:
    """Return an exception's message behind its name, unless the message is a sentence that names it."""
    within = name and any(not rest.startswith(":") for rest in message.split(name)[1:])
    return f"{name}: {message}" if name and not within else message


def verdict_words(verdict: Verdict) -> str:
    """Return a verdict as people write it: ``does not start``."""
    return verdict.replace("_", " ")


def sizes(candidate: Candidate) -> str:
    """Return the parallel sizes, those of one left out: ``TP 8 x PP 2``; ``TP 1`` for one GPU."""
    words = [f"TP {candidate.tensor_parallel_size}"]
    if candidate.pipeline_parallel_size > 1:
        words.append(f"PP {candidate.pipeline_parallel_size}")
    if candidate.flags.data_parallel_size > 1:
        words.append(f"DP {candidate.flags.data_parallel_size}")
    if candidate.enable_expert_parallel:
        words.append("EP")
    return " x ".join(words)


def gpus_words(candidate: Candidate) -> str:
    """Return how many GPUs a candidate takes, and how they are used: ``16 GPUs (TP 8 x PP 2)``."""
    count = candidate.gpus
    words = "1 GPU" if count == 1 else f"{count} GPUs ({sizes(candidate)})"
    return words if candidate.replicas == 1 else f"{candidate.replicas} replicas of {words}"


def dtype_words(candidate: Candidate) -> str:
    """Return the cache dtype, with what it stands for where it names no type itself."""
    if candidate.caches_nothing:
        return "no KV cache"
    dtype, resolved = candidate.kv_cache_dtype, candidate.resolved_kv_cache_dtype
    return dtype if resolved in {None, dtype} else f"{dtype} ({resolved})"


def start_words(candidate: Candidate) -> str:
    """Return what a candidate starts with: cache dtype, quantized weights, shorter context, GPUs."""
    named = (dtype_words(candidate), weights_words(candidate), _context(candidate), gpus_words(candidate))
    return ", ".join(each for each in named if each)


def weights_words(candidate: Candidate) -> str:
    """Return what ``--quantization`` makes of the weights, such as ``fp8 weights``; empty without the flag.

    Values that say how many weights share a scale, such as ``fp8_per_tensor``, are named by their type.
    """
    method = candidate.flags.quantization
    return "" if method is None else f"{method.partition('_per_')[0]} weights"


def _context(candidate: Candidate) -> str:
    """Return the length that the flag says, or the engine chose where it was to fit it to the memory."""
    length, cache = candidate.flags.max_model_len, candidate.kv_cache
    if not length:
        return ""
    if length > 0:
        return f"context {length:,}"
    if cache is None:
        return ""
    low, high = cache.max_model_len_low, cache.max_model_len_high
    span = "" if low is None or high is None or low == high else f", {low:,} to {high:,}"
    return f"context {cache.max_model_len:,} (auto{span})"


def figures(candidate: Candidate) -> str:
    """Return the tokens and the concurrency of a candidate's cache; empty without a cache."""
    cache = candidate.kv_cache
    return "" if cache is None else f"{cache.tokens:,} tokens, {cache.max_concurrency:.2f}x"


def change_words(fix: Fix) -> str:
    """Return a change with what it gives: ``vLLM >= 0.24.0: 249,059 tokens, 1.90x``.

    What it gives stands before a JSON object, behind which nothing is copied by mistake.
    """
    gain = "" if fix.tokens is None else f": {fix.tokens:,} tokens"
    if fix.max_concurrency is not None:
        gain += f", {fix.max_concurrency:.2f}x"
    if gain and fix.gpus > 1:
        gain += f" on {fix.gpus} GPUs"
    doubt = doubt_words(fix)
    if OBJECT in fix.change:
        return f"{gain.removeprefix(': ')}{doubt} with {fix.change}"
    return f"{fix.change}{gain}{doubt}"


def doubt_words(fix: Fix) -> str:
    """Return what is not sure of a change, with a blank before it; empty where all is."""
    doubts = () if fix.verdict is Verdict.STARTS else (verdict_words(fix.verdict),)
    said = ", ".join((*doubts, *(() if fix.warning is None else (SHORT,))))
    return f" ({said})" if said else ""


def basis_words(fix: Fix) -> str:
    """Return with which memory a change was planned."""
    return "planned" if fix.logged_cache_bytes is None else "planned with the logged memory"


def range_words(fixes: Sequence[Fix]) -> str:
    """Return one change with what it gives several: ``--enforce-eager: 330,614 to 777,392 tokens``."""
    first, found = fixes[0], sorted(fix.tokens for fix in fixes if fix.tokens is not None)
    if not found or found[0] == found[-1]:
        return change_words(first)
    doubt = doubt_words(first)
    gain = f"{found[0]:,} to {found[-1]:,} tokens"
    if first.gpus > 1:
        gain += f" on {first.gpus} GPUs"
    if OBJECT in first.change:
        return f"{gain}{doubt} with {first.change}"
    return f"{first.change}: {gain}{doubt}"


def indented(text: str, width: int, indent: str = "  ") -> Iterator[str]:
    """Yield the lines of a text, wrapped and indented; a word longer than a line stays whole."""
    for paragraph in text.splitlines():
        yield from folded(paragraph, width, indent, f"{indent}  ")
