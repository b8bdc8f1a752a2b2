"""Which file of a model a release reads: config.json or Mistral's params.json."""

from dataclasses import replace
from functools import lru_cache

from packaging.version import Version

from service.architecture.config import InvalidConfig, read_document
from service.architecture.long_lists import LONG_LISTS
from service.architecture.mistral_format.dialect import Dialect, RefusedParams
from service.architecture.mistral_format.translation import read_params
from service.architecture.model import ModelArchitecture
from service.architecture.model_files import ModelFiles
from service.architecture.reading import UnknownArchitecture, read_architecture, with_modelopt_file
from service.engines.refusal import EngineRefusal, Stage
from service.engines.releases import RELEASES, rules_for
from service.engines.rules.checkpoints import CheckpointRules, ParamsFile


def as_written_for(
    architecture: ModelArchitecture, rules: CheckpointRules, release: Version
) -> ModelArchitecture:
    """Return the model as the release reads its files, with the draft that was chosen for it.

    Raises:
        EngineRefusal: the release does not read them.
    """
    if architecture.files is None:
        return architecture
    try:
        read = _read(architecture.files, rules)
    except RefusedParams as refused:
        stage = Stage.MODEL if refused.building else Stage.CONFIG
        detail = "" if refused.message else refused.detail
        raise EngineRefusal(stage, refused.message, type=refused.type, detail=detail) from refused
    except (InvalidConfig, UnknownArchitecture) as unread:
        # The planned release reads another file or another part of it, or there would be no plan.
        detail = f"What vLLM {release} reads of this model is not understood: {unread}"
        raise EngineRefusal(Stage.CONFIG, "", detail=detail) from unread
    return replace(read, drafts=replace(read.drafts, checkpoint=architecture.drafts.checkpoint))


def read_files(files: ModelFiles, rules: CheckpointRules) -> ModelArchitecture:
    """Return the model as a release reads it, or where that one refuses, as the newest does that reads it.

    A refusal belongs into the plan, which needs a model to speak of.

    Raises:
        InvalidConfig: what counts is malformed, or no release would read it.
        UnknownArchitecture: it describes what is not modelled.
    """
    try:
        return _read(files, rules)
    except RefusedParams as refused:
        for release in reversed(RELEASES):
            try:
                return _read(files, rules_for(release).checkpoints)
            except (InvalidConfig, UnknownArchitecture):
                continue
        raise InvalidConfig(refused.pointer, f"no release of vLLM reads it: {refused.detail}") from refused


def _read(files: ModelFiles, rules: CheckpointRules) -> ModelArchitecture:
    dialect = Dialect(rules.params_parts, rules.params_class)
    return _read_cached(files, rules.params_file, dialect)


@LONG_LISTS.emptied
@lru_cache(maxsize=16)
def _read_cached(files: ModelFiles, order: ParamsFile, dialect: Dialect) -> ModelArchitecture:
    if _counts(files, order):
        read = read_params(files, dialect)
    elif files.config is not None:
        read = read_architecture(read_document(with_modelopt_file(files.config, files.quantization)))
    else:
        detail = "There is neither a config.json nor, beside the params.json, a consolidated*.safetensors."
        raise RefusedParams("", "", detail=detail)
    return replace(read, files=files)


def _counts(files: ModelFiles, order: ParamsFile) -> bool:
    """Whether a model is read by its params.json. Source: vLLM 0.32.0, get_config."""
    if order is ParamsFile.WITHOUT_CONFIG:
        return files.config is None
    return order is ParamsFile.FIRST or files.consolidated
