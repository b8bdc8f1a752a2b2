"""What a release's config classes, and its own reading of them, do not take of a config."""

from service.architecture.model import ModelArchitecture
from service.engine_config.layer_types import check_layer_types
from service.engine_config.null_fields import check_null_fields
from service.engine_config.rotations import check_rotations
from service.engine_config.size_faults import check_size_faults
from service.engine_config.unfit_heads import check_unfit_heads
from service.engines.engine_rules import EngineRules


def check_written_fields(architecture: ModelArchitecture, rules: EngineRules) -> None:
    """Refuse a config by what it writes, in the order in which the release reads it.

    Raises:
        EngineRefusal: stage ``config``.
    """
    check_null_fields(architecture, rules.release)
    check_layer_types(architecture, rules.release)
    check_unfit_heads(architecture, rules.release)
    check_size_faults(architecture, rules.release)
    check_rotations(architecture, rules.config_fields)
