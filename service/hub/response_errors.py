"""What the Hub's refusals mean, by status and headers alone: a refusal's body is never read."""

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
from huggingface_hub.utils import (  # type: ignore[attr-defined]  # exported without __all__
    hf_raise_for_status,
    parse_ratelimit_headers,
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
    from service.hub.requests import HubRequest

_SECONDS: Final = re.compile(r"\d{1,6}", re.ASCII)
_INVALID_CREDENTIALS: Final = "Invalid credentials in Authorization header"
_DISABLED: Final = "Access to this resource is disabled."
_ERROR_HEADERS: Final = ("X-Error-Code", "X-Error-Message")


def response_error(response: httpx2.Response, wanted: HubRequest, endpoint: str) -> HubError:
    """Name what an answer other than 200 means, the way huggingface_hub reads `X-Error-Code`."""
    try:
        hf_raise_for_status(_without_body(response))
    except HfHubHTTPError as error:
        return _named(error, wanted, endpoint) or _unnamed(response, wanted)
    return _unnamed(response, wanted)


def _named(error: HfHubHTTPError, wanted: HubRequest, endpoint: str) -> HubError | None:
    model_id = wanted.model_id
    cause: HubError | None = None
    match error:
        case GatedRepoError():  # before its base class RepositoryNotFoundError
            cause = ModelGated(model_id, f"{endpoint}/{model_id}")
        case RevisionNotFoundError():
            cause = RevisionNotFound(model_id, wanted.revision)
        case RemoteEntryNotFoundError():
            cause = ConfigNotFound(model_id, wanted.file)
        case DisabledRepoError():
            cause = ModelNotFound(model_id, f"the Hub has disabled access to {model_id}")
        case RepositoryNotFoundError():
            cause = ModelNotFound(model_id)
        case BadRequestError():
            cause = InvalidModelId(model_id, "the Hub refuses it or the revision as malformed")
    return cause


def _unnamed(response: httpx2.Response, wanted: HubRequest) -> HubError:
    status = response.status_code
    if status == httpx2.codes.NOT_FOUND:
        return ModelNotFound(wanted.model_id, named=False)
    refused = status in {httpx2.codes.UNAUTHORIZED, httpx2.codes.FORBIDDEN}
    reason = f"it answered {status}" + (", refusing the access given" if refused else "")
    wait = retry_after(response.headers)
    return HubUnreachable(wanted.model_id, reason, status=status, retry_after=wait)


def _without_body(response: httpx2.Response) -> httpx2.Response:
    # huggingface_hub would parse the body, unbounded, and log warning headers of the server's choosing.
    headers = {name: response.headers[name] for name in _ERROR_HEADERS if name in response.headers}
    return httpx2.Response(response.status_code, headers=headers, request=response.request)


def token_refused(response: httpx2.Response) -> bool:
    """Whether an answer refuses the token itself, or what it was issued for, and not the model."""
    if response.headers.get("X-Error-Code"):
        return False
    said = response.headers.get("X-Error-Message", "")
    if response.status_code == httpx2.codes.UNAUTHORIZED:
        return said == _INVALID_CREDENTIALS
    return response.status_code == httpx2.codes.FORBIDDEN and said != _DISABLED


def quota_wait(response: httpx2.Response) -> int | None:
    """Return the seconds for which nothing more may be asked; None where the quota lasts or nothing says.

    The last answer that a quota allows says that none is left, so the refusal need not be provoked.
    """
    if response.status_code == httpx2.codes.TOO_MANY_REQUESTS:
        return retry_after(response.headers)
    return _until_renewed(response.headers)


def retry_after(headers: httpx2.Headers) -> int | None:
    """Return the seconds to wait by `RateLimit` or else `Retry-After`; None where neither says."""
    renewed = _until_renewed(headers)
    if renewed is not None:
        return renewed
    value = headers.get("Retry-After", "").strip()
    return int(value) if _SECONDS.fullmatch(value) else _seconds_until(value, headers.get("Date", ""))


def _until_renewed(headers: httpx2.Headers) -> int | None:
    try:
        limit = parse_ratelimit_headers(headers)
    except ValueError:  # more digits than Python converts
        return None
    return limit.reset_in_seconds if limit is not None and limit.remaining == 0 else None


def _seconds_until(moment: str, now: str) -> int | None:
    # The server's own Date, so that no clock of ours is read.
    try:
        return max(0, int((parsedate_to_datetime(moment) - parsedate_to_datetime(now)).total_seconds()))
    except (ValueError, TypeError, OverflowError):
        return None
