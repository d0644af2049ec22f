"""`rapt serve`: a reference provider on this machine's loopback, for privatized words alone."""

from __future__ import annotations

import asyncio
from pathlib import Path

from fastapi import FastAPI, Request
from pydantic import TypeAdapter
from starlette.concurrency import run_in_threadpool

from rapt.kinds import KINDS
from rapt.kinds.messages import Answers
from rapt.serving import loopback
from rapt.serving.loopback import HOST, say
from rapt.serving.protocol import BYTES, Provider, Query, read, served_kind
from rapt.tuning.inference_spec import Contract
from rapt.utils.errors import RaptError

QUERY = TypeAdapter(Query)


def serve(folder: Path, port: int) -> None:
    """Serve the adapter in `folder` at a port of 127.0.0.1, 0 for a free one, until interrupted."""
    with loopback.listening(port) as listener:  # before the model, whose import takes seconds
        from rapt.serving.model import Adapted

        app = application(Adapted(folder))
        say(
            f"rapt serve: {folder} at http://{HOST}:{listener.getsockname()[1]}, privatized words "
            "alone; Ctrl+C ends it"
        )
        loopback.run(app, listener)


def application(model: Provider) -> FastAPI:
    """The server of a model: `GET /` says what texts must be like, `POST` answers.

    The answer is at the path of the kind of task: `/predict`, or `/write` of a model that writes.
    """
    kind = served_kind(model.contract)
    others = {other.path for other in KINDS.data.values()} - {kind.path}
    app = loopback.application("/", kind.path, *sorted(others))
    turn = asyncio.Lock()  # one query is computed at a time, whatever memory many would take

    @app.get("/")
    async def describe() -> Contract:
        return model.contract

    @app.post(kind.path, response_model=kind.answers)
    async def answer(request: Request) -> Answers:
        # Not by FastAPI, which knows no limit, and no strict types where bytes come as base64.
        texts = read(QUERY, await loopback.body(request, BYTES), "body").texts
        async with turn:
            rows = await run_in_threadpool(model.answer, texts)
        return kind.answers.of(model.contract.labels, rows)

    async def refuse(request: Request) -> None:
        raise RaptError(
            f"texts: got a request at {request.url.path}, expected one at {kind.path}, where this "
            f"model answers. Ask {kind.path}."
        )

    for path in others:
        app.post(path)(refuse)
    return app
