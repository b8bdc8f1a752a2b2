"""Problem types of the use cases, by the exceptions that they describe."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from service.application.errors import (
    GpuNotModelled,
    InvalidRequest,
    UnknownCacheDtype,
    UnknownFlag,
    UnknownSpeculativeMethod,
)
from service.application.problems.probe_problem_types import PROBE_TYPE_BY_ERROR
from service.application.problems.problem_type import ProblemType
from service.architecture.config import InvalidConfig
from service.architecture.reading import UnknownArchitecture
from service.backends.backend_rules import UnknownBackend
from service.engines.releases import UnavailableFlag, UnknownPatch, UnknownRelease
from service.gpus.catalog import UnknownGpu
from service.gpus.gpu_type import InvalidGpu
from service.hub.errors import (
    ConfigNotFound,
    ConfigNotJson,
    ConfigTooDeep,
    ConfigTooLarge,
    HubRateLimited,
    HubTimedOut,
    HubTokenRefused,
    HubUnreachable,
    InvalidHubToken,
    InvalidModelId,
    InvalidRevision,
    ModelGated,
    ModelNotFound,
    NotATextModel,
    RevisionNotFound,
)

INVALID_REQUEST: Final = ProblemType(
    "invalid-request",
    HTTPStatus.UNPROCESSABLE_ENTITY,
    "The request is not one that can be planned",
    "A value is missing, of the wrong type or out of range; `errors` points at each.",
)
INTERNAL_ERROR: Final = ProblemType(
    "internal-error",
    HTTPStatus.INTERNAL_SERVER_ERROR,
    "The service failed",
    "A fault of this service. Report it with the value of `instance`, under which it is logged.",
)

TYPE_BY_ERROR: Final[Mapping[type[Exception], ProblemType]] = {
    InvalidRequest: INVALID_REQUEST,
    UnknownFlag: ProblemType(
        "unknown-flag",
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "A flag that is not modelled",
        "`serve` holds the engine's flags that decide about memory, by the engine's own names. Others are "
        "refused and not ignored, since a flag that is passed over would make the answer wrong.",
    ),
    UnknownGpu: ProblemType(
        "unknown-gpu",
        HTTPStatus.NOT_FOUND,
        "No GPU type has this id",
        "GET /gpus lists the known ids; a GPU of your own is given as an object with its name, bytes and "
        "compute capability.",
    ),
    GpuNotModelled: ProblemType(
        "gpu-not-modelled",
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "This GPU type is known, but not modelled yet",
        "Its memory is on record, but not what the engine does on it, so nothing is planned.",
    ),
    InvalidGpu: ProblemType(
        "invalid-gpu",
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "No GPU can be like this",
        "A GPU of your own has a figure that none has, mostly a slip of the unit: memory is in bytes.",
    ),
    UnknownRelease: ProblemType(
        "unknown-release",
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "This release of the engine is not modelled",
        "What an engine does changes by release, so an old or misspelt version is not planned. "
        "GET /engines lists the releases.",
    ),
    UnknownPatch: ProblemType(
        "unknown-patch",
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "This patch is not known",
        "GET /engines lists the pull requests that can be laid over a release.",
    ),
    UnknownBackend: ProblemType(
        "unknown-attention-backend",
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "The release has no such attention backend",
        "`detail` lists those that the release has for this kind of model.",
    ),
    UnavailableFlag: ProblemType(
        "flag-not-in-release",
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "The release does not have this flag",
        "The flag came with a later release of the engine; GET /engines says with which.",
    ),
    UnknownCacheDtype: ProblemType(
        "unknown-kv-cache-dtype",
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "No release has such a cache type",
        "GET /engines lists what each release accepts for --kv-cache-dtype. A type that only another release "
        "has is no problem of the question: the plan says in the engine's words that it does not start.",
    ),
    UnknownSpeculativeMethod: ProblemType(
        "unknown-speculative-method",
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "No release drafts tokens by such a method",
        "`nearest` lists methods that are spelt alike. A method that only another release has is no problem "
        "of the question: the plan says in the engine's words that it does not start.",
    ),
    UnknownArchitecture: ProblemType(
        "unknown-architecture",
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "The model's architecture is not modelled",
        "Its config names a class that is not known, so nothing is planned.",
    ),
    InvalidConfig: ProblemType(
        "invalid-config",
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "The config cannot be read as a model",
        "A field of the config.json is missing, of the wrong type or out of range.",
    ),
    InvalidModelId: ProblemType(
        "invalid-model-id",
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "Not an id that a model can have",
        "Ids read `organisation/name`.",
    ),
    InvalidRevision: ProblemType(
        "invalid-revision",
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "Not a revision that a model can have",
        "A revision is a branch, a tag or a commit.",
    ),
    InvalidHubToken: ProblemType(
        "invalid-hub-token",
        HTTPStatus.BAD_REQUEST,
        "Not a token that the Hub issues",
        "The header X-Hub-Token holds what no access token of the Hub looks like; nothing was asked.",
    ),
    HubTokenRefused: ProblemType(
        "hub-token-refused",
        HTTPStatus.FORBIDDEN,
        "The Hub does not accept the token",
        "The token in the header X-Hub-Token is expired, revoked or mistyped.",
    ),
    NotATextModel: ProblemType(
        "not-a-text-model",
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "Not a model that generates text",
        "The model exists, but is of a kind that the engine does not serve, such as one that draws images.",
    ),
    ModelNotFound: ProblemType(
        "model-not-found",
        HTTPStatus.NOT_FOUND,
        "No such model",
        "The Hub shows this service no such model, or the service works offline and does not bundle it. "
        "GET /models lists what is bundled; any model can be planned by its config.json in `config`.",
    ),
    ConfigNotFound: ProblemType(
        "config-not-found",
        HTTPStatus.NOT_FOUND,
        "The model has no config.json",
        "Its repository exists, but lacks the file that says what the model is (GGUF repositories do).",
    ),
    RevisionNotFound: ProblemType(
        "revision-not-found",
        HTTPStatus.NOT_FOUND,
        "The model has no such revision",
        "The model exists, but has no such branch, tag or commit.",
    ),
    ModelGated: ProblemType(
        "model-gated",
        HTTPStatus.FORBIDDEN,
        "The model's owner must grant access first",
        "Request access on the model's page, then send a token that has it in the header X-Hub-Token (or run "
        "the service with it), or send the config.json in `config`.",
    ),
    ConfigTooLarge: ProblemType(
        "config-too-large",
        HTTPStatus.BAD_GATEWAY,
        "The model's config is too large",
        "The Hub's answer is longer than any config and was not read to its end.",
    ),
    ConfigTooDeep: ProblemType(
        "config-too-deep",
        HTTPStatus.BAD_GATEWAY,
        "The model's config is nested too deeply",
        "The Hub's answer is nested deeper, or has more parts, than any config.",
    ),
    ConfigNotJson: ProblemType(
        "config-not-json",
        HTTPStatus.BAD_GATEWAY,
        "The model's config is not JSON",
        "The Hub answered, but not with a JSON object.",
    ),
    HubRateLimited: ProblemType(
        "hub-rate-limited",
        HTTPStatus.SERVICE_UNAVAILABLE,
        "The Hub's quota is used up",
        "Ask again after `retry_after` seconds, or send the config.json in `config`.",
    ),
    HubTimedOut: ProblemType(
        "hub-timed-out",
        HTTPStatus.GATEWAY_TIMEOUT,
        "The Hub did not answer in time",
        "Ask again later, or send the config.json in `config`.",
    ),
    HubUnreachable: ProblemType(
        "hub-unreachable",
        HTTPStatus.BAD_GATEWAY,
        "The Hub could not be reached",
        "Ask again later, or send the config.json in `config`.",
    ),
    **PROBE_TYPE_BY_ERROR,
}
"""Problem types by exception; an exception that is not listed has the type of its nearest base class."""


def problem_type_of(
    error: Exception, types: Mapping[type[Exception], ProblemType] = TYPE_BY_ERROR
) -> ProblemType:
    """Return the problem type of an error; ``INTERNAL_ERROR`` for one that ``types`` does not foresee."""
    return next((types[cls] for cls in type(error).__mro__ if cls in types), INTERNAL_ERROR)
