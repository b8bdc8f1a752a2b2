"""AppOptions: how an application is to answer, beside the parts that it answers with."""

from dataclasses import dataclass, field

from service.api.tracing import Tracing
from service.api.work_lanes import WorkLimits


@dataclass(frozen=True, slots=True)
class AppOptions:
    """How an application is to answer."""

    cors_origins: tuple[str, ...] = ()
    """Origins whose web pages may call it."""
    work: WorkLimits = field(default_factory=WorkLimits)
    """Limits on the work of requests."""
    tracing: Tracing = field(default_factory=Tracing)
    """Makes the spans of requests and of their steps."""
    root_path: str = ""
    """Prefix of all paths behind a proxy; empty for none."""
    has_admin: bool = False
    """Whether operators have a listener of their own."""
    open_reads: bool = False
    """Whether callers on this machine read probes and measurements without a token."""
