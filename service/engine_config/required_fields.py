"""Fields of a config that the engine's class of the model reads without a default."""

from service.architecture.model import ModelArchitecture
from service.engines.refusal import EngineRefusal, Stage


def check_required_fields(architecture: ModelArchitecture) -> None:
    """Refuse a model whose class reads a field that its config lacks.

    Raises:
        EngineRefusal: stage ``model``.
    """
    for name in architecture.declared.absent:
        raise EngineRefusal(
            Stage.MODEL,
            f"object has no attribute {name!r}",
            type="AttributeError",
            detail=f"{architecture.class_name} reads this field of the config. Neither the config nor its "
            "class names a value.",
        )
