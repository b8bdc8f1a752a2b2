"""What the worker says to the service, outward over HTTP alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

import httpx2

from service.probes.job_spec import JobSpec
from service.serialization import SPEC

WAIT_SECONDS: Final = 20
TIMEOUT_SECONDS: Final = 10


class Rejected(Exception):
    """The service will not hear of this lease any more: it is lost, or the job is gone."""


class Unreachable(Exception):
    """The service did not answer, or could not; asking again may help."""


class Denied(Exception):
    """The token does not open this service."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """A job, leased."""

    probe_id: str
    fence: int
    ttl_seconds: float
    heartbeat_seconds: float
    spec: JobSpec


class ServiceClient:
    """One worker's side of the protocol."""

    def __init__(self, http: httpx2.AsyncClient, node: str) -> None:
        """Take a client whose base address and token are set."""
        self._http = http
        self._node = node

    async def lease(self, offer: Mapping[str, Any], wait_seconds: float) -> Assignment | None:
        """Ask for a job, waiting for one for a while.

        Raises:
            Unreachable: the service did not answer.
            Denied: it does not know the token.
        """
        body = {**offer, "node": self._node, "wait_seconds": wait_seconds}
        reply = await self._send("POST", "/leases", body, wait_seconds + TIMEOUT_SECONDS)
        if reply.status_code == HTTPStatus.NO_CONTENT:
            return None
        specified = reply.json()
        return Assignment(
            probe_id=specified["probe_id"],
            fence=specified["fence"],
            ttl_seconds=specified["ttl_seconds"],
            heartbeat_seconds=specified["heartbeat_seconds"],
            spec=SPEC.validate_python(specified["spec"]),
        )

    async def heartbeat(self, probe_id: str, fence: int, phase: str) -> bool:
        """Prolong a lease; return whether the job is still wanted.

        Raises:
            Rejected: the lease is lost.
            Unreachable: the service did not answer.
            Denied: it does not know the token.
        """
        body = {"node": self._node, "fence": fence, "phase": phase}
        reply = await self._send("POST", f"/probes/{probe_id}/heartbeat", body, TIMEOUT_SECONDS)
        return not reply.json()["cancel"]

    async def hand_in(self, probe_id: str, fence: int, result: Mapping[str, Any]) -> None:
        """Hand a result in; doing so again is harmless.

        Raises:
            Rejected: the lease is lost, or another result was there first.
            Unreachable: the service did not answer.
            Denied: it does not know the token.
        """
        body = {"node": self._node, "fence": fence, "result": result}
        await self._send("PUT", f"/probes/{probe_id}/result", body, TIMEOUT_SECONDS)

    async def _send(
        self, method: str, path: str, body: Mapping[str, Any], patience: float
    ) -> httpx2.Response:
        try:
            reply = await self._http.request(method, path, json=body, timeout=patience)
        except httpx2.HTTPError as error:
            raise Unreachable(f"{type(error).__name__} at {path}") from error
        if reply.status_code in _DENIALS:
            raise Denied(_words(reply))
        if reply.status_code in _LASTING:
            raise Rejected(_words(reply))
        if not reply.is_success:
            raise Unreachable(_words(reply))
        return reply


_DENIALS: Final[Sequence[int]] = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
_LASTING: Final[Sequence[int]] = (HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND, HTTPStatus.UNPROCESSABLE_ENTITY)


def _words(reply: httpx2.Response) -> str:
    try:
        problem = reply.json()
    except ValueError:
        problem = {}
    specified = problem.get("detail") if isinstance(problem, dict) else None
    return f"{reply.status_code}: {specified or 'the service did not say why'}"
