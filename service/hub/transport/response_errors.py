"""Maps the Hub's error responses to errors, by status and headers only. The body is never read."""

from __future__ import annotations

import re
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final

import httpx2
from huggingface_hub.errors import (
    BadRequestError,
    DisabledRepoError,
    GatedRepoError,
    HfHubHTTPError,
    RemoteEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from service.hub.errors import (
    ConfigNotFound,
    HubError,
    HubUnreachable,
    InvalidModelId,
    ModelGated,
    ModelNotFound,
    RevisionNotFound,
)

if TYPE_CHECKING:
    from service.hub.transport.requests import HubRequest

_SECONDS: Final = re.compile(r"\d{1,6}", re.ASCII)
_INVALID_CREDENTIALS: Final = "Invalid credentials in Authorization header"
_DISABLED: Final = "Access to this resource is disabled."
_ERROR_HEADERS: Final = ("X-Error-Code", "X-Error-Message")


def response_error(
    response: httpx2.Response, request: HubRequest, endpoint: str, token_in: str = ""
) -> HubError:
    """Return the error for a response that is not a success, as huggingface_hub reads `X-Error-Code`.

    `token_in`: where the token that was sent came from; empty where none was.
    """
    # Imported here because the import is slow, and most responses are no errors.
    from huggingface_hub.utils import hf_raise_for_status  # type: ignore[attr-defined]  # noqa: PLC0415

    try:
        hf_raise_for_status(_without_body(response))
    except HfHubHTTPError as error:
        return _named(error, request, endpoint, token_in) or _unnamed(response, request)
    return _unnamed(response, request)


def _named(error: HfHubHTTPError, request: HubRequest, endpoint: str, token_in: str) -> HubError | None:
    model_id = request.model_id
    cause: HubError | None = None
    match error:
        case GatedRepoError():  # before its base class RepositoryNotFoundError
            cause = ModelGated(model_id, f"{endpoint}/{model_id}", token_in=token_in)
        case RevisionNotFoundError():
            cause = RevisionNotFound(model_id, request.revision)
        case RemoteEntryNotFoundError():
            cause = ConfigNotFound(model_id, request.file)
        case DisabledRepoError():
            cause = ModelNotFound(model_id, f"the Hub has disabled access to {model_id}")
        case RepositoryNotFoundError():
            cause = ModelNotFound(model_id)
        case BadRequestError():
            cause = InvalidModelId(model_id, "the Hub rejects the id or the revision as malformed")
    return cause


def _unnamed(response: httpx2.Response, request: HubRequest) -> HubError:
    status = response.status_code
    if status == httpx2.codes.NOT_FOUND:
        return ModelNotFound(request.model_id, named=False)
    refused = status in {httpx2.codes.UNAUTHORIZED, httpx2.codes.FORBIDDEN}
    reason = f"it answered {status}" + (" and denied access" if refused else "")
    wait = retry_after(response.headers)
    return HubUnreachable(request.model_id, reason, status=status, retry_after=wait)


def _without_body(response: httpx2.Response) -> httpx2.Response:
    # huggingface_hub would parse a body of any length, and log warnings that the server puts into headers.
    headers = {name: response.headers[name] for name in _ERROR_HEADERS if name in response.headers}
    return httpx2.Response(response.status_code, headers=headers, request=response.request)


def token_refused(response: httpx2.Response) -> bool:
    """Whether a response rejects the token or its permissions, rather than access to the model."""
    if response.headers.get("X-Error-Code"):
        return False
    message = response.headers.get("X-Error-Message", "")
    if response.status_code == httpx2.codes.UNAUTHORIZED:
        return message == _INVALID_CREDENTIALS
    return response.status_code == httpx2.codes.FORBIDDEN and message != _DISABLED


def quota_wait(response: httpx2.Response) -> int | None:
    """Return the seconds until the quota is renewed; None if it is not used up or the headers do not say.

    The last response that a quota allows already says that nothing is left, so the service stops before it
    gets a 429.
    """
    if response.status_code == httpx2.codes.TOO_MANY_REQUESTS:
        return retry_after(response.headers)
    return _until_renewed(response.headers)


def retry_after(headers: httpx2.Headers) -> int | None:
    """Return the seconds to wait, by the header `RateLimit` or else `Retry-After`; None if neither says."""
    renewed = _until_renewed(headers)
    if renewed is not None:
        return renewed
    value = headers.get("Retry-After", "").strip()
    return int(value) if _SECONDS.fullmatch(value) else _seconds_until(value, headers.get("Date", ""))


def _until_renewed(headers: httpx2.Headers) -> int | None:
    if "RateLimit" not in headers:
        return None
    from huggingface_hub.utils import parse_ratelimit_headers  # type: ignore[attr-defined]  # noqa: PLC0415

    try:
        limit = parse_ratelimit_headers(headers)
    except ValueError:  # a number has more digits than Python converts
        return None
    return limit.reset_in_seconds if limit is not None and limit.remaining == 0 else None


def _seconds_until(moment: str, now: str) -> int | None:
    # Both times are the server's, so that a wrong local clock does not matter.
    try:
        return max(0, int((parsedate_to_datetime(moment) - parsedate_to_datetime(now)).total_seconds()))
    except (ValueError, TypeError, OverflowError):
        return None
