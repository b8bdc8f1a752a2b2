"""ServiceClient: the worker's HTTP requests to the service. The worker itself accepts no connections."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

import httpx2

from service.probes.job_spec import JobSpec
from service.serialization import SPEC

WAIT_SECONDS: Final = 20
"""How long the service may wait for a job before it answers that there is none (long polling)."""
TIMEOUT_SECONDS: Final = 10


class Rejected(Exception):
    """The service rejects the request for good: lease lost, job gone, or data invalid."""


class Unreachable(Exception):
    """The service did not answer, or answered with a server error; a retry may help."""


class Denied(Exception):
    """The service does not accept the token."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """A leased job: its fence, and the lease's duration and heartbeat interval in seconds."""

    probe_id: str
    fence: int
    ttl_seconds: float
    heartbeat_seconds: float
    spec: JobSpec


class ServiceClient:
    """The worker's side of the protocol between workers and the service."""

    def __init__(self, http: httpx2.AsyncClient, node: str) -> None:
        """Use an HTTP client whose base address and token are already set."""
        self._http = http
        self._node = node

    async def lease(self, offer: Mapping[str, Any], wait_seconds: float) -> Assignment | None:
        """Request a job and wait for one for up to `wait_seconds`; return None if there is none.

        Raises:
            Unreachable: the service did not answer.
            Denied: it does not accept the token.
        """
        body = {**offer, "node": self._node, "wait_seconds": wait_seconds}
        reply = await self._send("POST", "/leases", body, wait_seconds + TIMEOUT_SECONDS)
        if reply.status_code == HTTPStatus.NO_CONTENT:
            return None
        lease = reply.json()
        return Assignment(
            probe_id=lease["probe_id"],
            fence=lease["fence"],
            ttl_seconds=lease["ttl_seconds"],
            heartbeat_seconds=lease["heartbeat_seconds"],
            spec=SPEC.validate_python(lease["spec"]),
        )

    async def heartbeat(self, probe_id: str, fence: int, phase: str) -> bool:
        """Renew a lease; return False if the job was cancelled and must stop.

        Raises:
            Rejected: the lease is lost.
            Unreachable: the service did not answer.
            Denied: it does not accept the token.
        """
        body = {"node": self._node, "fence": fence, "phase": phase}
        reply = await self._send("POST", f"/probes/{probe_id}/heartbeat", body, TIMEOUT_SECONDS)
        return not reply.json()["cancel"]

    async def report(self, probe_id: str, fence: int, result: Mapping[str, Any]) -> None:
        """Report a result. The request is idempotent and may be repeated.

        Raises:
            Rejected: the lease is lost, or the job already has another result.
            Unreachable: the service did not answer.
            Denied: it does not accept the token.
        """
        body = {"node": self._node, "fence": fence, "result": result}
        await self._send("PUT", f"/probes/{probe_id}/result", body, TIMEOUT_SECONDS)

    async def _send(
        self, method: str, path: str, body: Mapping[str, Any], patience: float
    ) -> httpx2.Response:
        try:
            reply = await self._http.request(method, path, json=body, timeout=patience)
        except httpx2.HTTPError as error:
            reason = str(error) or type(error).__name__
            raise Unreachable(f"{self._http.base_url} cannot be reached: {reason}") from error
        if reply.status_code in _DENIED_STATUSES:
            raise Denied(_reason(reply))
        if reply.status_code in _REJECTED_STATUSES:
            raise Rejected(_reason(reply))
        if not reply.is_success:
            raise Unreachable(_reason(reply))
        return reply


_DENIED_STATUSES: Final[Sequence[int]] = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
_REJECTED_STATUSES: Final[Sequence[int]] = (
    HTTPStatus.CONFLICT,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.UNPROCESSABLE_ENTITY,
)


def _reason(reply: httpx2.Response) -> str:
    try:
        problem = reply.json()
    except ValueError:
        problem = {}
    detail = problem.get("detail") if isinstance(problem, dict) else None
    return f"{reply.status_code}: {detail or 'the service gave no reason'}"
