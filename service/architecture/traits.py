"""Groups of facts about a model that only some parts of a plan need."""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from service.architecture.encoders.tower import Tower
from service.architecture.layers.recurrence import Recurrence

DEFAULT_STATE_CHUNK: Final = 2048
"""vLLM 0.11.1 to 0.31.0, ModelConfig.get_mamba_chunk_size, where a config names none."""


@dataclass(frozen=True, slots=True)
class MediaInputs:
    """Images, videos and sound beside the text."""

    towers: tuple[Tower, ...] = ()
    """Encoders whose weights are known."""
    towers_known: bool = True
    """Whether ``towers`` are all the encoders that the class builds."""
    bidirectional: bool = False
    """Image tokens attend to each other both ways, which only some attention backends can do."""
    largest_item: int | None = None
    """Tokens of the largest image or video that the engine's own processor makes."""
    heads: int | None = None
    """Attention heads of the vision tower, where tensor parallelism splits them."""
    width: int | None = None
    """Width of that tower's feed-forward networks, which are split too."""


@dataclass(frozen=True, slots=True)
class ClassLimits:
    """What the engine's class for the model can be run with."""

    pipeline_parallel: bool = True
    """Whether the class can be split into pipeline stages."""
    tensor_parallel: bool = True
    """Whether its layers can be split over ranks."""
    only_backend: str | None = None
    """The attention backend that the class requires, with the cache in the model's dtype; ``None`` is any."""


class RotationForm(Enum):
    """How a part of a config writes its rotary positions, where that is not an object with a type."""

    UNTYPED = auto()
    """An object that says no type."""
    NESTED = auto()
    """An object for each type of layer, as transformers 5 writes them."""
    CONFLICT = auto()
    """Two different types, under the old name and the new one."""
    OLD_NAME = auto()
    """A type under its old name alone."""
    INCOMPLETE = auto()
    """A type without a number that it needs."""


@dataclass(frozen=True, slots=True)
class WrittenRotation:
    """Rotary positions of one part of a config."""

    form: RotationForm
    model_type: str
    scaling: bool = False
    """Whether the object is called ``rope_scaling``, as before transformers 5, or ``rope_parameters``."""
    based: bool = False
    """Whether the part names a base, or a share of a head, beside the object."""
    types: tuple[str, str] = ("", "")
    """``rope_type`` and ``type``."""
    missing: tuple[str, ...] = ()
    """What a type needs and the object lacks."""


@dataclass(frozen=True, slots=True)
class UnfitHeads:
    """A part of a config whose hidden size is no multiple of its number of attention heads."""

    model_type: str
    hidden: int
    heads: int


@dataclass(frozen=True, slots=True)
class UncountedLayers:
    """A part of a config that lists the types of more or fewer layers than it has."""

    model_type: str
    layers: int
    listed: int


@dataclass(frozen=True, slots=True)
class NamedLayers:
    """A part of a config that lists types of layers which not every release knows."""

    model_type: str
    before_last: tuple[str, ...]
    """Those of all layers but the last, each once."""
    last: str
    """That of the last layer; empty where every release knows it."""


@dataclass(frozen=True, slots=True)
class SizeFault:
    """Sizes of a config that do not fit together where its class checks them."""

    kind: str
    """What does not fit: a key of ``engine_config/size_faults.toml``."""
    sizes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class DeclaredFields:
    """What the config itself says, where the engine's answer depends on whether it says so."""

    text_class: bool = True
    """Whether the part that generates text names its own class."""
    experts: bool = False
    """Whether the config names a number of experts, by which the engine finds models with experts."""
    tying: bool = True
    """Whether the config says if the output is tied to the embedding."""
    untied: bool = False
    """Whether the text part says that it is not."""
    text_tied: bool = False
    """Whether the text part, or else its class, says that it is."""
    vision: bool = False
    """Whether it has a part on images (``vision_config``)."""
    thinker: bool = False
    """Whether it has a part that holds its text part (``thinker_config``)."""
    attention_layers: bool = True
    """Whether the config (``layer_types``, say) shows the engine which layers of a hybrid attend."""
    head_size: int | None = None
    """``head_dim``."""
    num_layers: int | None = None
    """``num_hidden_layers``, which need not be the number of layers with a cache (looped models, Whisper)."""
    absent: tuple[str, ...] = ()
    """Fields that the engine's class reads without a default, and that the config lacks."""
    null: tuple[str, ...] = ()
    """Fields by which the engine's class multiplies, and that are ``null``."""
    null_fields: frozenset[tuple[str, str]] = frozenset()
    """Fields that are written as ``null``, each behind the type of the config that has it."""
    rotations: frozenset[WrittenRotation] = frozenset()
    """Parts whose rotary positions are written so that some releases do not take them."""
    unfit_heads: frozenset[UnfitHeads] = frozenset()
    """Parts whose hidden size is no multiple of their number of attention heads."""
    uncounted_layers: frozenset[UncountedLayers] = frozenset()
    """Parts that list the types of more or fewer layers than they have."""
    size_faults: tuple[SizeFault, ...] = ()
    """Sizes of the text part that its config class does not take, in the order in which it looks at them."""
    named_layers: frozenset[NamedLayers] = frozenset()
    """Parts that list types of layers which not every release knows."""
    uniform_window: int = 0
    """The window of a text part whose layers are all of one type, which has none; 0 without."""
    text_type: str = ""
    """``model_type`` of the text part."""
    without_key_heads: bool = False
    """Whether the text part lacks ``num_key_value_heads``."""
    text_model: str = ""
    """The engine's class of the text model."""
    hidden_act: str | None = None
    """Name of the activation function between the two projections of a feed-forward network."""
    hidden_activation: str | None = None
    """The same, as Gemma's configs call it."""


@dataclass(frozen=True, slots=True)
class StateFields:
    """What the config says of recurrent states as a whole."""

    dtype: str | None = None
    """Type that the config asks for; ``None`` where it names none."""
    chunk: int = DEFAULT_STATE_CHUNK
    """Tokens that the kernels of recurrent layers process at a time."""
    counted: Recurrence | None = None
    """A state that the engine aligns blocks with, whether or not a layer has it."""
    declared: bool = True
    """Whether the class tells the engine that it has states, so that blocks are aligned with them."""


NO_MEDIA: Final = MediaInputs()
NO_LIMITS: Final = ClassLimits()
NOTHING_DECLARED: Final = DeclaredFields()
PLAIN_STATES: Final = StateFields()
