"""Authorization by bearer token: every route that changes state needs a token of the right scope."""

from collections.abc import Awaitable, Callable
from ipaddress import ip_address
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from service.api.dependencies import Parts
from service.api.errors import Forbidden, Unauthorized
from service.application.services import Services
from service.store.token import Scope, Token

if TYPE_CHECKING:
    from service.api.failed_attempts import FailedAttempts

PROXY_HEADERS: Final = frozenset({"forwarded", "x-real-ip", "via"})
FORWARDED: Final = "x-forwarded-"
"""First part of the other headers of proxies."""
OLD_HTTP: Final = frozenset({"0.9", "1.0"})
"""Versions that nginx speaks to the service behind it by default, and that no current client speaks."""
LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})

_bearer: Final = HTTPBearer(auto_error=False, description="A token that `dryserve token create` made")
Bearer: TypeAlias = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


def allowing(*scopes: Scope) -> Callable[..., Awaitable[Token]]:
    """Return a dependency that accepts only tokens of some scopes."""

    async def token_of(request: Request, bearer: Bearer, services: Parts) -> Token:
        await services.probes.load()
        token = None if bearer is None else await _found(request, bearer.credentials, services)
        if token is None:
            raise Unauthorized
        if token.scope not in scopes:
            raise Forbidden(scopes)
        return token

    return token_of


async def _found(request: Request, text: str, services: Services) -> Token | None:
    """Look a token up, unless too many wrong ones came from its address.

    Raises:
        TooManyAttempts: that is so.
        StoreUnavailable: the database cannot be used.
    """
    address = "" if request.client is None else request.client.host
    attempts: FailedAttempts = request.app.state.failed_attempts
    attempts.check(address, text)
    declared = services.probes.declared_tokens
    token = None if declared is None else declared.find(text)
    token = token or await services.probes.tokens.find(text)
    attempts.note(address, text, accepted=token is not None)
    return token


_known: Final = allowing(*Scope)
_reading: Final = allowing(Scope.OPERATOR, Scope.READER)


async def _caller(request: Request, bearer: Bearer, services: Parts) -> Token | None:
    return None if bearer is None else await _known(request, bearer, services)


def operator_of(caller: Token | None) -> Token:
    """Return the caller's token, on a route that is open to all, for what only operators may do.

    Raises:
        Unauthorized: the caller sent no token.
        Forbidden: the token is not an operator's.
    """
    if caller is None:
        raise Unauthorized
    if caller.scope is not Scope.OPERATOR:
        raise Forbidden([Scope.OPERATOR])
    return caller


def may_read_openly(request: Request) -> bool:
    """Whether a caller without a token may read probes and measurements."""
    return request.app.state.open_reads and is_local(request)


async def _reader(request: Request, bearer: Bearer, services: Parts) -> Token | None:
    if bearer is None and may_read_openly(request):
        await services.probes.load()
        return None
    return await _reading(request, bearer, services)


def is_local(request: Request) -> bool:
    """Whether a request comes from this machine, is addressed to it by a loopback name, and passed no proxy.

    Checking the name refuses web pages whose host name resolves to this machine (DNS rebinding). A proxy on
    this machine that adds no header looks like a local caller.
    """
    name = request.headers.get("host", "").lower()
    name = name if name.endswith("]") else name.rpartition(":")[0] or name
    return _is_loopback(request) and name in LOOPBACK_NAMES and not _is_proxied(request)


def _is_proxied(request: Request) -> bool:
    headers = request.headers.keys()
    old = request.scope.get("http_version") in OLD_HTTP
    return old or any(name in PROXY_HEADERS or name.startswith(FORWARDED) for name in headers)


def _is_loopback(request: Request) -> bool:
    try:
        return request.client is not None and ip_address(request.client.host).is_loopback
    except ValueError:
        return False


Operator: TypeAlias = Annotated[Token, Depends(allowing(Scope.OPERATOR))]
Reader: TypeAlias = Annotated[Token | None, Depends(_reader)]
Caller: TypeAlias = Annotated[Token | None, Depends(_caller)]
"""Anybody; a token that is sent must be valid."""
Worker: TypeAlias = Annotated[Token, Depends(allowing(Scope.WORKER))]
