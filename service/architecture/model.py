"""What a config.json says of a model, parsed once."""

from dataclasses import dataclass, field
from typing import Final

from service.architecture.context_length import ContextLength
from service.architecture.drafts import DraftEmbedding, Joint
from service.architecture.layers.compressed_attention import CompressedAttention
from service.architecture.layers.decoder_layer import DecoderLayer, TokenMixer
from service.architecture.layers.hidden_streams import AlternatingUpdates, GatedResiduals, HyperConnections
from service.architecture.layers.mla import MultiHeadLatentAttention
from service.architecture.layers.model_ends import PLAIN_ENDS, ModelEnds, PerLayerEmbedding
from service.architecture.layers.recurrence import Recurrence
from service.architecture.layers.stage_frame import ENDS_ONLY, StageFrame
from service.architecture.mistral_format.files import ModelFiles
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
    """Whether the closed form of the weights was held against what the engine allocates."""
    encoder_tokens: int | None = None
    """Tokens of the longest input to the encoder that the decoder attends across to; ``None`` without one."""
    attending_layers: tuple[DecoderLayer, ...] = ()
    """The layers as releases take them that leave the class to transformers, where all attend."""
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
    """Their mixers, those that are one object once."""

    def __post_init__(self) -> None:
        # Layers that are alike become one object, and what every step of a plan asks is found once.
        known: dict[DecoderLayer, DecoderLayer] = {}
        objects = {id(layer): layer for layer in self.layers}
        distinct = {key: known.setdefault(layer, layer) for key, layer in objects.items()}
        object.__setattr__(self, "layers", tuple(distinct[id(layer)] for layer in self.layers))
        built = tuple(enumerate(self.built_layers))
        attending = ((index, layer.mixer) for index, layer in built if isinstance(layer.mixer, TokenMixer))
        keeping = tuple(
            (index, mixer)
            for index, layer in built
            for mixer in (layer.before, layer.mixer, layer.beside)
            if isinstance(mixer, Recurrence)
        )
        recurrences = {id(mixer): mixer for _, mixer in keeping}
        object.__setattr__(self, "attention_layers", tuple(attending))
        object.__setattr__(self, "recurrent_layers", keeping)
        object.__setattr__(self, "recurrences", tuple(recurrences.values()))

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

    @property
    def distinct_layers(self) -> tuple[DecoderLayer, ...]:
        """The built layers, those that are alike once."""
        return tuple({id(layer): layer for layer in self.built_layers}.values())

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
