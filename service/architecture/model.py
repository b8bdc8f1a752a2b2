"""The facts about a model that a config.json contains, parsed once."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from service.architecture.context_length import ContextLength
from service.architecture.drafts import DraftEmbedding, Joint, MarkovHead
from service.architecture.layers.compressed_attention import CompressedAttention
from service.architecture.layers.decoder_layer import DecoderLayer, TokenMixer
from service.architecture.layers.hidden_streams import AlternatingUpdates, GatedResiduals, HyperConnections
from service.architecture.layers.mla import MultiHeadLatentAttention
from service.architecture.layers.model_ends import PLAIN_ENDS, ModelEnds, PerLayerEmbedding
from service.architecture.layers.recurrence import Recurrence
from service.architecture.layers.stage_frame import ENDS_ONLY, StageFrame
from service.architecture.model_files import ModelFiles
from service.architecture.pooling import GENERATES, PoolingFields, PoolingHead
from service.architecture.quantization import Quantization
from service.architecture.rotary import RotaryTable
from service.architecture.traits import (
    NO_LIMITS,
    NO_MEDIA,
    NOTHING_DECLARED,
    PLAIN_STATES,
    ClassLimits,
    DeclaredFields,
    MediaInputs,
    StateFields,
)


@dataclass(frozen=True, slots=True)
class Draft:
    """A draft of tokens ahead. Its layers are built after the model's own, on the last pipeline stage."""

    class_name: str
    """The engine's class for it."""
    layers: tuple[DecoderLayer, ...]
    hidden_size: int
    vocab_size: int
    prefix: str = "layers"
    """Its layers in the names of modules, before their numbers."""
    first_number: int = 0
    predicts: int | None = None
    """Draft tokens of one pass; a larger number must be a multiple of it (``n_predict``)."""
    modules: int = 1
    """Modules with one draft token each (``num_nextn_predict_layers``)."""
    embedding: DraftEmbedding = DraftEmbedding.MODEL
    joints: tuple[Joint, ...] = ()
    norm_weights: int = 0
    """Normalization weights beside the layers' own, in elements."""
    float32_weights: int = 0
    """Weights that are kept in 32 bits, in elements."""
    markov: MarkovHead | None = None
    """What links each draft token of a block to the one before it (DSpark)."""
    heads: int = 0
    """Outputs of its own, one per module, which later releases replace by the model's."""
    output_rows: int = 0
    """Rows of an output that stays its own; 0 where it is the model's."""
    mapped_rows: int = 0
    """Entries of a table from its own tokens to the model's, 64 bits each."""
    widened: bool = False
    """The first layer's queries, keys and values see embeddings beside hidden states (EAGLE 3)."""
    unquantized: tuple[str, ...] = ()
    """Last names of its modules that are never quantized."""
    stored_as_model: bool = True
    """Whether its weights are quantized as the model's are."""
    quantization: Quantization | None = None
    """How they are quantized where they stand alone."""
    rotary_tables: tuple[RotaryTable, ...] = ()
    context: ContextLength | None = None
    whole: "ModelArchitecture | None" = None
    """The model that drafts, where it is a whole one with embedding and output of its own."""

    @property
    def number_of_heads(self) -> int:
        """Query heads of its first attention layer; 0 without one."""
        return next((getattr(layer.mixer, "num_heads", 0) for layer in self.layers), 0)


@dataclass(frozen=True, slots=True)
class DraftCheckpoint:
    """A separate draft model, as each method could use it."""

    id: str
    model_type: str
    whole: "ModelArchitecture | None" = None
    eagle: Draft | None = None
    eagle3: Draft | None = None
    unread: str = ""
    """Why some of these are missing."""


@dataclass(frozen=True, slots=True)
class DraftSources:
    """The drafts that a start could use."""

    own: Draft | None = None
    """Prediction layers in the model's own checkpoint (MTP)."""
    unread: str = ""
    """Why there are none, where that is known."""
    parallel: Draft | None = None
    """Layers in the model's own checkpoint that draft a block of tokens at once (DSpark)."""
    checkpoint: DraftCheckpoint | None = None
    """The draft that ``speculative_config.model`` names."""


NO_DRAFTS: Final = DraftSources()


@dataclass(frozen=True, slots=True)
class ModelArchitecture:
    """A model of text: what its memory and its start depend on."""

    class_name: str
    """The architecture class whose layers are built, by its name in ``architectures``."""
    model_type: str
    """``model_type`` of the whole config."""
    dtype: str
    """Type of weights and activations: ``bfloat16``, ``float16`` or ``float32``."""
    hidden_size: int
    vocab_size: int
    layers: tuple[DecoderLayer, ...]
    tie_word_embeddings: bool
    context: ContextLength
    quantization: Quantization | None = None
    unnamed_quantization: str | None = None
    """What a quantization that names no method says of the weights: the engine builds them unquantized."""
    multimodal: bool = False
    media: MediaInputs = NO_MEDIA
    class_limits: ClassLimits = NO_LIMITS
    declared: DeclaredFields = NOTHING_DECLARED
    states: StateFields = PLAIN_STATES
    per_layer_embedding: PerLayerEmbedding | None = None
    alternating_updates: AlternatingUpdates | None = None
    hyper_connections: HyperConnections | GatedResiduals | None = None
    frame: StageFrame = ENDS_ONLY
    ends: ModelEnds = PLAIN_ENDS
    rotary_tables: tuple[RotaryTable, ...] = ()
    weights_checked: bool = True
    """Whether the computed weights were compared with what the engine allocates."""
    encoder_tokens: int | None = None
    """The encoder's tokens of the longest input, for a decoder with cross attention; ``None`` for others."""
    attending_layers: tuple[DecoderLayer, ...] = ()
    """The layers for releases that run the class by transformers, where all layers attend."""
    attentions_per_layer: int = 1
    """Number of ``layers`` in one layer of the engine, which pipeline stages do not split."""
    files: ModelFiles | None = None
    """Files from which each release is read separately; ``None`` where all read the same config."""
    by_suffix: "ModelArchitecture | None" = None
    """The model as releases read it that lack its class, but have that of text and media."""
    drafts: DraftSources = NO_DRAFTS
    """Drafts that the model could use."""
    named_class: str = ""
    """The class that the config names, where the engine makes it of another; empty: ``class_name``."""
    pooling: PoolingHead | None = None
    """What replaces the output layer; ``None`` for a model that generates text."""
    pooling_fields: PoolingFields = GENERATES
    draft: Draft | None = None
    """The draft of the planned start."""
    attention_layers: tuple[tuple[int, TokenMixer], ...] = field(init=False, repr=False, compare=False)
    """Index and mixer of the layers that cache something per token, with shared caches and drafts."""
    recurrent_layers: tuple[tuple[int, Recurrence], ...] = field(init=False, repr=False, compare=False)
    """Index and mixer of the layers with one state per sequence."""
    recurrences: tuple[Recurrence, ...] = field(init=False, repr=False, compare=False)
    """Their mixers, equal ones once."""
    distinct_layers: tuple[DecoderLayer, ...] = field(init=False, repr=False, compare=False)
    """The built layers, equal ones once."""

    def __post_init__(self) -> None:
        # Equal layers become one object, and what every step of a plan needs is found once for each.
        distinct, places = _distinct(self.built_layers)
        mixers = [layer.mixer if isinstance(layer.mixer, TokenMixer) else None for layer in distinct]
        states = [_recurrences(layer) for layer in distinct]
        built = tuple(enumerate(places))
        attending = tuple((index, mixer) for index, place in built if (mixer := mixers[place]) is not None)
        keeping = tuple((index, mixer) for index, place in built for mixer in states[place])
        own = places[: len(self.layers)]
        object.__setattr__(self, "layers", tuple(distinct[place] for place in own))
        object.__setattr__(self, "distinct_layers", distinct)
        object.__setattr__(self, "attention_layers", attending)
        object.__setattr__(self, "recurrent_layers", keeping)
        object.__setattr__(self, "recurrences", tuple(dict.fromkeys(chain.from_iterable(states))))

    def __hash__(self) -> int:
        # Caches hash models often: these fields differ between most models, while all layers take too long.
        return hash((self.class_name, self.dtype, self.hidden_size, self.vocab_size, len(self.layers)))

    @property
    def num_layers(self) -> int:
        """Number of layers that the engine builds; a layer that runs several times counts once."""
        return sum(not layer.repeats for layer in self.layers) // self.attentions_per_layer

    @property
    def built_layers(self) -> tuple[DecoderLayer, ...]:
        """The model's layers, then those of the draft."""
        return self.layers if self.draft is None else self.layers + self.draft.layers

    def layer_number(self, index: int) -> int:
        """Return the number in the name of a built layer, which flags refer to."""
        own = len(self.layers)
        if self.draft is not None and index >= own:
            return index - own + self.draft.first_number
        return index // self.attentions_per_layer

    @property
    def lead_attention(self) -> TokenMixer | None:
        """The first attention layer, whose numbers of heads the engine takes as those of the model."""
        return self.attention_layers[0][1] if self.attention_layers else None

    @property
    def encodes(self) -> bool:
        """Whether the model is an encoder: every layer sees the whole prompt both ways and caches nothing."""
        return bool(self.layers) and all(getattr(layer.mixer, "encodes", False) for layer in self.layers)

    @property
    def is_mla(self) -> bool:
        """Whether attention is MLA."""
        return isinstance(self.lead_attention, MultiHeadLatentAttention | CompressedAttention)

    @property
    def is_recurrent(self) -> bool:
        """Whether some layers have a recurrent state, with or without attention in others."""
        return bool(self.recurrent_layers)

    @property
    def stores_16_bits(self) -> bool:
        """Whether the checkpoint holds unquantized weights, as far as its config says."""
        return self.quantization is None and self.unnamed_quantization is None

    @property
    def is_hybrid(self) -> bool:
        """Whether the engine knows that the model has both recurrent layers and attention."""
        return self.is_recurrent and self.lead_attention is not None and self.states.declared


def _distinct(layers: Iterable[DecoderLayer]) -> tuple[tuple[DecoderLayer, ...], tuple[int, ...]]:
    """Return the layers, equal ones once, and the place of each layer among them."""
    known: dict[DecoderLayer, int] = {}
    places: list[int] = []
    previous: DecoderLayer | None = None
    place = 0
    for layer in layers:
        # A layer is often the same object as the one before: its place is then known without a hash.
        if layer is not previous:
            previous, place = layer, known.setdefault(layer, len(known))
        places.append(place)
    return tuple(known), tuple(places)


def _recurrences(layer: DecoderLayer) -> tuple[Recurrence, ...]:
    mixers = (layer.before, layer.mixer, layer.beside)
    return tuple(
        mixer for mixer in mixers if isinstance(mixer, Recurrence) and not getattr(mixer, "encodes", False)
    )
