"""Which runner runs a model: it generates text, or it returns vectors or scores (pooling)."""

from dataclasses import replace
from typing import Final

from service.architecture.context_length import ContextLength
from service.architecture.model import ModelArchitecture
from service.architecture.pooling import (
    Conversion,
    HeadWeights,
    PoolingFields,
    PoolingHead,
    SequencePooling,
    TokenPooling,
)
from service.engine_config.graph_modes import GraphMode, resolve_graph_mode
from service.engine_config.scheduling_checks import UnmodelledEngine
from service.engine_config.state_caching import ATTENTION_FREE
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal, Stage
from service.engines.rules.pooling import PartialPrompts, PoolingRules

AUTO: Final = "auto"
GENERATE: Final = "generate"
POOLING: Final = "pooling"
NOT_CONVERTED: Final = (
    "ModelConfig: This model does not support `--runner pooling`. You can pass `--convert <embed|classify> "
    "to adapt it into a pooling model."
)


def as_run(architecture: ModelArchitecture, flags: ServeFlags, rules: PoolingRules) -> ModelArchitecture:
    """Return the model as the runner of a start builds it.

    Source: vLLM 0.11.0 to 0.33.0, ModelConfig.__post_init__ and get_and_verify_max_len.

    Raises:
        EngineRefusal: the runner cannot run the class (stage ``config``).
        UnmodelledEngine: the model would generate text while its tokens see each other both ways.
    """
    fields = architecture.pooling_fields
    pools = _pools(architecture, flags)
    if not pools and architecture.pooling is not None:
        raise EngineRefusal(Stage.CONFIG, f"ModelConfig: {rules.generate_refusal}", type="ValidationError")
    context = _context(architecture.context, fields, pools=pools)
    if context is not architecture.context:
        architecture = replace(architecture, context=context)
    if not pools:
        if architecture.encodes:
            raise UnmodelledEngine(
                f"{architecture.class_name} with is_causal set to false generates no text: its tokens see "
                "each other both ways. --runner pooling runs it as an encoder"
            )
        return architecture
    head = architecture.pooling or _converted(architecture, flags)
    if fields.files.sequence is not None:
        head = replace(head, sequence=fields.files.sequence)
    dtype = "float16" if fields.stored_in_float32 else architecture.dtype
    return replace(architecture, pooling=head, dtype=dtype)


def pooling_flags(
    architecture: ModelArchitecture, flags: ServeFlags, rules: PoolingRules, max_model_len: int
) -> ServeFlags:
    """Return the flags with the defaults that the release has for a pooling model; others are left as given.

    Source: vLLM 0.32.0, EngineArgs._set_default_chunked_prefill_and_prefix_caching_args and
    VllmConfig.__post_init__: whole CUDA graphs become graphs between attention.

    Raises:
        UnmodelledEngine: draft tokens are asked for.
    """
    head = architecture.pooling
    if head is None:
        return flags
    if flags.speculative_config is not None:
        raise UnmodelledEngine("a pooling model writes no text, so that there is nothing to draft")
    partial = _computes_parts(architecture, head, rules)
    chunked = partial if flags.enable_chunked_prefill is None else flags.enable_chunked_prefill
    hybrid = architecture.is_recurrent and architecture.class_name not in ATTENTION_FREE
    caches = partial and not (rules.hybrids_opt_in and hybrid)
    batch = flags.max_num_batched_tokens
    if batch is None and rules.batch_is_length and not chunked:
        batch = max_model_len
    ahead = flags.async_scheduling
    if ahead is None and not rules.schedules_ahead:
        ahead = False
    whole = resolve_graph_mode(flags).whole
    return replace(
        flags,
        max_num_batched_tokens=batch,
        enable_chunked_prefill=chunked,
        enable_prefix_caching=caches if flags.enable_prefix_caching is None else flags.enable_prefix_caching,
        async_scheduling=ahead,
        cudagraph_mode=GraphMode.PIECEWISE.value if whole else flags.cudagraph_mode,
    )


def runner_inputs(flags: ServeFlags) -> tuple[str | None, str | None]:
    """Return what the runner depends on of the flags."""
    return flags.runner, flags.convert


def _pools(architecture: ModelArchitecture, flags: ServeFlags) -> bool:
    """Whether the start is one of the pooling runner (vLLM 0.32.0, ModelConfig._get_runner_type)."""
    if flags.runner not in {None, AUTO}:
        return flags.runner == POOLING
    if flags.convert not in {None, AUTO, Conversion.NONE}:
        return True
    fields = architecture.pooling_fields
    return fields.files.pools or architecture.pooling is not None or fields.conversion is not None


def _converted(architecture: ModelArchitecture, flags: ServeFlags) -> PoolingHead:
    """Return the head that the engine gives a class that generates text (vLLM 0.32.0, models/adapters.py).

    Raises:
        EngineRefusal: ``--convert none`` (stage ``config``).
    """
    fields = architecture.pooling_fields
    asked = flags.convert if flags.convert not in {None, AUTO} else fields.conversion or Conversion.EMBED
    match asked:
        case Conversion.NONE:
            raise EngineRefusal(Stage.CONFIG, NOT_CONVERTED, type="ValidationError")
        case Conversion.CLASSIFY:
            scores = HeadWeights(classifier=architecture.hidden_size * fields.labels)
            return PoolingHead(weights=scores, dtype=fields.head_dtype)
        case Conversion.REWARD:
            return PoolingHead(by_token=True, dtype=fields.head_dtype)
        case _:
            return PoolingHead(dtype=fields.head_dtype)


def _computes_parts(architecture: ModelArchitecture, head: PoolingHead, rules: PoolingRules) -> bool:
    """Whether a prompt may be computed in parts: each token must see earlier ones alone."""
    if architecture.encodes or head.sequence is not SequencePooling.LAST:
        return False
    match rules.partial_prompts:
        case PartialPrompts.LAST:
            return not head.by_token
        case PartialPrompts.LAST_OR_EVERY:
            return head.tokens is not TokenPooling.STEP


def _context(context: ContextLength, fields: PoolingFields, *, pools: bool) -> ContextLength:
    """Return the lengths that the files beside the config allow.

    Source: vLLM 0.10.2 to 0.33.0, config/model.py _get_and_verify_max_len: the tokenizer's length counts for
    learned positions, and that of sentence_bert_config.json replaces all others.
    """
    files = fields.files
    if files.max_seq_length is not None:
        return replace(context, length=files.max_seq_length, scalings=())
    limit = files.tokenizer_length
    if not pools or not fields.absolute_positions or limit is None or context.length is None:
        return context
    return replace(context, length=min(limit, context.length))
