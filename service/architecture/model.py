"""What a config.json says of a model, parsed once."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from service.architecture.context_length import ContextLength
from service.architecture.drafts import DraftEmbedding, Joint, MarkovHead
from service.architecture.layers import (
    CompressedAttention,
    DecoderLayer,
    GatedResiduals,
    HyperConnections,
    MultiHeadLatentAttention,
    TokenMixer,
)
from service.architecture.mistral_format.files import ModelFiles
from service.architecture.quantization import Quantization
from service.architecture.recurrence import Recurrence
from service.architecture.rotary import RotaryTable
from service.architecture.stages import (
    ENDS_ONLY,
    PLAIN_ENDS,
    ModelEnds,
    StageFrame,
)
from service.architecture.towers import Tower

DEFAULT_STATE_CHUNK: Final = 2048
"""vLLM 0.11.1 to 0.31.0, ModelConfig.get_mamba_chunk_size, where a config names none."""


@dataclass(frozen=True, slots=True)
class PerLayerEmbedding:
    """A second embedding that feeds every layer a vector of its own (Gemma 3n and 4)."""

    vocab_size: int
    size: int
    """Elements per token and layer."""


@dataclass(frozen=True, slots=True)
class AlternatingUpdates:
    """Parallel copies of the hidden state with a low-rank side path (Gemma 3n)."""

    num_inputs: int
    laurel_rank: int


@dataclass(frozen=True, slots=True)
class Draft:
    """What guesses tokens. Its layers are built after the model's own, on the last pipeline stage."""

    class_name: str
    """The engine's class for it."""
    layers: tuple[DecoderLayer, ...]
    hidden_size: int
    vocab_size: int
    prefix: str = "layers"
    """Its layers in the names of modules, before their numbers."""
    first_number: int = 0
    predicts: int | None = None
    """Tokens that it guesses in one pass; more must be a multiple (``n_predict``)."""
    modules: int = 1
    """Modules that guess one token each (``num_nextn_predict_layers``)."""
    embedding: DraftEmbedding = DraftEmbedding.MODEL
    joints: tuple[Joint, ...] = ()
    norm_weights: int = 0
    """Normalization weights beside the layers' own, in elements."""
    float32_weights: int = 0
    """Weights that are kept in 32 bits, in elements."""
    markov: MarkovHead | None = None
    """What ties each guess of a block to the one before it (DSpark)."""
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
    """What the config of a draft of its own says, for each method that could use it."""

    id: str
    model_type: str
    whole: "ModelArchitecture | None" = None
    eagle: Draft | None = None
    eagle3: Draft | None = None
    unread: str = ""
    """Why some of these could not be read."""


@dataclass(frozen=True, slots=True)
class DraftSources:
    """The drafts that a start could use."""

    own: Draft | None = None
    """Prediction layers in the model's own checkpoint (MTP)."""
    unread: str = ""
    """Why there are none, where that is known."""
    parallel: Draft | None = None
    """Layers in the model's own checkpoint that guess a block of tokens at once (DSpark)."""
    checkpoint: DraftCheckpoint | None = None
    """The draft that ``speculative_config.model`` names."""


NO_DRAFTS: Final = DraftSources()


@dataclass(frozen=True, slots=True)
class ModelArchitecture:
    """A text-generating model, as far as memory is concerned."""

    class_name: str
    """The architecture's class, as ``architectures`` names it."""
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
    """``quant_algo`` of a quantization that names no method: the engine builds such a model unquantized."""
    multimodal: bool = False
    bidirectional_media: bool = False
    """Image tokens attend to each other both ways, which only some attention backends can."""
    largest_media_item: int | None = None
    """Tokens of the largest image or video that the engine's own processor makes."""
    media_heads: int | None = None
    """Attention heads of the vision tower, which where the engine splits them over tensor-parallel ranks."""
    media_width: int | None = None
    """Width of that tower's networks, which are split with them."""
    supports_pipeline: bool = True
    """Whether the engine can split the model into pipeline stages."""
    supports_tensor: bool = True
    """Whether it can split its layers over ranks."""
    state_dtype: str | None = None
    """Type that the config asks for recurrent states, if it does."""
    state_chunk: int = DEFAULT_STATE_CHUNK
    """Tokens that the recurrent layers' kernels take at a time."""
    text_class_declared: bool = True
    """Whether the part that generates text names its own class."""
    experts_declared: bool = False
    """Whether the config names a number of experts, by which the engine tells models that have some."""
    attention_layers_specified: bool = True
    """Whether the engine finds by the config (``layer_types``, say) which layers of a hybrid attend."""
    head_size_declared: int | None = None
    """``head_dim`` as the config says it."""
    towers: tuple[Tower, ...] = ()
    """Encoders of other media, as far as they are known."""
    per_layer_embedding: PerLayerEmbedding | None = None
    alternating_updates: AlternatingUpdates | None = None
    hyper_connections: HyperConnections | GatedResiduals | None = None
    frame: StageFrame = ENDS_ONLY
    ends: ModelEnds = PLAIN_ENDS
    rotary_tables: tuple[RotaryTable, ...] = ()
    tying_declared: bool = True
    """Whether the config itself says if the output is tied to the embedding."""
    media_known: bool = True
    """Whether ``towers`` are all the towers there are."""
    weights_checked: bool = True
    """Whether the closed form of the weights was held against what the engine allocates."""
    encoder_tokens: int | None = None
    """Tokens of the longest input to the encoder that the decoder attends across to; ``None`` without one."""
    counted_layers: int | None = None
    """Layers that the config counts, which need not be as many as keep a cache (looped models, Whisper)."""
    counted_state: Recurrence | None = None
    """A state that blocks are aligned with, whether or not a layer keeps it."""
    attending_layers: tuple[DecoderLayer, ...] = ()
    """The layers as releases take them that leave the class to transformers, where all attend."""
    only_backend: str | None = None
    """The attention backend without which the class is not built, with the cache in the model's type."""
    attentions_per_layer: int = 1
    """How many of ``layers`` make one layer of the engine, which pipeline stages do not part."""
    files: ModelFiles | None = None
    """What the model is read by anew for each release; ``None`` where all read the one config alike."""
    drafts: DraftSources = NO_DRAFTS
    """What could guess tokens ahead."""
    draft: Draft | None = None
    """What does, in the start that is planned."""
    attention_layers: tuple[tuple[int, TokenMixer], ...] = field(init=False, repr=False, compare=False)
    """Index and mixer of the layers that keep something per token, shared caches and drafts included."""
    recurrent_layers: tuple[tuple[int, Recurrence], ...] = field(init=False, repr=False, compare=False)
    """Index and mixer of the layers that keep one state per sequence."""
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
        # Caches look models up by what tells most of them apart; all layers would take longer than a plan.
        return hash((self.class_name, self.dtype, self.hidden_size, self.vocab_size, len(self.layers)))

    @property
    def num_layers(self) -> int:
        """The layers that the engine builds, each once however often it runs."""
        return sum(not layer.repeats for layer in self.layers) // self.attentions_per_layer

    @property
    def built_layers(self) -> tuple[DecoderLayer, ...]:
        """The model's layers, then those of the draft."""
        return self.layers if self.draft is None else self.layers + self.draft.layers

    def layer_number(self, index: int) -> int:
        """Return the number that a built layer has in its name, by which flags mean it."""
        own = len(self.layers)
        if self.draft is not None and index >= own:
            return index - own + self.draft.first_number
        return index // self.attentions_per_layer

    @property
    def lead_attention(self) -> TokenMixer | None:
        """The first attention layer, whose head counts stand for the model in the engine's own sizing."""
        return self.attention_layers[0][1] if self.attention_layers else None

    @property
    def is_mla(self) -> bool:
        """Whether attention is MLA."""
        return isinstance(self.lead_attention, MultiHeadLatentAttention | CompressedAttention)

    @property
    def is_recurrent(self) -> bool:
        """Whether some layers keep a state, with or without attention in others."""
        return bool(self.recurrent_layers)

    @property
    def is_hybrid(self) -> bool:
        """Whether recurrent layers stand beside attention."""
        return self.is_recurrent and self.lead_attention is not None


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
    return tuple(mixer for mixer in mixers if isinstance(mixer, Recurrence))
