"""What a person should know about a plan that starts."""

from collections.abc import Iterator
from math import ceil
from typing import Final

from packaging.version import Version

from service.advisor.candidates.engine_start import Start
from service.architecture.layers.experts import MixtureOfExperts
from service.engine_config.offload_checks import fetches
from service.engines.arguments.arguments import releases_with, variables_of
from service.engines.arguments.effects import Effect, effect_of
from service.engines.flags import ServeFlags
from service.engines.releases import RELEASES, rules_for
from service.engines.rules.capacity import TokenReport
from service.kv_cache.kv_cache import CacheGroup, KvCache
from service.speed.speed_constants import speed_constants

NO_FLAGS: Final = ServeFlags()
ADAPTER_FLAGS: Final = ("max_loras", "max_lora_rank", "max_cpu_loras", "fully_sharded_loras")
"""Flags that are read with ``--enable-lora`` alone."""
GIANT_BLOCK: Final = 256
"""Tokens. Short prompts rarely fill larger blocks, so that prefix caching rarely hits."""


def warnings(start: Start, data_parallel_size: int = 1, flags: ServeFlags = NO_FLAGS) -> tuple[str, ...]:
    """Return the warnings about one candidate, the most important first."""
    return (
        *_unprofiled_encoders(start, flags),
        *_split_batches(flags),
        *_not_offloaded(start, flags),
        *_unmeasured_ranks(start, data_parallel_size),
        *_unpassed_dtype(start),
        *_slow_prompts(start),
        *_unread_tokenizer(start),
        *_deprecated_name(start, flags),
        *_adapters_off(flags),
    )


def notes(start: Start, cache: KvCache) -> tuple[str, ...]:
    """Return what the figures of one candidate mean, and where its cache wastes memory."""
    return (*_meaning_of_tokens(start, cache), *_padding(cache), *_giant_blocks(start, cache))


def _unprofiled_encoders(start: Start, flags: ServeFlags) -> Iterator[str]:
    if flags.skip_mm_profiling and start.architecture.multimodal:
        yield (
            "--skip-mm-profiling leaves encoders out of the profile run: the cache takes the memory that "
            "they need, and the first large image or video may end in an out-of-memory error. A lower "
            "--gpu-memory-utilization leaves room for them."
        )


def _not_offloaded(start: Start, flags: ServeFlags) -> Iterator[str]:
    release = start.engine_config.release
    if (flags.cpu_offload_gb or fetches(flags)) and not start.engine_config.offloads_weights:
        later = (each for each in RELEASES if each > release)
        able = next((each for each in later if rules_for(each).batches.v2_model_runner_offloads), None)
        moves = "" if able is None else f" vLLM {able} moves them."
        yield (
            f"vLLM {release} runs this model on its V2 model runner, which keeps all weights on the GPU "
            f"whatever --cpu-offload-gb says, and does not log it.{moves}"
        )


def _deprecated_name(start: Start, flags: ServeFlags) -> Iterator[str]:
    release, name = start.engine_config.release, start.engine_config.rules.checkpoints.online_fp8
    if flags.quantization == "fp8" and start.architecture.stores_16_bits and name != flags.quantization:
        yield (
            f"vLLM {release} runs --quantization fp8 of 16-bit weights as {name} and calls the old name "
            "deprecated."
        )


def _adapters_off(flags: ServeFlags) -> Iterator[str]:
    """Source: vLLM 0.10.2 to 0.33.0, EngineArgs.create_engine_config: no LoRAConfig without enable_lora."""
    given = [
        f"--{name.replace('_', '-')}" for name in ADAPTER_FLAGS if getattr(flags, name) not in {None, False}
    ]
    if given and not flags.enable_lora:
        verb = "has" if len(given) == 1 else "have"
        yield f"{', '.join(given)} {verb} no effect without --enable-lora: no room for adapters is planned."


def _split_batches(flags: ServeFlags) -> Iterator[str]:
    if flags.enable_dbo:
        yield (
            "--enable-dbo keeps communication buffers and CUDA graphs for two halves of a batch. How much "
            "memory they take is not modelled: less may be left for the cache than is computed."
        )


def environment_warnings(environment: tuple[tuple[str, str], ...], release: Version) -> tuple[str, ...]:
    """Return what the plan does not say about environment variables, one sentence for each of them."""
    return tuple(words for name, value in environment if (words := _variable(name, value, release)))


def left_out_warnings(secret: tuple[str, ...], not_given: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """Return which arguments printed commands do not repeat, and why; nothing where they repeat all."""
    found = []
    if secret:
        found.append(f"Commands do not repeat {', '.join(secret)}: the value is secret.")
    if not_given:
        names = ", ".join(f"{name} ({variables})" for name, variables in not_given)
        found.append(f"Commands do not repeat {names}: the text does not give the value.")
    return tuple(found)


def _variable(name: str, value: str, release: Version) -> str:
    """Return why a variable is not in the plan; nothing where it is, or where it changes nothing."""
    effect = effect_of(name, None, value, release)
    if effect is None:
        return f"{name} is not a variable of vLLM, or its effect is not known: the plan does not use it."
    if releases_with(name) and name not in variables_of(release):
        return f"vLLM {release} does not read {name}."
    if effect.effect is Effect.NOT_MODELLED:
        return f"The effect of {name} is not modelled: {effect.reason}."
    return ""


def _unmeasured_ranks(start: Start, data_parallel_size: int) -> Iterator[str]:
    layers = start.architecture.distinct_layers
    if data_parallel_size == 1 or not any(
        isinstance(layer.feed_forward, MixtureOfExperts) for layer in layers
    ):
        return
    yield (
        f"Experts compute the tokens of all {data_parallel_size} data parallel ranks. No such start was "
        "measured, so the memory that the profile run takes, and with it the memory left for the cache, is "
        "given as a wide interval. A lower --max-num-batched-tokens narrows it."
    )


def _unpassed_dtype(start: Start) -> Iterator[str]:
    engine_config = start.engine_config
    if not engine_config.passes_cache_dtype and engine_config.kv_cache_dtype != "auto":
        yield (
            f"vLLM {engine_config.release} does not pass {engine_config.kv_cache_dtype} to this model's "
            f"layers: the cache stays {engine_config.dtype}, and the log does not say so."
        )


def _slow_prompts(start: Start) -> Iterator[str]:
    words = slow_prompts(start)
    if words:
        yield f"{words}."


def slow_prompts(start: Start) -> str:
    """Say that prompts take longer with this cache, and by how much; empty where they do not."""
    reason = start.unpacked_in_prompts
    if reason is None:
        return ""
    times = speed_constants(start.engine_config.release).unpacked_prompt_attention
    return (
        f"{reason}. Prompts take longer: attention over them takes about {times:.1f} times as long as with "
        "an fp8 cache, as measured on compute capability 12.0"
    )


def _unread_tokenizer(start: Start) -> Iterator[str]:
    """Say that a file which is not at hand may lower the length of learned positions."""
    fields, files = start.architecture.pooling_fields, start.architecture.pooling_fields.files
    known = files.tokenizer_length is not None or files.max_seq_length is not None
    if start.architecture.pooling is not None and fields.absolute_positions and not known:
        yield (
            "The engine lowers max_model_len to model_max_length of tokenizer_config.json, which was not "
            f"read: RoBERTa's is often 2 less than {start.engine_config.max_model_len:,}."
        )


def _meaning_of_tokens(start: Start, cache: KvCache) -> Iterator[str]:
    release = start.engine_config.release
    if start.engine_config.rules.capacity.token_report is TokenReport.CONCURRENCY:
        if _counts_slots(start, cache):
            return
        yield (
            f"The logged tokens are what {cache.max_concurrency:.2f} requests of {cache.max_model_len:,} "
            f"tokens add up to, not token slots: one request fits up to {cache.estimated_max_model_len:,} "
            "tokens."
        )
    elif len(cache.groups) > 1:
        yield (
            f"vLLM {release} logs tokens as blocks // groups x the smallest block "
            f"({cache.num_blocks:,} // {len(cache.groups)} x {min(g.block_size for g in cache.groups)}), "
            "as if every group stored every token. Sliding-window and recurrent layers store fewer, so "
            f"{cache.max_concurrency:.2f} requests of {cache.max_model_len:,} tokens fit. "
            f"A single request can have up to {cache.estimated_max_model_len:,} tokens."
        )


def _counts_slots(start: Start, cache: KvCache) -> bool:
    """Whether logged tokens are those that the blocks hold, less what requests leave in their last blocks.

    Ranks that share the tokens of a request hold a block of them each.
    """
    if len(cache.groups) != 1:
        return False
    tokens = cache.groups[0].block_size * start.engine_config.decode_context_parallel_size
    return abs(cache.num_blocks * tokens - cache.tokens) <= tokens * ceil(cache.max_concurrency)


def _padding(cache: KvCache) -> Iterator[str]:
    padded = {
        (group.kind, group.layers, group.page_size_bytes, group.unpadded_page_size_bytes): group
        for group in cache.groups
        if group.page_size_bytes > group.unpadded_page_size_bytes
    }
    for group in padded.values():
        yield _waste(group)


def _waste(group: CacheGroup) -> str:
    wasted = group.page_size_bytes - group.unpadded_page_size_bytes
    percent = 100 * wasted / group.unpadded_page_size_bytes
    return (
        f"Padding wastes {group.layers} x ({group.page_size_bytes:,} - {group.unpadded_page_size_bytes:,}) "
        f"bytes per block of {group.kind} layers (+{percent:.2f} %)."
    )


def _giant_blocks(start: Start, cache: KvCache) -> Iterator[str]:
    block = max((group.block_size for group in cache.groups if group.kind != "mamba"), default=0)
    if block <= GIANT_BLOCK or not start.engine_config.enable_prefix_caching:
        return
    hybrid = start.architecture.is_hybrid
    remedy = (
        "A block is as large as a recurrent state. A cache dtype with more bytes per token (auto), a smaller "
        "state (--mamba-ssm-cache-dtype) or more ranks make blocks of fewer tokens. If all prompts are "
        "shorter, --no-enable-prefix-caching saves the memory of the states that are cached for them."
        if hybrid
        else "A smaller --block-size makes blocks that prompts fill."
    )
    yield (
        f"A block holds {block:,} tokens. A shorter prompt never fills one, so prefix caching rarely hits. "
        f"{remedy}"
    )
