"""Which draft a start would use, or why the engine refuses it."""

from dataclasses import dataclass, replace
from typing import Final

from packaging.version import Version

from service.architecture.model import Draft, DraftCheckpoint, ModelArchitecture
from service.architecture.pipeline import model_stages, stage_layers
from service.engines.flags import ServeFlags
from service.engines.model_classes import check_model_class
from service.engines.refusal import EngineRefusal, Stage
from service.engines.rules.speculation import SpeculationRules
from service.engines.speculative_config import (
    DFLASH,
    DRAFT_MODEL,
    DSPARK,
    EAGLE,
    EAGLE3,
    LOOKUPS,
    MEDUSA,
    MLP_SPECULATOR,
    MTP,
    NGRAM,
    SUFFIX,
    SpeculativeConfig,
)

SUFFIX_DEPTH: Final = 24
"""Most draft tokens of suffix decoding where none is specified (vLLM 0.11.1 to 0.33.0)."""
DEFAULT_TOKENS: Final = (
    "num_speculative_tokens must be provided with speculative model unless the draft model config contains "
    "an n_predict parameter."
)
"""vLLM 0.10.2 to 0.33.0, SpeculativeConfig._verify_args."""
HIDDEN_STATES, CUSTOM = "extract_hidden_states", "custom_class"
"""Methods that are not modelled; the first does without a model of its own (vLLM 0.17.0)."""
NO_PROPOSER: Final = (
    "method='custom_class' requires 'model' to contain the custom proposer module path "
    "(e.g., 'my_module.MyProposer')."
)
"""vLLM 0.22.0 to 0.33.0, SpeculativeConfig.__post_init__."""
NO_PIPELINE: Final = (
    "Pipeline parallelism is not supported for this model. "
    "Supported models implement the `SupportsPP` interface."
)


class UnmodelledSpeculation(ValueError):
    """Speculative decoding that the engine may accept, but whose memory is not modelled."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"this speculative_config is not modelled: {reason}")


@dataclass(frozen=True, slots=True)
class Speculation:
    """Speculative decoding of a start."""

    method: str
    """As the engine understands it: every spelling of prediction layers is ``mtp``."""
    tokens: int
    """Draft tokens of one request in one step."""
    draft: Draft | None = None
    slots: int = 0
    """Tokens of a step that every request needs beside its own."""
    padded: bool = True
    """Whether requests are padded to equal lengths while drafting, as is the default."""
    v2_model_runner: bool = True
    """Whether the settings other than the method allow the V2 model runner."""

    @property
    def lookahead(self) -> int:
        """Tokens past those scheduled that the draft writes to the cache.

        Source: vLLM 0.12.0 to 0.27.0, Scheduler.__init__; 0.28.0 to 0.33.0, VllmConfig.num_lookahead_tokens.
        """
        if self.method in {*LOOKUPS, MEDUSA, MLP_SPECULATOR}:
            return 0
        return self.tokens + (1 if self.method == DFLASH else 0)

    @property
    def retained_tokens(self) -> int:
        """Tokens that several prediction modules read again: vLLM 0.28.0, ``use_multi_module_mtp``."""
        modules = 1 if self.method != MTP or self.draft is None else self.draft.modules
        return self.tokens - 1 if min(modules, self.tokens) > 1 else 0


def resolve_speculation(
    architecture: ModelArchitecture, flags: ServeFlags, rules: SpeculationRules, release: Version
) -> Speculation | None:
    """Return the speculative decoding of a start, or ``None`` without any.

    Source: vLLM 0.10.2 to 0.33.0, SpeculativeConfig.__post_init__ and _verify_args.

    Raises:
        EngineRefusal: stages ``config`` and ``model``.
        UnmodelledSpeculation: its memory is not modelled.
    """
    config = flags.speculative_config
    if config is None:
        return None
    method = _named_method(config, rules, release)
    if method in LOOKUPS:
        return _lookup(method, config)
    method, draft = _draft(method, config, architecture, rules)
    tokens = _tokens(config, draft, rules)
    _check_block(draft, tokens, rules)
    ranks = _draft_ranks(config, flags.tensor_parallel_size or 1)
    if draft.whole is not None:
        check_model_class(draft.whole.class_name, release)
    _check_heads(draft, ranks)
    _check_pipeline(method, draft, flags, architecture, rules)
    _check_target(method, draft, config, architecture, rules)
    if method == DRAFT_MODEL and ranks != (flags.tensor_parallel_size or 1):
        _refuse_other_ranks(ranks, flags.tensor_parallel_size or 1, rules)
    draft = _last_stage(draft, flags.pipeline_parallel_size)
    _check_quantization(config, draft)
    at_once = bool(config.parallel_drafting) or method == DSPARK
    slots = (tokens - 1 if at_once else 0) + (1 if method == DRAFT_MODEL else 0)
    return Speculation(
        method,
        tokens,
        draft,
        slots,
        padded=not config.disable_padded_drafter_batch,
        v2_model_runner=not config.parallel_drafting and not config.use_heterogeneous_vocab,
    )


def _invalid(words: str) -> EngineRefusal:
    return EngineRefusal(Stage.CONFIG, f"SpeculativeConfig: {words}", type="ValidationError")


def _named_method(config: SpeculativeConfig, rules: SpeculationRules, release: Version) -> str:
    """Return the method as named, all spellings of prediction layers as one; empty where none is."""
    method = config.method
    if method is None:
        return NGRAM if config.model in {"ngram", "[ngram]"} else ""
    if method not in rules.methods:
        *others, last = (f"'{name}'" for name in rules.methods)
        raise EngineRefusal(
            Stage.CONFIG,
            "1 validation error for SpeculativeConfig\nmethod\n  Input should be "
            f"{', '.join(others)} or {last} [type=literal_error, input_value='{method}', input_type=str]",
            type="ValidationError",
            detail=f"vLLM {release} has no speculative method {method!r}.",
        )
    return MTP if method.endswith("_mtp") else method


def _lookup(method: str, config: SpeculativeConfig) -> Speculation:
    tokens = config.num_speculative_tokens
    if method == SUFFIX:
        return Speculation(method, tokens or config.suffix_decoding_max_tree_depth or SUFFIX_DEPTH)
    low, high = config.prompt_lookup_min, config.prompt_lookup_max
    if low is not None and high is not None and low > high:
        raise _invalid(f"prompt_lookup_min={low} must be <= prompt_lookup_max={high}")
    if tokens is None:
        raise _invalid(DEFAULT_TOKENS)
    return Speculation(method, tokens)


def _draft(
    method: str, config: SpeculativeConfig, architecture: ModelArchitecture, rules: SpeculationRules
) -> tuple[str, Draft]:
    if config.model is None:
        if config.num_speculative_tokens is None:
            raise _invalid(DEFAULT_TOKENS)
        if method == DSPARK:
            return DSPARK, _own_block_draft(architecture)
        return MTP, _own_draft(method, architecture, rules)
    checkpoint = architecture.drafts.checkpoint
    if checkpoint is None:
        raise UnmodelledSpeculation(f"the config of the draft {config.model!r} is not at hand")
    method = _method_of(method, checkpoint, rules)
    draft = checkpoint.eagle if method == EAGLE else checkpoint.eagle3
    if method == DRAFT_MODEL:
        draft = _whole(checkpoint)
    elif draft is not None:
        draft = replace(draft, first_number=len(architecture.layers))
    if draft is None:
        raise UnmodelledSpeculation(checkpoint.unread or f"a draft of class {checkpoint.model_type}")
    return method, draft


def _own_block_draft(architecture: ModelArchitecture) -> Draft:
    """Return the model's own layers that draft a block of tokens at once.

    Source: vLLM 0.25.0 to 0.33.0, SpeculativeConfig.__post_init__: without a model, the target's own.
    """
    draft = architecture.drafts.parallel
    if draft is None:
        raise UnmodelledSpeculation(
            "method dspark without a model of its own needs DSpark layers in the checkpoint, and this config "
            "does not describe them (dspark_target_layer_ids, dspark_markov_rank)"
        )
    return draft


def _own_draft(method: str, architecture: ModelArchitecture, rules: SpeculationRules) -> Draft:
    """Return the model's own prediction layers."""
    if method == HIDDEN_STATES:
        raise UnmodelledSpeculation(f"method {method}")
    if method == CUSTOM:
        raise _invalid(NO_PROPOSER)
    if architecture.model_type in rules.refused_own_drafts:
        raise _invalid(rules.refused_own_drafts[architecture.model_type])
    names = (architecture.model_type, architecture.class_name)
    class_name = next((rules.own_drafts[name] for name in names if name in rules.own_drafts), None)
    if method != MTP and not (rules.drafts_by_model and class_name is not None and not method):
        raise _invalid("num_speculative_tokens was provided but without speculative model.")
    own = architecture.drafts.own
    # A Nemotron-H without prediction layers is no draft to the engine.
    if class_name is None or (own is None and class_name == "NemotronHMTPModel"):
        raise _unusable(method, rules)
    if own is None:
        raise UnmodelledSpeculation(architecture.drafts.unread or f"the layers of {class_name}")
    return replace(own, class_name=class_name)


def _unusable(method: str, rules: SpeculationRules) -> EngineRefusal:
    return EngineRefusal(
        Stage.CONFIG,
        rules.draft_model_refusal.format(method=method or "None"),
        type="NotImplementedError",
    )


def _method_of(method: str, checkpoint: DraftCheckpoint, rules: SpeculationRules) -> str:
    """Return the method for a draft of its own: as named, or by its name and config.

    Source: vLLM 0.32.0, SpeculativeConfig.__post_init__.
    """
    name = checkpoint.id.lower()
    if method in {EAGLE, EAGLE3}:
        return method
    if "eagle-" in name or "eagle3" in name:
        return EAGLE if "eagle-" in name else EAGLE3
    newer = next((known for known in ("dflash", DSPARK) if known == method or known in name), None)
    if newer is not None and newer in rules.methods:
        raise UnmodelledSpeculation(f"drafts of method {newer}")
    if method in {MEDUSA, MLP_SPECULATOR} or checkpoint.model_type in {MEDUSA, MLP_SPECULATOR}:
        raise UnmodelledSpeculation("the weights of Medusa heads and MLP speculators")
    if checkpoint.model_type in rules.own_drafts or checkpoint.model_type.endswith(("_mtp", "_assistant")):
        raise UnmodelledSpeculation("prediction layers in a checkpoint of their own")
    if method in {"", DRAFT_MODEL} and (method or rules.default_method) and rules.whole_drafts:
        return DRAFT_MODEL
    if method in {CUSTOM, HIDDEN_STATES}:
        raise UnmodelledSpeculation(f"method {method}")
    raise _unusable(method, rules)


def _whole(checkpoint: DraftCheckpoint) -> Draft | None:
    """Return a whole model as a draft."""
    model = checkpoint.whole
    if model is None:
        return None
    if model.is_recurrent or model.multimodal:
        raise UnmodelledSpeculation("a draft with recurrent layers, or one that reads other media")
    return Draft(
        class_name=model.class_name,
        layers=model.layers,
        hidden_size=model.hidden_size,
        vocab_size=model.vocab_size,
        stored_as_model=False,
        quantization=model.quantization,
        rotary_tables=model.rotary_tables,
        context=model.context,
        whole=model,
    )


def _check_quantization(config: SpeculativeConfig, draft: Draft) -> None:
    """Tell of weights that are quantized while they load, or by a method of their own."""
    stored = None if draft.quantization is None else draft.quantization.method
    if config.quantization is not None and (draft.stored_as_model or config.quantization != stored):
        raise UnmodelledSpeculation(f"a draft that is quantized by {config.quantization} on its own")


def _last_stage(draft: Draft, stages: int) -> Draft:
    """Return what the last stage builds: of a whole model, the part that would be its own stage's."""
    if draft.whole is None:
        return draft
    numbers = stage_layers(len(draft.layers), stages)[-1]
    return replace(draft, layers=draft.layers[numbers.start :], first_number=numbers.start)


def _tokens(config: SpeculativeConfig, draft: Draft, rules: SpeculationRules) -> int:
    tokens, predicts = config.num_speculative_tokens, draft.predicts
    if tokens is None:
        raise _invalid(DEFAULT_TOKENS)
    if draft.markov is not None and not rules.draft_blocks_in_rounds:
        return tokens
    if predicts is not None and tokens > predicts and tokens % predicts:
        raise _invalid(f"num_speculative_tokens:{tokens} must be divisible by n_predict={predicts}")
    return tokens


def _check_block(draft: Draft, tokens: int, rules: SpeculationRules) -> None:
    block = None if draft.markov is None else draft.markov.block
    if rules.draft_blocks_whole and block is not None and tokens < block:
        raise _invalid(
            f"DSpark requires num_speculative_tokens >= dspark_block_size ({block}); got {tokens}. Smaller "
            f"values produce incorrect output. Use num_speculative_tokens={block} or larger (e.g. 7)."
        )


def _draft_ranks(config: SpeculativeConfig, ranks: int) -> int:
    """Return the tensor-parallel ranks of the draft: one, or those of the model."""
    requested = config.draft_tensor_parallel_size or ranks
    if requested not in {1, ranks}:
        raise _invalid(
            f"speculative_draft_tensor_parallel_size={requested} cannot be other value than 1 or target "
            "model tensor_parallel_size"
        )
    return requested


def _check_heads(draft: Draft, ranks: int) -> None:
    if draft.number_of_heads % ranks:
        raise _invalid(
            f"Total number of attention heads ({draft.number_of_heads}) must be divisible by tensor parallel "
            f"size ({ranks})."
        )


def _refuse_other_ranks(requested: int, ranks: int, rules: SpeculationRules) -> None:
    """Refuse a whole model on other ranks: vLLM 0.15.0 to 0.32.0, v1/spec_decode/draft_model.py."""
    if DRAFT_MODEL in rules.v2_model_runner_methods:
        raise UnmodelledSpeculation("a draft that is split over other ranks than the model")
    raise EngineRefusal(
        Stage.MODEL,
        "Currently, 'draft_tensor_parallel_size' and 'tensor_parallel_size' must be the same. "
        f"Got {requested} and {ranks}. Please pass 'draft_tensor_parallel_size' in the speculative_config.",
    )


def _check_pipeline(
    method: str, draft: Draft, flags: ServeFlags, architecture: ModelArchitecture, rules: SpeculationRules
) -> None:
    stages = flags.pipeline_parallel_size
    if stages == 1:
        return
    if rules.drafts_are_pipelined:
        whole = draft.whole
        splits = whole.class_limits.pipeline_parallel if whole else draft.class_name in rules.pipelined_drafts
        if not splits:
            raise EngineRefusal(Stage.CONFIG, NO_PIPELINE, type="NotImplementedError")
    elif method == EAGLE:
        # The head numbers its layers on from those of its own stage alone.
        last = model_stages(architecture, stages)[-1]
        if len(last) not in last:
            raise UnmodelledSpeculation("an EAGLE head whose layers are called as another stage's")
        name = f"model.layers.{len(last)}.self_attn.attn"
        raise EngineRefusal(Stage.MODEL, f"Duplicate layer name: {name}")


def _check_target(
    method: str,
    draft: Draft,
    config: SpeculativeConfig,
    architecture: ModelArchitecture,
    rules: SpeculationRules,
) -> None:
    supported = rules.eagle3_targets
    if method == EAGLE3 and supported and not any(part in architecture.model_type for part in supported):
        raise _invalid(
            f"eagle3 is only supported for {list(supported)} models. Got "
            f"self.target_model_config.hf_text_config.model_type='{architecture.model_type}'"
        )
    mapped = bool(config.use_heterogeneous_vocab)
    differs = draft.vocab_size != architecture.vocab_size
    if method == DRAFT_MODEL and rules.equal_vocabularies and differs and not mapped:
        raise _invalid(
            "Target and draft model should have the same vocabulary size. "
            f"Target model vocab_size={architecture.vocab_size}. Draft model vocab_size={draft.vocab_size}. "
            "Using models with different tokenizers can cause out-of-bounds errors during speculative "
            "decoding."
        )
