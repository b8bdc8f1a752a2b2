"""Which layers of a model attend to a sliding window."""

from collections.abc import Callable
from typing import Final

from service.architecture.config import Config
from service.architecture.readers.recipes.family import layer_types, num_layers

SLIDING: Final = "sliding_attention"


def model_window(text: Config) -> int | None:
    """Return the window that the engine applies to all layers, unless the class chooses windows itself.

    ``0`` and ``null`` mean no window; neither has a model with several layer types one.

    Source: vLLM 0.32.0, ModelConfig.__post_init__ and EngineArgs.create_engine_config.
    """
    types = layer_types(text)
    if types and any(kind != SLIDING for kind in types):
        return None
    return text.integer("sliding_window", default=0, minimum=0) or None


def every_layer(text: Config) -> tuple[int | None, ...]:
    """Return the model's own window for each layer."""
    return (model_window(text),) * num_layers(text)


def no_layer(text: Config) -> tuple[int | None, ...]:
    """Return no window for each layer."""
    return (None,) * num_layers(text)


def by_type(text: Config) -> tuple[int | None, ...]:
    """Return a window for the sliding layers of ``layer_types``; without types, one window for all layers."""
    types = layer_types(text)
    if not types:
        return every_layer(text)
    window = text.integer("sliding_window", default=0, minimum=0) or None
    return tuple(window if kind == SLIDING else None for kind in types[: num_layers(text)])


def by_pattern(
    key: str, default: int, *, full_first: bool = False
) -> Callable[[Config], tuple[int | None, ...]]:
    """Return a function that reads windows: by ``layer_types``, or else with every n-th layer full.

    ``key`` names the field with n. The full layer is the last one of n layers, or the first (``full_first``).
    """

    def windows(text: Config) -> tuple[int | None, ...]:
        count = num_layers(text)
        every = text.count(key, default=default) if isinstance(text.fields.get(key), int) else default
        types = layer_types(text) or tuple(
            SLIDING if (index + (not full_first)) % every else "full_attention" for index in range(count)
        )
        window = text.integer("sliding_window", default=0, minimum=0) or None
        return tuple(window if kind == SLIDING else None for kind in types[:count])

    return windows
