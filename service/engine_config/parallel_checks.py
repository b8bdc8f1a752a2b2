"""Whether the model can be split over the requested tensor-parallel ranks and pipeline stages."""

from typing import Final

from service.architecture.encoders.tower import Split, Tower
from service.architecture.layers.attention import Attention
from service.architecture.layers.compressed_attention import SharedCompressedAttention
from service.architecture.layers.recurrence import (
    GatedDeltaNet,
    GroupedLinearAttention,
    KimiDeltaAttention,
    KimiK3DeltaAttention,
    LinearAttention,
    Mamba,
    Mamba2,
    Recurrence,
    ShortConvolution,
)
from service.architecture.model import ModelArchitecture
from service.architecture.pipeline import model_stages
from service.architecture.traits import MediaInputs
from service.engines.flags import ServeFlags
from service.engines.refusal import EngineRefusal, Stage
from service.engines.rules.parallelism import ParallelismRules
from service.units import ceil_div

NGRAMS_UNSPLITTABLE: Final = (
    "Qwen4Exp N-gram PLE embedding requires pipeline_parallel_size=1 because non-first pipeline ranks do not "
    "receive the raw input_ids it needs. Please run with PP=1."
)


def check_heads(architecture: ModelArchitecture, tensor_parallel_size: int) -> None:
    """Refuse a size that does not divide the query heads.

    Source: vLLM 0.32.0, ModelConfig.verify_with_parallel_config.

    Raises:
        EngineRefusal: stage ``config``.
    """
    mixer = architecture.lead_attention
    heads = 0 if mixer is None else mixer.num_heads
    if heads % tensor_parallel_size:
        raise EngineRefusal(
            Stage.CONFIG,
            f"VllmConfig: Total number of attention heads ({heads}) must be divisible by "
            f"tensor parallel size ({tensor_parallel_size}).",
            type="ValidationError",
        )


def check_uneven_ranks(flags: ServeFlags, rules: ParallelismRules) -> None:
    """Refuse ranks that decode context parallelism does not divide, before the scheduler is looked at.

    Source: vLLM 0.11.1 to 0.33.0, ParallelConfig.__post_init__ and EngineArgs.create_engine_config.

    Raises:
        EngineRefusal: stage ``config``.
    """
    ranks, parallel = flags.tensor_parallel_size or 1, flags.decode_context_parallel_size
    if ranks % parallel:
        error, words = rules.uneven_ranks_refusal
        raise EngineRefusal(Stage.CONFIG, words.format(ranks=ranks, parallel=parallel), type=error)


def check_context_parallel(
    architecture: ModelArchitecture, tensor_parallel_size: int, parallel: int, rules: ParallelismRules
) -> None:
    """Refuse decode context parallelism that the ranks cannot share.

    It needs key/value heads that are repeated on several ranks, unless attention is MLA.

    Source: vLLM 0.11.1 to 0.33.0, ModelConfig.verify_with_parallel_config.

    Raises:
        EngineRefusal: stage ``config``.
    """
    if parallel == 1 or not rules.context_parallel_refusals:
        return
    ranks, mixer = tensor_parallel_size, architecture.lead_attention
    if mixer is None:
        detail = "The engine divides the ranks by the model's key/value heads, and it has none."
        words = "integer division or modulo by zero"
        raise EngineRefusal(Stage.CONFIG, words, type="ZeroDivisionError", detail=detail)
    if not isinstance(mixer, Attention):
        return
    most, queries = ranks // mixer.num_kv_heads, mixer.num_heads // mixer.num_kv_heads
    refused = (ranks <= mixer.num_kv_heads, parallel > most, queries % parallel != 0)
    for template, applies in zip(rules.context_parallel_refusals, refused, strict=True):
        if applies:
            words = template.format(
                ranks=ranks, kv_heads=mixer.num_kv_heads, most=most, parallel=parallel, queries=queries
            )
            raise EngineRefusal(Stage.CONFIG, f"VllmConfig: {words}", type="ValidationError")


def check_pipeline(
    architecture: ModelArchitecture, pipeline_parallel_size: int, rules: ParallelismRules
) -> None:
    """Refuse pipeline stages for a model class that cannot be split so.

    Raises:
        EngineRefusal: stages ``config`` and ``model``.
    """
    if pipeline_parallel_size == 1:
        return
    unnamed = architecture.class_name in rules.pipeline_unnamed and not architecture.declared.text_class
    if unnamed or architecture.class_name in rules.pipeline_unsplittable:
        raise EngineRefusal(
            Stage.MODEL, "VllmConfig: No model architectures are specified", type="ValidationError"
        )
    if any(layer.before is not None for layer in architecture.layers):
        # vLLM 0.29.0 to 0.33.0, Qwen4ExpForConditionalGenerationConfig.verify_and_update_config.
        raise EngineRefusal(Stage.CONFIG, NGRAMS_UNSPLITTABLE, type="NotImplementedError")
    if (
        not architecture.class_limits.pipeline_parallel
        or architecture.class_name in rules.pipeline_unsupported
    ):
        raise EngineRefusal(
            Stage.CONFIG,
            "Pipeline parallelism is not supported for this model. "
            "Supported models implement the `SupportsPP` interface.",
            type="NotImplementedError",
        )


def check_missing_layers(
    architecture: ModelArchitecture, pipeline_parallel_size: int, rules: ParallelismRules
) -> None:
    """Refuse pipeline stages where the model's own code fails on layers that are held elsewhere.

    Raises:
        EngineRefusal: stage ``model``.
    """
    failure = rules.pipeline_unready.get(architecture.class_name)
    if pipeline_parallel_size > 1 and failure is not None:
        error, _, words = failure.partition(": ")
        raise EngineRefusal(Stage.MODEL, words, type=error)


def check_shared_caches(architecture: ModelArchitecture, pipeline_parallel_size: int) -> None:
    """Refuse pipeline stages that part a layer from the earlier one whose cache it reads.

    Source: vLLM 0.10.2 to 0.33.0, validate_kv_sharing_target.

    Raises:
        EngineRefusal: stage ``model``.
    """
    if pipeline_parallel_size == 1:
        return
    _check_compressed_caches(architecture, pipeline_parallel_size)
    for stage in model_stages(architecture, pipeline_parallel_size):
        for index in stage:
            mixer = architecture.layers[index].mixer
            source = mixer.shares_cache_of if isinstance(mixer, Attention) else None
            if source is not None and source not in stage:
                reader, owner = (_attention_name(architecture, layer) for layer in (index, source))
                raise EngineRefusal(
                    Stage.MODEL,
                    f"Specified KV sharing target layer for {reader} is not valid: "
                    f"target layer {owner} is not a valid Attention layer in the model.",
                    detail=f"Pipeline stages part layer {index} from layer {source}, whose cache it reads.",
                )


def _check_compressed_caches(architecture: ModelArchitecture, pipeline_parallel_size: int) -> None:
    """Refuse stages that part a layer from the one that compresses its tokens (DeepSeek V4.1).

    Source: vLLM 0.30.0 to 0.33.0, models/deepseek_v41/attention.py DeepseekV4Attention.__init__.
    """
    firsts = {stage.start for stage in model_stages(architecture, pipeline_parallel_size)}
    source = -1
    for index, layer in enumerate(architecture.layers):
        mixer = layer.mixer
        if index in firsts:
            held = index
        if not isinstance(mixer, SharedCompressedAttention) or not mixer.reads_compressed:
            continue
        source = index if mixer.compresses else source
        if source >= held:
            continue
        name = f"{'language_model.' if architecture.multimodal else ''}model.layers.{source}.attn"
        keys = mixer.indexer is not None
        missing = f"Indexer K cache source {name}.indexer.k_cache" if keys else f"Compressed-KV source {name}"
        raise EngineRefusal(
            Stage.MODEL,
            f"{missing} not found on this rank; PP splits inside a v4.1 kv-sharing group are not supported.",
            type="NotImplementedError",
            detail=f"Pipeline stages part layer {index} from layer {source}, whose tokens it reads.",
        )


def _attention_name(architecture: ModelArchitecture, index: int) -> str:
    within = "language_model." if architecture.multimodal else ""
    return f"{within}model.layers.{index}.self_attn.attn"


def has_whole_encoders(architecture: ModelArchitecture, flags: ServeFlags, rules: ParallelismRules) -> bool:
    """Whether each rank has whole encoders; classes that cannot do so split them, with a warning in the log.

    Source: vLLM 0.11.0 to 0.32.0, ModelConfig.__post_init__; 0.11.0, EngineArgs.create_model_config.
    """
    asked = flags.mm_encoder_tp_mode == "data" or flags.enable_multimodal_encoder_data_parallel
    return asked and architecture.class_name in rules.data_parallel_encoders


def check_layers(
    architecture: ModelArchitecture,
    tensor_parallel_size: int,
    rules: ParallelismRules,
    *,
    whole_encoders: bool = False,
) -> None:
    """Refuse a size by which some layer cannot be built. Encoders that each rank has whole are not split.

    Raises:
        EngineRefusal: what the model's own code raises (stage ``model``).
    """
    if not architecture.class_limits.tensor_parallel and tensor_parallel_size > 1:
        # vLLM 0.33.0, DoryForCausalLM.__init__
        name = architecture.class_name.removesuffix("ForCausalLM")
        words = f"{name} currently supports tensor_parallel_size=1 only"
        raise EngineRefusal(Stage.MODEL, words, type="ValueError")
    failure = rules.unrepeated_kv_heads.get(architecture.class_name)
    whole = architecture.class_name in rules.whole_kv_heads
    for mixer in (layer.mixer for layer in architecture.distinct_layers):
        if isinstance(mixer, Attention) and not whole:
            _check_attention(mixer, tensor_parallel_size, failure)
    for recurrence in architecture.recurrences:
        _check_state(recurrence, tensor_parallel_size)
    for layer in architecture.distinct_layers:
        if layer.ngrams is not None:
            _check_tables(layer.ngrams.tables, tensor_parallel_size)
    if not whole_encoders:
        size = architecture.lead_attention.head_size if architecture.lead_attention else 0
        if size and architecture.class_name in rules.encoders_by_text_heads:
            for tower in architecture.media.towers:
                _check_divisible(tower.block[0].outputs[0] // size, tensor_parallel_size)
        check_encoders(architecture.media, tensor_parallel_size)


def _check_tables(tables: int, ranks: int) -> None:
    """Refuse ranks without a table of n-grams: vLLM 0.30.0 to 0.33.0, ParallelEngramEmbedding.__init__."""
    if (ranks - 1) * ceil_div(tables, ranks) >= tables:
        words = f"Engram sharding leaves ranks without hash heads: {tables} heads over {ranks} shards"
        raise EngineRefusal(Stage.MODEL, words, type="AssertionError")


def check_encoders(media: MediaInputs, ranks: int) -> None:
    """Refuse to split heads or widths of encoders: they are looked at before their projections are made."""
    if media.heads is not None:
        _check_divisible(media.heads, ranks)
    if (media.width or 0) % ranks:
        # vLLM 0.19.1 and 0.33.0, MergedColumnParallelLinear: an assertion without words.
        raise EngineRefusal(Stage.MODEL, "", type="AssertionError")
    for tower in media.towers:
        _check_frame(tower, ranks)


def _check_frame(tower: Tower, ranks: int) -> None:
    """Refuse a split projection around the layers of an encoder: vLLM 0.27.0, ColumnParallelLinear."""
    if tower.heads % ranks and tower.heads > 1:
        return
    for projection in tower.frame:
        if projection.split is Split.COLUMN and len(projection.outputs) == 1:
            _check_divisible(projection.outputs[0], ranks)


def _check_kv_heads(heads: int, ranks: int, failure: str | None) -> None:
    """Heads are split, or else each is repeated on as many ranks: vLLM 0.32.0, LlamaAttention."""
    if heads < ranks and failure is not None:
        error, _, words = failure.partition(": ")
        raise EngineRefusal(Stage.MODEL, words.format(heads=heads, ranks=ranks), type=error)
    if heads % ranks and ranks % heads:
        raise EngineRefusal(Stage.MODEL, "", type="AssertionError")


def _check_attention(mixer: Attention, ranks: int, failure: str | None) -> None:
    heads = mixer.num_kv_heads
    if mixer.convolutions is not None and heads < ranks:
        # vLLM 0.26.0 to 0.33.0, InklingConvState: each rank has a whole head at least.
        words = f"sconv SWA cache supports tp_size <= num_kv_heads ({heads}), got {ranks}"
        raise EngineRefusal(Stage.MODEL, words, type="AssertionError")
    if mixer.stored_sinks:
        _check_sink_heads(heads, ranks)
    else:
        _check_kv_heads(heads, ranks, failure)


def _check_sink_heads(heads: int, ranks: int) -> None:
    """Heads with sinks in the cache are not repeated: vLLM 0.32.0, OpenPanguSinkAttention."""
    words = ""
    if heads < ranks:
        words = (
            f"Number of KV heads {heads} is less than TP size {ranks}, "
            "KV heads replication is not support yet."
        )
    elif heads % ranks:
        words = (
            f"Number of KV heads is greater than TP size, but total_num_kv_heads {heads} "
            f"is not divisible by tp_size {ranks}."
        )
    if words:
        raise EngineRefusal(Stage.MODEL, words, type="ValueError")


def _check_state(mixer: Recurrence, ranks: int) -> None:
    """Refuse to split heads or channels of a state: vLLM 0.32.0, MambaStateShapeCalculator, MambaMixer2."""
    match mixer:
        case GatedDeltaNet():
            _check_divisible(mixer.num_key_heads, ranks)
            _check_divisible(mixer.num_value_heads, ranks)
        case KimiDeltaAttention() | KimiK3DeltaAttention() | LinearAttention():
            if mixer.num_heads % ranks:
                raise EngineRefusal(Stage.MODEL, "", type="AssertionError")
        case GroupedLinearAttention():
            _check_groups(mixer, ranks)
        case Mamba2():
            _check_mamba2(mixer, ranks)
        case Mamba():
            _check_divisible(mixer.intermediate_size, ranks)
        case ShortConvolution():
            _check_divisible(mixer.channels, ranks)


def _check_groups(mixer: GroupedLinearAttention, ranks: int) -> None:
    """Each rank normalizes whole groups: vLLM 0.32.0, bailing_linear_attn.py BailingMoELinearAttention."""
    words = ""
    if ranks > mixer.norm_groups:
        words = "tp_size must be <= group_norm_size for local rms norm"
    elif mixer.norm_groups % ranks:
        words = "group_norm_size must be divisible by tp_size"
    if words or mixer.num_heads % ranks:
        raise EngineRefusal(Stage.MODEL, words, type="AssertionError")


def _check_mamba2(mixer: Mamba2, ranks: int) -> None:
    words = ""
    if mixer.num_heads % ranks:
        words = "Tensor parallel world size must divide num heads."
    elif mixer.num_groups % ranks and mixer.num_groups != 1:
        words = "If tensor parallel world size does not divide num_groups, then num_groups must equal 1."
    if words:
        raise EngineRefusal(Stage.MODEL, words, type="AssertionError")


def _check_divisible(count: int, ranks: int) -> None:
    if count % ranks:
        raise EngineRefusal(Stage.MODEL, f"{count} is not divisible by {ranks}", type="AssertionError")


def slice_refusal(flags: ServeFlags) -> EngineRefusal | None:
    """Return the refusal of more than one rank on slices of a GPU (MIG): CUDA shows a process one of them.

    Source: vLLM 0.19.0 to 0.32.0, ParallelConfig.__post_init__; torch counts one device where
    CUDA_VISIBLE_DEVICES names slices.
    """
    ranks = (flags.tensor_parallel_size or 1) * (flags.pipeline_parallel_size or 1)
    if ranks == 1:
        return None
    return EngineRefusal(
        Stage.CONFIG,
        f"World size ({ranks}) is larger than the number of available GPUs (1) in this node. If this is "
        "intentional and you are using:\n- ray, set '--distributed-executor-backend ray'.\n"
        "- multiprocessing, set '--nnodes' appropriately.",
        detail="a process sees one MIG slice only, so a start has one rank; slices are not joined",
    )


def gpus_needed(flags: ServeFlags) -> int:
    """Return the GPUs that a start takes: one for each rank."""
    stages, engines = flags.pipeline_parallel_size or 1, flags.data_parallel_size or 1
    return (flags.tensor_parallel_size or 1) * stages * engines


def count_refusal(flags: ServeFlags, count: int | None) -> EngineRefusal | None:
    """Return the refusal of more ranks than the GPUs that the caller has; ``None`` for no count.

    Source: vLLM 0.33.0, ParallelConfig.__post_init__, which sees the GPUs of one node and says how to name
    more nodes. The count is of all of them, so the words here are not the engine's.
    """
    if count is None or (needed := gpus_needed(flags)) <= count:
        return None
    sizes = (
        ("tensor", flags.tensor_parallel_size or 1),
        ("pipeline", flags.pipeline_parallel_size),
        ("data", flags.data_parallel_size),
    )
    product = " x ".join(f"{name} parallel size {size}" for name, size in sizes if size > 1)
    there = "1 is given" if count == 1 else f"{count:,} are given"
    return EngineRefusal(Stage.CONFIG, f"The start needs {needed:,} GPUs ({product}), and {there}.")
