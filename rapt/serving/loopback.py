"""A server on this machine's loopback alone, which no other site's page can use."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Awaitable, Callable

import uvicorn
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException as HTTPError

from rapt.utils.errors import RaptError, one_of

HOST = "127.0.0.1"
NAMES = (HOST, "localhost")  # as which a request may address it: no other site's page may


def listening(port: int) -> socket.socket:
    """A socket that listens on this machine's loopback alone."""
    try:
        return socket.create_server((HOST, port))
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise RaptError(
            f"port: got {port} ({reason}), expected a free one. Give another, or 0 for any."
        ) from None


def run(app: FastAPI, listener: socket.socket) -> None:
    """Serve an application until interrupted."""
    # uvicorn's own access log would hold the whole address, whatever a client put into it.
    config = uvicorn.Config(app, access_log=False, log_level="warning", lifespan="off")
    uvicorn.Server(config).run(sockets=[listener])


def application(*paths: str) -> FastAPI:
    """An application without routes, whose errors are one line of JSON.

    Args:
        paths: that its log may name.
    """
    app = FastAPI(openapi_url=None)

    @app.middleware("http")
    async def guard(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
        response = await _guarded(request, answer)
        path = request.url.path if request.url.path in paths else "(elsewhere)"
        say(f"{request.method} {path} {response.status_code}")
        return response

    @app.exception_handler(HTTPError)
    async def refused(_: Request, error: HTTPError) -> Response:
        return _error(error.status_code, error.detail)

    @app.exception_handler(RaptError)
    async def mendable(_: Request, error: RaptError) -> Response:
        return _error(400, str(error))

    return app


async def body(request: Request, most: int) -> bytes:
    """The body; one that is too long is read to its end, so that its sender hears why, not kept."""
    kept, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size <= most:
            kept.append(chunk)
    if size > most:
        raise HTTPException(413, f"body: got {size} bytes, expected at most {most}.")
    return b"".join(kept)


def say(line: str) -> None:
    """Write a line to the log."""
    print(line, file=sys.stderr, flush=True)


async def _guarded(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
    if request.url.hostname not in NAMES:
        return _error(400, f"host: got another name, expected {one_of(NAMES)}.")
    # A browser names the origin of each page that posts.
    if request.headers.get("origin", own := f"http://{request.headers.get('host')}") != own:
        return _error(403, "origin: got another site's, expected none or this server's.")
    try:
        return await answer(request)
    except Exception as error:  # whose message, or trace, might hold words
        say(f"the model failed: {type(error).__name__}")
        return _error(500, "the model failed on this query")


def _error(status: int, line: str) -> Response:
    return JSONResponse({"error": line}, status)
