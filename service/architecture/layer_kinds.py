"""What equal layers are called, such as ``sliding_window`` or ``mixture_of_experts``."""

import re
from collections import Counter
from dataclasses import replace

from service.architecture.layers.attention import Attention
from service.architecture.layers.decoder_layer import FeedForward, Mixer
from service.architecture.layers.recurrence import Recurrence
from service.architecture.model import ModelArchitecture


def mixer_kinds(model: ModelArchitecture) -> Counter[tuple[str, Mixer]]:
    """Return the number of layers of each kind of attention or recurrence."""
    return Counter(kind_of_mixer(layer.mixer) for layer in model.layers)


def kind_of_mixer(mixer: Mixer) -> tuple[str, Mixer]:
    """Return the name of a mixer's kind, and what its layers have in common."""
    if not isinstance(mixer, Attention):
        return kind_name(mixer), mixer
    if mixer.cross:
        return "cross_attention", mixer
    if mixer.encodes:
        return "encoder_attention" if mixer.sliding_window is None else "encoder_sliding_window", mixer
    window = "full_attention" if mixer.sliding_window is None else "sliding_window"
    if mixer.attention_chunk_size is not None:
        window = "chunked_local_attention"
    if mixer.shares_cache_of is None:
        return window, mixer
    # Which earlier layer is read does not make layers differ.
    return f"{window}_shared_cache", replace(mixer, shares_cache_of=None)


def kind_name(part: Mixer | FeedForward | Recurrence) -> str:
    """Return the name of a type in lower case, its words joined by ``_``."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", type(part).__name__).lower()
