"""Fields of a config that the engine's class of the model reads without a default."""

from service.architecture.model import ModelArchitecture
from service.engines.refusal import EngineRefusal, Stage
from service.engines.rules.config_fields import ConfigFieldRules


def check_required_fields(architecture: ModelArchitecture, rules: ConfigFieldRules) -> None:
    """Refuse a model whose class reads a field that its config lacks.

    Raises:
        EngineRefusal: stages ``model`` and ``block_size``.
    """
    declared = architecture.declared
    for name in filter(rules.required_fields.__contains__, declared.absent):
        words = rules.words_of_fields.get(name, f"AttributeError: object has no attribute {name!r}")
        error, _, said = words.partition(": ")
        raise EngineRefusal(
            Stage.MODEL,
            said,
            type=error,
            detail=f"{architecture.class_name} reads this field of the config. Neither the config nor its "
            "class names a value.",
        )
    for name in filter(rules.multiplied_fields.__contains__, declared.null):
        raise EngineRefusal(
            Stage.BLOCK_SIZE,
            "unsupported operand type(s) for *: 'int' and 'NoneType'",
            type="TypeError",
            detail=f"{architecture.class_name} computes the size of its states with {name}, which the config "
            "does not say.",
        )
