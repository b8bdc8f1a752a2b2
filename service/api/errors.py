"""Errors that only HTTP requests have."""

from collections.abc import Iterable

from service.nearest_names import quoted


class MalformedJson(ValueError):
    """The body is not JSON."""


class UnsupportedMediaType(ValueError):
    """The body is sent as something else than JSON."""

    def __init__(self, given: str) -> None:
        shown = quoted(given) if given else "no type"
        super().__init__(f"the body is sent as {shown}: send application/json, as `curl --json` does")


class ProblemTypeNotFound(LookupError):
    """No kind of problem has this name."""

    def __init__(self, slug: str) -> None:
        super().__init__(f"there is no problem {quoted(slug)}")


class Unauthorized(Exception):
    """No token that is known came with the request."""

    def __init__(self) -> None:
        super().__init__("this needs a token that the service knows")


class Forbidden(Exception):
    """A token came that does not allow this."""

    def __init__(self, scopes: Iterable[str]) -> None:
        super().__init__(f"this needs a token for: {', '.join(scopes)}")


class TooManyConnections(Exception):
    """There are more connections than the service takes.

    Attributes:
        retry_after: seconds after which asking again makes sense.
    """

    retry_after = 5

    def __init__(self) -> None:
        super().__init__("too many connections are open: ask again later, on fewer of them")
