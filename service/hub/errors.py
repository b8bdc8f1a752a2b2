"""Why a model's config could not be had.

One tree, so that a caller may treat the whole of it (`HubError`) or one cause. No message holds a header, a
token, or text that a server chose.
"""

_QUOTED_CHARACTERS = 100


def _quoted(text: str) -> str:
    """Show a caller's text in ASCII and bounded, so that it cannot forge a line of a log."""
    return ascii(text[:_QUOTED_CHARACTERS])


class HubError(Exception):
    """A model's config could not be had.

    Attributes:
        model_id: the id that was asked for.
        nearest: ids of bundled models that are spelt alike, best first.
    """

    def __init__(self, model_id: str, reason: str) -> None:
        super().__init__(reason)
        self.model_id = model_id
        self.nearest: tuple[str, ...] = ()


class InvalidModelId(HubError):
    """The id is none that the Hub could hold; nothing was requested."""

    def __init__(self, model_id: str, reason: str) -> None:
        super().__init__(model_id, f"{_quoted(model_id)} is not a model id: {reason}")


class InvalidHubToken(HubError):
    """A caller's own token is none that the Hub could have issued; nothing was requested."""

    def __init__(self) -> None:
        super().__init__("", "this is not an access token: up to 512 letters, digits or any of . _ ~ + / = -")


class HubTokenRefused(HubError):
    """The Hub does not accept the token that a caller sent along, or not for this."""

    def __init__(self, model_id: str) -> None:
        super().__init__(model_id, f"the Hub does not accept the token sent along to ask for {model_id}")


class InvalidRevision(HubError):
    """The revision is no branch, tag or commit that the Hub could hold; nothing was requested."""

    def __init__(self, model_id: str, revision: str) -> None:
        super().__init__(
            model_id,
            f"{_quoted(revision)} is not a revision: give a branch, a tag or a commit, up to 128 letters, "
            "digits or any of . _ - /, without '..' or '//'",
        )
        self.revision = revision


class ModelNotFound(HubError):
    """No such model, or a private one that this service may not see.

    Attributes:
        named: whether the answer said so itself; not, where only its status did.
    """

    def __init__(self, model_id: str, reason: str | None = None, *, named: bool = True) -> None:
        super().__init__(model_id, reason or f"the Hub shows this service no model {model_id}")
        self.named = named


class ConfigNotFound(ModelNotFound):
    """The model exists but its repository holds no such file."""

    def __init__(self, model_id: str, file: str, remark: str = "") -> None:
        super().__init__(model_id, f"the repository of {model_id} holds no {file}{remark}")
        self.file = file


class NotATextModel(HubError):
    """The model exists, but it is of a kind that no engine of text serves."""

    def __init__(self, model_id: str, task: str | None) -> None:
        kind = "is a pipeline of another library" if task is None else f"is for {task}"
        super().__init__(model_id, f"{model_id} {kind}, not a model that the engine generates text with")


class ModelGated(HubError):
    """The model's owner must grant access first.

    Attributes:
        access_url: the page on which access is requested.
    """

    def __init__(self, model_id: str, access_url: str) -> None:
        super().__init__(
            model_id,
            f"{model_id} is gated: request access at {access_url} and send the token of an account that has "
            "it along, or run this service with it, or send the config.json inline",
        )
        self.access_url = access_url


class RevisionNotFound(HubError):
    """The model exists but has no such branch, tag or commit."""

    def __init__(self, model_id: str, revision: str, reason: str | None = None) -> None:
        super().__init__(model_id, reason or f"{model_id} has no revision {revision}")
        self.revision = revision


class ConfigTooLarge(HubError):
    """A file is longer than any config is; it was not read to its end."""

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
    """A file nests deeper than any config does, or has more objects and arrays."""

    def __init__(self, model_id: str, file: str, limit: int) -> None:
        super().__init__(model_id, f"{file} of {model_id} nests more than {limit} levels deep, or too widely")
        self.file = file
        self.limit = limit


class HubUnreachable(HubError):
    """The Hub could not be reached or gave no usable answer.

    Attributes:
        status: the HTTP status of the unusable answer; None when there was no answer at all.
        retry_after: seconds after which asking again makes sense; None when unknown.
    """

    def __init__(
        self,
        model_id: str,
        reason: str,
        *,
        status: int | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(model_id, f"the Hub gave no usable answer for {model_id}: {reason}")
        self.status = status
        self.retry_after = retry_after


class HubRateLimited(HubError):
    """The Hub's quota for this service, or for the caller's own token, is used up.

    Attributes:
        retry_after: seconds until the Hub is asked again.
    """

    def __init__(self, model_id: str, retry_after: int) -> None:
        super().__init__(
            model_id, f"the Hub's rate limit is reached; ask for {model_id} again in {retry_after} s"
        )
        self.retry_after = retry_after


class HubTimedOut(HubError):
    """The Hub did not answer in time."""

    def __init__(self, model_id: str) -> None:
        super().__init__(model_id, f"the Hub did not answer for {model_id} in time")
