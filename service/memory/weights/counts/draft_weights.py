"""Weights of a draft; the last pipeline stage has them besides the model's."""

from dataclasses import replace
from typing import Final

from packaging.version import Version

from service.architecture.drafts import DraftEmbedding, Joint, MarkovHead
from service.architecture.layers.compressed_attention import CompressedAttention
from service.architecture.model import Draft, ModelArchitecture
from service.engines.releases import rules_for
from service.memory.budget_types import Basis, Estimate
from service.memory.interval import around, exact
from service.memory.parallelism import Parallelism
from service.memory.shards import VOCABULARY_PADDING, Shards
from service.memory.weights.blocks.built import Built
from service.memory.weights.blocks.decoder_modules import layer_modules
from service.memory.weights.counts.parameters import cache_scales, parameter_bytes_per_stage
from service.memory.weights.modules import (
    Linear,
    Modules,
    OutputEmbedding,
    PlainModule,
)
from service.memory.weights.names.spellings import USUAL
from service.memory.weights.schemes.module_bytes import ModuleBytes
from service.memory.weights.weight_layout import DraftLayout, weight_layout_at
from service.units import round_up

TABLE_ENTRY_BYTES: Final = 8
FLOAT32: Final = 4
MODELOPT_FP4: Final = "modelopt_fp4"
UNSET: Final = "closed form from the draft's config, which does not say if it shares embedding and output"


def draft_parameters(architecture: ModelArchitecture, deployment: Parallelism, release: Version) -> Estimate:
    """Return the bytes of the draft's parameters on tensor parallel rank 0 of the last stage.

    Raises:
        LookupError: the release is older than the dated layout.
    """
    draft = architecture.draft
    if draft is None:
        return exact(0, Basis.COMPUTED, "no draft")
    source = "closed form from the draft's config"
    if draft.whole is not None:
        alone = replace(deployment, dtype=deployment.dtype or architecture.dtype)
        size = parameter_bytes_per_stage(draft.whole, alone, release)[-1]
        return exact(size, Basis.COMPUTED, source)
    sizes = ModuleBytes(
        architecture.quantization if draft.stored_as_model else draft.quantization,
        weight_layout_at(release).quantized,
        maps_parts=True,
        spelling=USUAL,
        element_bytes=deployment.element_bytes(architecture),
        compute_capability=deployment.compute_capability,
    )
    size = sum(map(sizes.module, _modules(draft, deployment, release, sizes)))
    output = sum(map(sizes.module, _output(draft, deployment.shards)))
    kept = 0 if _may_share_output(draft, architecture, release) else output
    own = sizes.module(PlainModule(deployment.shards.vocabulary(draft.vocab_size) * draft.hidden_size))
    as_stored = draft.embedding is DraftEmbedding.AS_STORED
    loaded = as_stored and (architecture.frame.embedding or architecture.tie_word_embeddings)
    if deployment.pipeline_parallel_size > 1 and not loaded:
        return around(size + own + kept, size + own + kept, size + own + output, Basis.COMPUTED, source)
    if as_stored:
        return around(size + kept, size + kept, size + own + output, Basis.ASSUMED, UNSET)
    return exact(size + kept, Basis.COMPUTED, source)


def _may_share_output(draft: Draft, architecture: ModelArchitecture, release: Version) -> bool:
    """Whether a draft's output can equal the model's, which the draft then uses: it has as many rows."""
    same_shape = (draft.output_rows, draft.hidden_size) == (architecture.vocab_size, architecture.hidden_size)
    return same_shape and weight_layout_at(release).drafts.shared_equal_outputs


def _modules(draft: Draft, deployment: Parallelism, release: Version, sizes: ModuleBytes) -> Modules:
    shards, hidden = deployment.shards, draft.hidden_size
    whole = weight_layout_at(release)
    layout = whole.drafts
    built = Built.of(whole.decoder, rules_for(release).specs, deployment.compute_capability)
    for offset, layer in enumerate(draft.layers):
        name = f"{draft.prefix}.{draft.first_number + offset}"
        modules = layer_modules(layer, hidden, name, shards, built)
        yield from _adapted(modules, draft, widens=draft.widened and not offset)
        yield from cache_scales(layer.mixer, sizes.quantization)
    for joint in draft.joints:
        yield _joined(joint, hidden, deployment, sizes)
    yield PlainModule(draft.norm_weights)
    yield PlainModule(draft.float32_weights, FLOAT32)
    if draft.markov is not None:
        yield from _markov(draft.markov, hidden, shards, layout)
        if layout.stacked_context_keys and draft.markov.stacks_keys:
            yield Linear("context_keys", hidden, _key_widths(draft))
    yield PlainModule(draft.mapped_rows, TABLE_ENTRY_BYTES)
    heads = 0 if layout.shared_predictor_heads else draft.heads
    yield PlainModule(heads * shards.vocabulary(draft.vocab_size) * hidden)


def _output(draft: Draft, shards: Shards) -> Modules:
    if draft.output_rows:
        yield OutputEmbedding(shards.vocabulary(draft.output_rows), draft.hidden_size)


def _key_widths(draft: Draft) -> tuple[int, ...]:
    mixers = (layer.mixer for layer in draft.layers)
    return tuple(mixer.head_size for mixer in mixers if isinstance(mixer, CompressedAttention))


def _markov(head: MarkovHead, hidden: int, shards: Shards, layout: DraftLayout) -> Modules:
    """Yield the tables of a Markov head: vLLM 0.25.1 to 0.32.0, qwen3_dspark.py DSparkMarkovHead."""
    if layout.split_markov_tables:
        rows = shards.vocabulary(head.rows) + shards.vocabulary(head.outputs)
    else:
        rows = head.rows + round_up(head.outputs, VOCABULARY_PADDING)
    yield PlainModule(rows * head.rank)
    if head.tells_confidence and layout.confidence_heads:
        yield PlainModule(hidden + head.rank, FLOAT32)


def _joined(joint: Joint, hidden: int, deployment: Parallelism, sizes: ModuleBytes) -> Linear:
    # Checkpoints of this method store a split joint unquantized, though they do not list it as ignored.
    by_method = sizes.quantization is not None and sizes.quantization.method == MODELOPT_FP4
    outputs = deployment.shards.share(hidden) if joint.split else hidden
    quantizable = joint.quantizable and not (joint.split and by_method)
    return Linear(joint.name, joint.inputs, (outputs,), quantizable=quantizable)


def _adapted(modules: Modules, draft: Draft, *, widens: bool) -> Modules:
    """Yield a layer's modules with the input widths and the unquantized names of the draft."""
    for module in modules:
        if not isinstance(module, Linear):
            yield module
            continue
        last = module.name.rpartition(".")[2]
        yield replace(
            module,
            inputs=module.inputs * (2 if widens and last == "qkv_proj" else 1),
            quantizable=module.quantizable and last not in draft.unquantized,
        )
