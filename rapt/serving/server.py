"""`rapt serve`: a reference provider on this machine's loopback, for privatized words alone."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvicorn
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse
from pydantic import TypeAdapter
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException as HTTPError

from rapt.serving.protocol import BYTES, Answer, Provider, Query, read
from rapt.tuning.inference_spec import Contract
from rapt.utils.errors import RaptError, one_of

HOST = "127.0.0.1"
NAMES = (HOST, "localhost")  # as which a request may address it: no other site's page may
QUERY = TypeAdapter(Query)


def serve(folder: Path, port: int) -> None:
    """Serve the adapter in `folder` at a port of 127.0.0.1, 0 for a free one, until interrupted."""
    with listening(port) as listener:  # before the model, whose import alone takes seconds
        from rapt.serving.model import Adapted

        app = application(Adapted(folder))
        _say(
            f"rapt serve: {folder} at http://{HOST}:{listener.getsockname()[1]}, privatized words "
            "alone; Ctrl+C ends it"
        )
        # Its own access log would hold whatever somebody put into an address.
        config = uvicorn.Config(app, access_log=False, log_level="warning", lifespan="off")
        uvicorn.Server(config).run(sockets=[listener])


def listening(port: int) -> socket.socket:
    """A socket that listens on this machine's loopback alone."""
    try:
        return socket.create_server((HOST, port))
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise RaptError(
            f"port: got {port} ({reason}), expected a free one. Give another, or 0 for any."
        ) from None


def application(model: Provider) -> FastAPI:
    """The server of a model: `GET /` says what texts must be like, `POST /predict` answers."""
    app = FastAPI(openapi_url=None)
    turn = asyncio.Lock()  # one query is computed at a time, whatever memory many would take

    @app.get("/")
    async def describe() -> Contract:
        return model.contract

    @app.post("/predict")
    async def predict(request: Request) -> Answer:
        # Not by FastAPI, which knows no limit, and no strict types where bytes come as base64.
        texts = read(QUERY, await _body(request), "body").texts
        async with turn:
            probabilities = await run_in_threadpool(model.probabilities, texts)
        return Answer(labels=model.contract.labels, probabilities=probabilities)

    @app.middleware("http")
    async def guard(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
        response = await _guarded(request, answer)
        path = request.url.path if request.url.path in ("/", "/predict") else "(elsewhere)"
        _say(f"{request.method} {path} {response.status_code}")
        return response

    @app.exception_handler(HTTPError)
    async def refused(_: Request, error: HTTPError) -> Response:
        return _error(error.status_code, error.detail)

    @app.exception_handler(RaptError)
    async def mendable(_: Request, error: RaptError) -> Response:
        return _error(400, str(error))

    return app


async def _guarded(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
    if request.url.hostname not in NAMES:
        return _error(400, f"host: got another name, expected {one_of(NAMES)}.")
    try:
        return await answer(request)
    except Exception as error:  # whose message, or trace, might hold words
        _say(f"the model failed: {type(error).__name__}")
        return _error(500, "the model failed on this query")


async def _body(request: Request) -> bytes:
    """The body; one that is too long is read to its end, so that its sender hears why, not kept."""
    body, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if size <= BYTES:
            body.append(chunk)
    if size > BYTES:
        raise HTTPException(413, f"body: got {size} bytes, expected at most {BYTES}.")
    return b"".join(body)


def _error(status: int, line: str) -> Response:
    return JSONResponse({"error": line}, status)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
