"""Refuses requests from web pages of other sites, unless the site is allowed."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send


class OriginCheck:
    """Refuses requests whose header Origin is neither this server nor allowed.

    Browsers send the header with requests of scripts and forms of other sites. Without this check,
    any page that is open in a user's browser could search a server inside the user's network.

    Args:
        app: answers the other requests.
        origins: allowed origins, such as `https://shop.example`; `*` for any.
    """

    def __init__(self, app: ASGIApp, origins: Sequence[str] = ()) -> None:
        self._app, self._origins = app, {*origins}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request, or refuses it."""
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        # Only the host is compared, because a proxy may speak https.
        is_same_site = origin is None or origin.partition("://")[2] == headers.get("host")
        if is_same_site or "*" in self._origins or origin in self._origins:
            await self._app(scope, receive, send)
        else:
            message = (
                f"origin {origin!r:.100} is not allowed; start the server with --allow-origin."
            )
            await JSONResponse({"error": message}, 403)(scope, receive, send)
