"""Finds every route below `/v1` too."""

from starlette.types import ASGIApp, Receive, Scope, Send

from service.api.responses import VERSION_PREFIX


class VersionedPaths:
    """Takes the version off a path before routes are compared with it; the request keeps its address.

    The routes exist once, so that no request is compared with more of them.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; routes are looked for behind `root_path` (ASGI, HTTP connection scope)."""
        if scope["type"] == "http":
            root = scope.get("root_path", "")
            if scope["path"].startswith(f"{root}{VERSION_PREFIX}/"):
                scope["root_path"] = f"{root}{VERSION_PREFIX}"
        await self._app(scope, receive, send)
