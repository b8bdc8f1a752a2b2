"""Errors of fetching a model's config.

All are subclasses of `HubError`, so that a caller can catch all of them or one cause. No message contains a
header, a token, or text that a server sent.
"""

from typing import ClassVar

_QUOTED_CHARACTERS = 100


def _quoted(text: str) -> str:
    """Return a caller's text as short ASCII, so that it cannot forge a line of a log."""
    return ascii(text[:_QUOTED_CHARACTERS])


class HubError(Exception):
    """A model's config could not be fetched.

    Attributes:
        model_id: the id that was requested.
        nearest: ids of bundled and stored models with a similar spelling, best first.
        is_absent: whether the model is known to be neither bundled nor stored, so that only the Hub could
            tell whether it exists.
    """

    is_outage: ClassVar[bool] = False
    """Whether the Hub could not be asked, so that nothing is known of the model."""

    def __init__(self, model_id: str, reason: str) -> None:
        super().__init__(reason)
        self.model_id = model_id
        self.nearest: tuple[str, ...] = ()
        self.is_absent = False

    def __str__(self) -> str:
        """Return the reason, and for a model that the Hub could not be asked about, what is known of it."""
        reason = super().__str__()
        if not (self.is_outage and self.is_absent):
            return reason
        near = f"; the nearest are {', '.join(self.nearest)}" if self.nearest else ""
        return f"{reason}. {self.model_id} is neither bundled nor stored here{near}"


class InvalidModelId(HubError):
    """The id breaks the Hub's rules for ids; no request was sent."""

    def __init__(self, model_id: str, reason: str) -> None:
        super().__init__(model_id, f"{_quoted(model_id)} is not a model id: {reason}")


class FolderWithoutModel(HubError):
    """A path on this host does not lead to a model; the Hub is not asked."""


class GgufNotPlanned(HubError):
    """A file in GGUF's format, for an engine that does not load it."""


class InvalidHubToken(HubError):
    """The text that a caller sent cannot be a token of the Hub; no request was sent."""

    def __init__(self) -> None:
        super().__init__(
            "", "this is not an access token: a token has up to 512 letters, digits or any of . _ ~ + / = -"
        )


class HubTokenRefused(HubError):
    """The Hub does not accept the token that a caller sent, or does not accept it for this model."""

    def __init__(self, model_id: str) -> None:
        super().__init__(model_id, f"the Hub does not accept the token that was sent for {model_id}")


class InvalidRevision(HubError):
    """The revision cannot be the name of a branch, tag or commit; no request was sent."""

    def __init__(self, model_id: str, revision: str) -> None:
        super().__init__(
            model_id,
            f"{_quoted(revision)} is not a revision: give a branch, a tag or a commit, up to 128 letters, "
            "digits or any of . _ - /, without '..' or '//'",
        )
        self.revision = revision


class ModelNotFound(HubError):
    """The model does not exist, or it is private and this service has no access.

    Attributes:
        named: whether the response named this cause in a header; False where only its status suggests it.
    """

    def __init__(self, model_id: str, reason: str | None = None, *, named: bool = True) -> None:
        reason = (
            reason or f"the Hub has no model {model_id}, or shows it to accounts with access alone (HF_TOKEN)"
        )
        super().__init__(model_id, reason)
        self.named = named


class ConfigNotFound(ModelNotFound):
    """The model exists, but its repository has no such file.

    Attributes:
        has_ggufs: whether it holds weights in GGUF's format instead.
    """

    def __init__(self, model_id: str, file: str, remark: str = "", *, has_ggufs: bool = False) -> None:
        super().__init__(model_id, f"the repository of {model_id} has no {file}{remark}")
        self.file = file
        self.has_ggufs = has_ggufs


class NotATextModel(HubError):
    """The model exists, but it is not a model that generates text."""

    def __init__(self, model_id: str, task: str | None) -> None:
        kind = "is a pipeline of another library" if task is None else f"is a model for {task}"
        super().__init__(model_id, f"{model_id} {kind}, so the engine cannot generate text with it")


class ModelGated(HubError):
    """The model is gated: its owner must grant access first.

    Attributes:
        access_url: the page on which a user requests access.
    """

    def __init__(self, model_id: str, access_url: str, *, token_in: str = "") -> None:
        # `hide_secrets` passes over this text: no word that could be a token follows a name of one.
        if token_in:
            words = (
                f"{model_id} is gated, and a token was used ({token_in}) whose account has no access: ask "
                f"for it at {access_url} with that account, or give the token of another"
            )
        else:
            words = (
                f"{model_id} is gated, and no token was given: ask for access at {access_url}, then give the "
                "token of that account, in the variable HF_TOKEN or, over HTTP, in the header X-Hub-Token"
            )
        super().__init__(model_id, f"{words}; or give its config.json (--config FILE, `config`)")
        self.access_url = access_url


class RevisionNotFound(HubError):
    """The model exists but has no such branch, tag or commit."""

    def __init__(self, model_id: str, revision: str, reason: str | None = None) -> None:
        super().__init__(model_id, reason or f"{model_id} has no revision {revision}")
        self.revision = revision


class ConfigTooLarge(HubError):
    """A file is longer than the limit, which is above any real config; it was not read to its end."""

    def __init__(self, model_id: str, file: str, limit_bytes: int) -> None:
        super().__init__(model_id, f"{file} of {model_id} is longer than {limit_bytes} bytes")
        self.file = file
        self.limit_bytes = limit_bytes


class ConfigNotJson(HubError):
    """A file is not a JSON object."""

    def __init__(self, model_id: str, file: str, reason: str) -> None:
        super().__init__(model_id, f"{file} of {model_id} is not a JSON object: {reason}")
        self.file = file


class ConfigTooDeep(HubError):
    """A file has more levels, or more objects and arrays, than the limit, which is above any real config."""

    def __init__(self, model_id: str, file: str, limit: int) -> None:
        super().__init__(model_id, f"{file} of {model_id} has more than {limit} levels, or too many values")
        self.file = file
        self.limit = limit


class HubUnreachable(HubError):
    """The Hub could not be reached, or its response is not usable.

    Attributes:
        status: the HTTP status of the response; None if there was no response.
        retry_after: seconds after which a retry makes sense; None if unknown.
    """

    is_outage = True

    def __init__(
        self,
        model_id: str,
        reason: str,
        *,
        status: int | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(model_id, f"the Hub gave no usable response for {model_id}: {reason}")
        self.status = status
        self.retry_after = retry_after


class HubRateLimited(HubError):
    """The Hub's quota for this service's token, or for the caller's own, is used up.

    Attributes:
        retry_after: seconds until requests are sent to the Hub again.
    """

    is_outage = True

    def __init__(self, model_id: str, retry_after: int) -> None:
        super().__init__(
            model_id, f"the Hub's rate limit is reached; request {model_id} again in {retry_after} s"
        )
        self.retry_after = retry_after


class HubTimedOut(HubError):
    """The Hub did not answer in time."""

    is_outage = True

    def __init__(self, model_id: str) -> None:
        super().__init__(model_id, f"the Hub did not answer for {model_id} in time")
