"""Which layers each pipeline stage runs."""

from service.architecture.model import ModelArchitecture


def model_stages(architecture: ModelArchitecture, stages: int) -> tuple[range, ...]:
    """Return the model's own layers of each pipeline stage."""
    return stage_layers(len(architecture.layers), stages, architecture.attentions_per_layer)


def built_stages(architecture: ModelArchitecture, stages: int) -> tuple[range, ...]:
    """Return the layers of each pipeline stage, those of a draft on the last."""
    *others, last = model_stages(architecture, stages)
    return (*others, range(last.start, len(architecture.built_layers)))


def stage_layers(num_layers: int, stages: int, together: int = 1) -> tuple[range, ...]:
    """Return the layers of each pipeline stage; the remainder goes to the stages before the last.

    ``together``: so many layers in a row stay on one stage.

    Source: vLLM 0.32.0, distributed/utils.py get_pp_indices.
    """
    units = num_layers // together
    sizes = [units // stages * together] * stages
    for extra in range(units % stages):
        sizes[-(extra + 2)] += together
    ends = [sum(sizes[: stage + 1]) for stage in range(stages)]
    return tuple(range(end - size, end) for size, end in zip(sizes, ends, strict=True))
