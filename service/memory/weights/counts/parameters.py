"""Bytes of parameters that a rank allocates before repacking, in closed form from the config."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import chain

from packaging.version import Version

from service.architecture.layers.attention import Attention
from service.architecture.layers.decoder_layer import DecoderLayer, Mixer
from service.architecture.layers.experts import MixtureOfExperts
from service.architecture.layers.hidden_streams import GatedResiduals
from service.architecture.layers.mla import MultiHeadLatentAttention
from service.architecture.long_lists import LONG_LISTS
from service.architecture.model import ModelArchitecture
from service.architecture.quantization import Quantization
from service.engines.releases import rules_for
from service.memory.parallelism import Parallelism
from service.memory.shards import Shards
from service.memory.weights.blocks.built import Built
from service.memory.weights.blocks.decoder_modules import layer_modules
from service.memory.weights.blocks.end_modules import end_modules
from service.memory.weights.blocks.feed_forward_modules import routed_experts
from service.memory.weights.blocks.tower_modules import built_towers, tower_modules
from service.memory.weights.modules import (
    Linear,
    Module,
    Modules,
    PlainModule,
)
from service.memory.weights.names.spellings import spelling_of
from service.memory.weights.schemes.module_bytes import ModuleBytes
from service.memory.weights.schemes.module_schemes import COMPRESSED_TENSORS
from service.memory.weights.schemes.quantized import FLOAT32, HALF
from service.memory.weights.weight_layout import StageLayout, WeightLayout, weight_layout_at
from service.units import round_up

GATED_ROWS = 16
"""vLLM 0.29.0 to 0.33.0, Qwen4Exp's GatedResidual: outputs of a matrix are padded to a multiple of these."""


def parameter_bytes(architecture: ModelArchitecture, deployment: Parallelism, release: Version) -> int:
    """Return the bytes of parameters of tensor parallel rank 0 on the fullest pipeline stage."""
    return max(parameter_bytes_per_stage(architecture, deployment, release))


def parameter_bytes_per_stage(
    architecture: ModelArchitecture, deployment: Parallelism, release: Version
) -> tuple[int, ...]:
    """Return the bytes of parameters of tensor parallel rank 0 on each pipeline stage.

    Raises:
        LookupError: the release is older than the dated layout.
    """
    return _bytes_per_stage(architecture, _shared(deployment, release), release)


def _shared(deployment: Parallelism, release: Version) -> Parallelism:
    """Return the same for a compute capability that stands for all on which the release builds alike.

    Results are cached by it.
    """
    kernels = weight_layout_at(release).representative(deployment.compute_capability)
    return replace(deployment, compute_capability=kernels)


@LONG_LISTS.emptied
@lru_cache(maxsize=256)
def _bytes_per_stage(
    architecture: ModelArchitecture, deployment: Parallelism, release: Version
) -> tuple[int, ...]:
    return tuple(map(sum, _sizes_per_stage(architecture, deployment, release)))


def parameter_tensors(
    architecture: ModelArchitecture, deployment: Parallelism, release: Version
) -> tuple[int, ...]:
    """Return the bytes of tensor parallel rank 0's modules on the fullest stage, in the engine's order."""
    stages = (tuple(sizes) for sizes in _sizes_per_stage(architecture, deployment, release))
    return tuple(size for size in max(stages, key=sum) if size)


@LONG_LISTS.emptied
@lru_cache(maxsize=64)
def layer_tensors(
    architecture: ModelArchitecture, deployment: Parallelism, release: Version
) -> tuple[tuple[tuple[str, int], ...], ...]:
    """Return the modules of each layer on tensor parallel rank 0: path below the layer, and bytes.

    Small weights, which have no name here, have an empty path.
    """
    sizes, built = _rules(architecture, deployment, release)
    found = []
    for index, layer in enumerate(architecture.layers):
        number = architecture.layer_number(index)
        modules = () if layer.repeats else _layer(architecture, layer, number, deployment.shards, built)
        prefix = f"layers.{number}."
        found.append(
            tuple(
                (getattr(module, "name", "").removeprefix(prefix), sizes.module(module)) for module in modules
            )
        )
    return tuple(found)


def layer_modules_of(
    architecture: ModelArchitecture, deployment: Parallelism, release: Version
) -> tuple[tuple[Module, ...], ...]:
    """Return the modules of each layer on tensor parallel rank 0."""
    return _layer_modules(architecture, _shared(deployment, release), release)


@LONG_LISTS.emptied
@lru_cache(maxsize=64)
def _layer_modules(
    architecture: ModelArchitecture, deployment: Parallelism, release: Version
) -> tuple[tuple[Module, ...], ...]:
    _, built = _rules(architecture, deployment, release)
    return tuple(
        ()
        if layer.repeats
        else tuple(_layer(architecture, layer, architecture.layer_number(index), deployment.shards, built))
        for index, layer in enumerate(architecture.layers)
    )


def counted_layers(
    architecture: ModelArchitecture, deployment: Parallelism, release: Version, layers: range
) -> Iterator[tuple[tuple[Module, ...], int]]:
    """Yield the modules of a stage's layers on tensor parallel rank 0, and in how many layers they are.

    Equal layers are built once, unless a layer's name may decide how it is stored.
    """
    sizes, built = _rules(architecture, deployment, release)
    first = range(len(architecture.layers)) if sizes.by_name else _first_equals(architecture)
    for index, count in Counter(first[layers.start : layers.stop]).items():
        layer, number = architecture.layers[index], architecture.layer_number(index)
        if not layer.repeats:
            yield tuple(_layer(architecture, layer, number, deployment.shards, built)), count


@LONG_LISTS.emptied
@lru_cache(maxsize=64)
def _first_equals(architecture: ModelArchitecture) -> tuple[int, ...]:
    """Return for each layer the index of the first that equals it."""
    found: dict[DecoderLayer, int] = {}
    return tuple(found.setdefault(layer, index) for index, layer in enumerate(architecture.layers))


def modules_beside_layers(
    architecture: ModelArchitecture, deployment: Parallelism, release: Version, layers: range
) -> Iterator[Module]:
    """Yield the modules of a stage on tensor parallel rank 0 that are in none of its layers."""
    layout = weight_layout_at(release)
    _, built = _rules(architecture, deployment, release)
    yield from _before_layers(architecture, layout.stages, deployment.shards, layers, built)
    yield from _after_layers(architecture, layout, deployment, layers)


def modules_of_ends(
    architecture: ModelArchitecture, deployment: Parallelism, release: Version
) -> tuple[Module, ...]:
    """Return the modules before and after all layers, but for towers, on tensor parallel rank 0."""
    layout = weight_layout_at(release)
    _, built = _rules(architecture, deployment, release)
    whole = range(len(architecture.layers))
    return tuple(_before_layers(architecture, layout.stages, deployment.shards, whole, built))


def tower_modules_of(
    architecture: ModelArchitecture, deployment: Parallelism, release: Version
) -> tuple[Module, ...]:
    """Return the modules of the towers that are built, on tensor parallel rank 0 of the first stage."""
    return tuple(_after_layers(architecture, weight_layout_at(release), deployment, range(1)))


def module_bytes_of(
    architecture: ModelArchitecture, deployment: Parallelism, release: Version
) -> ModuleBytes:
    """Return how a release stores a model's modules."""
    return _rules(architecture, deployment, release)[0]


def _sizes_per_stage(
    architecture: ModelArchitecture, deployment: Parallelism, release: Version
) -> Iterator[Iterator[int]]:
    layout = weight_layout_at(release)
    sizes, built = _rules(architecture, deployment, release)
    of_layers = _layer_sizes(architecture, deployment.shards, sizes, built)
    for layers in deployment.stages(architecture):
        yield chain(
            map(sizes.module, _before_layers(architecture, layout.stages, deployment.shards, layers, built)),
            chain.from_iterable(of_layers[layers.start : layers.stop]),
            map(sizes.module, _after_layers(architecture, layout, deployment, layers)),
        )


@LONG_LISTS.emptied
@lru_cache(maxsize=64)
def _rules(
    architecture: ModelArchitecture, deployment: Parallelism, release: Version
) -> tuple[ModuleBytes, Built]:
    layout = weight_layout_at(release)
    sizes = ModuleBytes(
        architecture.quantization,
        layout.quantized,
        maps_parts=architecture.class_name not in layout.decoder.unmapped_classes,
        spelling=spelling_of(
            architecture.class_name,
            release,
            by_transformers=architecture.class_name in layout.stages.transformers_classes,
        ),
        element_bytes=deployment.element_bytes(architecture),
        compute_capability=deployment.compute_capability,
        plain_output=architecture.class_name in layout.decoder.plain_outputs,
    )
    built = Built.of(
        layout.decoder,
        rules_for(release).specs,
        deployment.compute_capability,
        architecture.class_name,
        architecture.quantization,
    )
    return sizes, built


def _before_layers(
    architecture: ModelArchitecture, layout: StageLayout, shards: Shards, layers: range, built: Built
) -> Modules:
    first, last = layers.start == 0, layers.stop == len(architecture.layers)
    yield from end_modules(architecture, shards, layout, first=first, last=last)
    yield from _banks(architecture, shards, built)


def _after_layers(
    architecture: ModelArchitecture, layout: WeightLayout, deployment: Parallelism, layers: range
) -> Modules:
    if deployment.language_model_only or (layers.start > 0 and not layout.stages.towers_on_every_stage):
        return
    whole = deployment.whole_encoders or architecture.class_name in layout.towers.whole
    shards = Shards() if whole else deployment.shards
    quantization = architecture.quantization
    method = "" if quantization is None else quantization.method
    compressed = method == COMPRESSED_TENSORS
    for tower in built_towers(architecture, layout.towers, deployment.media):
        yield from tower_modules(
            tower,
            shards,
            sharded_positions=layout.stages.sharded_positions,
            quantizable=layout.towers.quantizes(architecture.class_name, compressed_tensors=compressed)
            and (tower.quantizable or method in tower.quantized_by),
        )


def _layer_sizes(
    architecture: ModelArchitecture, shards: Shards, sizes: ModuleBytes, built: Built
) -> tuple[tuple[int, ...], ...]:
    """Return the bytes of each layer's modules.

    Equal layers are computed once, unless a layer's name may decide how it is stored.
    """
    computed: dict[tuple[DecoderLayer, int], tuple[int, ...]] = {}
    layers: list[tuple[int, ...]] = []
    for index, layer in enumerate(architecture.layers):
        key = (layer, index if sizes.by_name else 0)
        if key not in computed:
            number = architecture.layer_number(index)
            modules = () if layer.repeats else _layer(architecture, layer, number, shards, built)
            computed[key] = tuple(map(sizes.module, modules))
        layers.append(computed[key])
    return tuple(layers)


def _layer(
    architecture: ModelArchitecture, layer: DecoderLayer, number: int, shards: Shards, built: Built
) -> Modules:
    yield from layer_modules(layer, architecture.hidden_size, f"layers.{number}", shards, built)
    yield from _per_layer(architecture, f"layers.{number}")
    yield from _side_paths(architecture, f"layers.{number}", shards)
    yield from _mixing(architecture)
    yield from cache_scales(layer.mixer, architecture.quantization)


def _banks(architecture: ModelArchitecture, shards: Shards, built: Built) -> Modules:
    """Yield experts that all layers share; every stage has them: vLLM 0.28.0, InternS2MobiusModel."""
    network = architecture.layers[0].feed_forward
    if isinstance(network, MixtureOfExperts):
        for index in range(network.weights.banks):
            yield from routed_experts(network, architecture.hidden_size, f"meta_mlp.{index}", shards, built)


def _per_layer(architecture: ModelArchitecture, name: str) -> Modules:
    extra = architecture.per_layer_embedding
    if extra is not None:
        hidden = architecture.hidden_size
        yield Linear(f"{name}.per_layer_input_gate", hidden, (extra.size,))
        yield Linear(f"{name}.per_layer_projection", extra.size, (hidden,))
        yield PlainModule(hidden)


def _mixing(architecture: ModelArchitecture) -> Modules:
    """Yield the weights that mix the copies of the hidden state in a layer.

    Source: vLLM 0.32.0, DeepseekV4DecoderLayer, HYV4HCPreLayer and Qwen4Exp's GatedResidual.
    """
    mixing = architecture.hyper_connections
    if isinstance(mixing, GatedResiduals):
        inputs = mixing.copies * architecture.hidden_size
        read = round_up(mixing.rank + mixing.copies, GATED_ROWS)
        yield PlainModule(2 * inputs * (1 + read + mixing.rank), HALF)
    elif mixing is not None:
        inputs = mixing.copies * architecture.hidden_size
        yield PlainModule(2 * (mixing.rows * inputs + mixing.rows + mixing.scales), FLOAT32)


def _side_paths(architecture: ModelArchitecture, name: str, shards: Shards) -> Modules:
    """Yield a layer's alternating updates (vLLM 0.22.1 to 0.33.0, Gemma3nAltUp and Gemma3nLaurelBlock)."""
    updates = architecture.alternating_updates
    if updates is not None:
        hidden, inputs = architecture.hidden_size, updates.num_inputs
        rank = shards.share(updates.laurel_rank)
        yield Linear(f"{name}.altup.correction_coefs", inputs, (inputs,), router=True)
        yield Linear(f"{name}.altup.prediction_coefs", inputs, (inputs * inputs,), router=True)
        yield Linear(f"{name}.altup.modality_router", hidden, (inputs,), router=True)
        yield Linear(f"{name}.laurel.linear_left", hidden, (rank,), router=True)
        yield Linear(f"{name}.laurel.linear_right", rank, (hidden,), router=True)
        yield PlainModule(2 * hidden)
        yield PlainModule(hidden, FLOAT32)


def cache_scales(mixer: Mixer, quantization: Quantization | None) -> Modules:
    """Yield the scales of the KV cache that layers of a quantized checkpoint allocate.

    Source: vLLM 0.24.0, BaseKVCacheMethod and CompressedTensorsKVCacheMethod. Of these methods only
    ModelOpt's covers MLA.
    """
    method = "" if quantization is None else quantization.method
    by_modelopt = quantization is not None and quantization.by_modelopt
    mla = isinstance(mixer, MultiHeadLatentAttention)
    if isinstance(mixer, Attention | MultiHeadLatentAttention) and (
        by_modelopt or (method in ("fp8", "quark") and not mla)
    ):
        yield PlainModule(2, FLOAT32)
    if isinstance(mixer, Attention) and method == "compressed-tensors":
        yield PlainModule(3, FLOAT32)
        yield PlainModule(3)
