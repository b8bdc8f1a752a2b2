"""Problem types of the use cases, by the exceptions that they describe."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from service.application.errors import (
    GpuNotModelled,
    InvalidRequest,
    LocalModel,
    NothingToRun,
    RefusedCommand,
    UnknownCacheDtype,
    UnknownFlag,
    UnknownFlagValue,
    UnknownParameter,
    UnknownSpeculativeMethod,
)
from service.application.problems.probe_problem_types import PROBE_TYPE_BY_ERROR
from service.application.problems.problem_type import ProblemType
from service.architecture.config import InvalidConfig
from service.architecture.reading import UnknownArchitecture
from service.backends.backend_rules import UnknownBackend
from service.engine_plans.engine_releases import UnknownEngineRelease
from service.engines.releases import UnavailableFlag, UnknownPatch, UnknownRelease
from service.gpus.catalog import AmbiguousGpu, UnknownGpu
from service.gpus.gpu_type import InvalidGpu
from service.hub.errors import (
    ConfigNotFound,
    ConfigNotJson,
    ConfigTooDeep,
    ConfigTooLarge,
    FolderWithoutModel,
    GgufNotPlanned,
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
from service.launch_command.launch import UnreadableCommand
from service.llama_cpp.builds import UnknownBuild

INVALID_REQUEST: Final = ProblemType(
    "invalid-request",
    HTTPStatus.UNPROCESSABLE_ENTITY,
    "The request is not valid",
    "A value is missing, of the wrong type or out of range; `errors` points to each.",
)
INTERNAL_ERROR: Final = ProblemType(
    "internal-error",
    HTTPStatus.INTERNAL_SERVER_ERROR,
    "The service failed",
    "This is an error of the service. Report it with the value of `instance`, which its log names too.",
)

TYPE_BY_ERROR: Final[Mapping[type[Exception], ProblemType]] = {
    InvalidRequest: INVALID_REQUEST,
    UnknownFlag: ProblemType(
        "unknown-flag",
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "The flag is not modelled",
        "`serve` takes the engine's flags that change memory or the cache, by the engine's own names. Other "
        "flags are refused and not ignored, since ignoring a flag could make the answer wrong.",
    ),
    UnreadableCommand: ProblemType(
        "unreadable-command",
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "The command cannot be read",
        "`command` holds no start of the engine, or is not written as its form asks. Send the text that "
        "starts it: a `vllm serve` line, a `docker run` line, a Compose file, a manifest, or a file for "
        "`--config`.",
    ),
    RefusedCommand: ProblemType(
        "command-refused",
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "The engine refuses the command",
        "The release has no such flag, or the flag takes no such value, so the engine ends before it starts. "
        "`nearest` lists flags that are spelt alike; a flag of another release says which releases have it.",
    ),
    LocalModel: ProblemType(
        "local-model",
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "The command serves a folder that is not here",
        "A plan needs the model's config.json: name the model on the Hub in `model`, or send the config.json "
        "in `config`.",
    ),
    NothingToRun: ProblemType(
        "nothing-to-run",
        HTTPStatus.CONFLICT,
        "There is no command to write",
        "The plan was asked for as commands, but the model starts on none of the GPU types, or not in this "
        "form. `detail` says why; the same request with `format=json` has the whole answer.",
    ),
    UnknownParameter: ProblemType(
        "unknown-parameter",
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "The route has no such query parameter",
        "/openapi.yaml lists the query parameters of each route. Others are refused and not ignored, since a "
        "mistyped one would go unnoticed.",
    ),
    UnknownGpu: ProblemType(
        "unknown-gpu",
        HTTPStatus.NOT_FOUND,
        "No GPU type has this id",
        "GET /gpus (`dryserve gpus list`) lists the known types; ids, product names and what nvidia-smi "
        "prints are accepted. Describe a GPU of your own by an object with its name, its memory in bytes and "
        "its compute capability (`--gpu name=my-card,memory=40GiB,cc=8.0`).",
    ),
    AmbiguousGpu: ProblemType(
        "ambiguous-gpu",
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "Several GPU types have this name",
        "`nearest` lists the ids of the types that have it.",
    ),
    GpuNotModelled: ProblemType(
        "gpu-not-modelled",
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "The GPU type is known, but not modelled",
        "Its memory is known, but not what the engine does on it, so no plan is made.",
    ),
    InvalidGpu: ProblemType(
        "invalid-gpu",
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "No GPU has such a value",
        "A value of your GPU is outside of what any GPU has; often the unit is wrong: memory is in bytes.",
    ),
    UnknownRelease: ProblemType(
        "unknown-release",
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "The release of the engine is not modelled",
        "Engines change from release to release, so no plan is made for an unknown one. "
        "GET /engines (`dryserve engines list`) lists the known ones.",
    ),
    UnknownEngineRelease: ProblemType(
        "unknown-engine-release",
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "The release of this engine is not modelled",
        "`detail` names the oldest and the newest release that are modelled.",
    ),
    UnknownBuild: ProblemType(
        "unknown-build",
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "This is no build of llama.cpp",
        "A build is named by its number, such as `b7079`.",
    ),
    UnknownPatch: ProblemType(
        "unknown-patch",
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "The patch is not known",
        "GET /engines lists the pull requests that can be laid over a release.",
    ),
    UnknownBackend: ProblemType(
        "unknown-attention-backend",
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "The release has no such attention backend",
        "`nearest` lists those with a similar spelling; `flag_values` in GET /engines, and "
        "`dryserve engines values attention_backend`, list all.",
    ),
    UnavailableFlag: ProblemType(
        "flag-not-in-release",
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "The release does not have this flag",
        "`detail` says which release added or removed the flag.",
    ),
    UnknownCacheDtype: ProblemType(
        "unknown-kv-cache-dtype",
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "No release has such a cache dtype",
        "GET /engines lists what each release accepts for --kv-cache-dtype. A dtype that only other releases "
        "have is not a problem: the plan answers with the engine's refusal.",
    ),
    UnknownFlagValue: ProblemType(
        "unknown-flag-value",
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "No release takes such a value",
        "The flag takes only certain words, which `flag_values` in GET /engines and `dryserve engines values "
        "FLAG` list. A word that only other releases take is no problem: the plan answers with the engine's "
        "refusal.",
    ),
    UnknownSpeculativeMethod: ProblemType(
        "unknown-speculative-method",
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "No release has such a method of speculative decoding",
        "`nearest` lists methods with a similar spelling, `flag_values` in GET /engines all. A method that "
        "only other releases have is not a problem: the plan answers with the engine's refusal.",
    ),
    UnknownArchitecture: ProblemType(
        "unknown-architecture",
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "The model's architecture is not modelled",
        "Its config names a class that is not known, so no plan is made.",
    ),
    InvalidConfig: ProblemType(
        "invalid-config",
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "The config cannot be read as a model",
        "A field of the config.json is missing, of the wrong type or out of range.",
    ),
    FolderWithoutModel: ProblemType(
        "folder-without-model",
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "There is no model at this path",
        "A model is a folder with a config.json or a params.json.",
    ),
    GgufNotPlanned: ProblemType(
        "gguf-not-planned",
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "This GGUF file is not planned for this engine",
        "vLLM 0.24.0 and later have no loader of GGUF files, and a file needs a config.json beside it. Plan "
        "it for an earlier release, with the engine llama.cpp, or plan the model that it was made from.",
    ),
    InvalidModelId: ProblemType(
        "invalid-model-id",
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "No model can have this id",
        "An id has the form `organisation/name`.",
    ),
    InvalidRevision: ProblemType(
        "invalid-revision",
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "No model can have this revision",
        "A revision is a branch, a tag or a commit.",
    ),
    InvalidHubToken: ProblemType(
        "invalid-hub-token",
        HTTPStatus.BAD_REQUEST,
        "This is no token of the Hub",
        "The header X-Hub-Token does not have the form of an access token; nothing was sent to the Hub.",
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
        "The model does not generate text",
        "The model exists, but the engine does not serve models of its task, such as making images.",
    ),
    ModelNotFound: ProblemType(
        "model-not-found",
        HTTPStatus.NOT_FOUND,
        "The model was not found",
        "The Hub has no such model that may be read with the token in use, or HF_HUB_OFFLINE is set and no "
        "copy of it is stored. GET /models lists the bundled models; send the config.json of any other "
        "model in `config`.",
    ),
    ConfigNotFound: ProblemType(
        "config-not-found",
        HTTPStatus.NOT_FOUND,
        "The model's repository lacks a file",
        "Its repository exists, but has no config.json, which describes the model, or none of the GGUF files "
        "that were asked for. GGUF repositories often have no config.json: they are planned for llama.cpp.",
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
        "Request access on the model's page. Then send a token that has access in the "
        "header X-Hub-Token, run "
        "the service with such a token, or send the config.json in `config`.",
    ),
    ConfigTooLarge: ProblemType(
        "config-too-large",
        HTTPStatus.BAD_GATEWAY,
        "The model's config is too large",
        "The Hub's answer is longer than any config, and was not read to its end.",
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
        "Repeat the request after `retry_after` seconds, or send the config.json in `config`.",
    ),
    HubTimedOut: ProblemType(
        "hub-timed-out",
        HTTPStatus.GATEWAY_TIMEOUT,
        "The Hub did not answer in time",
        "Repeat the request later, or send the config.json in `config`.",
    ),
    HubUnreachable: ProblemType(
        "hub-unreachable",
        HTTPStatus.BAD_GATEWAY,
        "The Hub could not be reached",
        "Repeat the request later, or send the config.json in `config`.",
    ),
    **PROBE_TYPE_BY_ERROR,
}
"""Problem types by exception; an exception that is not listed has the type of its nearest base class."""


def problem_type_of(
    error: Exception, types: Mapping[type[Exception], ProblemType] = TYPE_BY_ERROR
) -> ProblemType:
    """Return the problem type of an error; ``INTERNAL_ERROR`` for one that ``types`` does not foresee."""
    return next((types[cls] for cls in type(error).__mro__ if cls in types), INTERNAL_ERROR)
