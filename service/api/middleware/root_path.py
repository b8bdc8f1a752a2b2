"""Takes the prefix of a proxy off the paths of requests, where the proxy left it."""

from starlette.types import ASGIApp, Receive, Scope, Send


class RootPath:
    """Makes paths the same whether a proxy in front takes its prefix off or not."""

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self._app = app
        self._prefix = prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on without the prefix."""
        if scope["type"] == "http" and scope["path"].startswith(f"{self._prefix}/"):
            scope = {**scope, "path": scope["path"].removeprefix(self._prefix)}
            raw = scope.get("raw_path")
            if raw is not None:
                scope["raw_path"] = raw.removeprefix(self._prefix.encode())
        await self._app(scope, receive, send)
