"""Errors that only HTTP requests have."""

from collections.abc import Iterable

from service.nearest_names import quoted


class MalformedJson(ValueError):
    """The body is not JSON."""


class UnsupportedMediaType(ValueError):
    """The body is not sent as JSON."""

    def __init__(self, given: str) -> None:
        shown = quoted(given) if given else "no type"
        super().__init__(f"the body is sent as {shown}: send application/json")


class NothingMore(Exception):
    """A stream of events is asked for again after its end; 204 tells a browser not to come back."""


class ProblemTypeNotFound(LookupError):
    """No problem type has this name."""

    def __init__(self, slug: str) -> None:
        super().__init__(f"there is no problem type {quoted(slug)}")


class Unauthorized(Exception):
    """The request has no token, or one that the service does not know."""

    def __init__(self) -> None:
        super().__init__("this needs a valid token")


class TooManyAttempts(Exception):
    """Too many wrong tokens came from the caller's address.

    Attributes:
        retry_after: seconds after which to repeat the request.
    """

    def __init__(self, retry_after: int) -> None:
        self.retry_after = retry_after
        super().__init__("too many wrong tokens came from this address: try again later")


class Forbidden(Exception):
    """The scope of the request's token does not allow this."""

    def __init__(self, scopes: Iterable[str]) -> None:
        super().__init__(f"this needs a token of scope: {', '.join(scopes)}")


class ServiceStops(Exception):
    """The service stops, and its time for requests that are being answered is over.

    Attributes:
        retry_after: seconds after which to repeat the request.
    """

    retry_after = 5

    def __init__(self) -> None:
        super().__init__("the service stops before this was answered: repeat the request")


class SlowRequest(Exception):
    """A part of a request did not arrive in time."""

    def __init__(self, part: str, seconds: float) -> None:
        super().__init__(f"the {part} of the request did not arrive within {seconds:g} s")


class TooManyConnections(Exception):
    """There are more connections than the service accepts.

    Attributes:
        retry_after: seconds after which to repeat the request.
    """

    retry_after = 5

    def __init__(self) -> None:
        super().__init__("too many connections are open: repeat the request later, on fewer connections")


class Overloaded(Exception):
    """So much work waits that this request is not accepted, or it waited too long.

    Attributes:
        waiting: number of requests that wait.
        retry_after: seconds after which to repeat the request.
    """

    def __init__(self, waiting: int, retry_after: int) -> None:
        self.waiting = waiting
        self.retry_after = retry_after
        super().__init__(f"{waiting:,} requests of this kind wait already: repeat the request later")


class TimeLimitReached(Exception):
    """A request took more processor time than one request may."""

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"the request took more than {seconds:g} s of processor time: ask for fewer GPU types or "
            "releases, or leave out `levers` and `details`"
        )


class CallerLeft(Exception):
    """The caller closed the connection before its answer was calculated: nobody would read it."""
