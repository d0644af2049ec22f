"""`rapt serve`: a reference provider on this machine's loopback, for privatized words alone."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from fastapi import FastAPI, HTTPException, Request
from pydantic import TypeAdapter
from starlette.concurrency import run_in_threadpool

from rapt.kinds import KINDS
from rapt.kinds.messages import Answers
from rapt.serving import loopback
from rapt.serving.budget import BudgetSpent
from rapt.serving.loopback import HOST, say
from rapt.serving.protocol import BYTES, Provider, Query, read, served_kind
from rapt.tuning.inference_spec import Contract
from rapt.utils.errors import RaptError

if TYPE_CHECKING:
    from rapt.serving.private_prediction import PrivatePrediction

QUERY = TypeAdapter(Query)


def serve(folder: Path, port: int, private: PrivatePrediction | None = None) -> None:
    """Serve the adapter in `folder` at a port of 127.0.0.1, 0 for a free one, until interrupted.

    With private prediction the folder is that of a cell, whose seeds are the teachers.
    """
    with loopback.listening(port) as listener:  # before the model, whose import takes seconds
        app = application(_loaded(folder, private))
        say(
            f"rapt serve: {folder} at http://{HOST}:{listener.getsockname()[1]}, privatized words "
            "alone; Ctrl+C ends it"
        )
        loopback.run(app, listener)


def _loaded(folder: Path, private: PrivatePrediction | None) -> Provider:
    if private:
        from rapt.serving.private_prediction import teachers

        return teachers(folder, private)
    from rapt.serving.model import Adapted

    return Adapted(folder)


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
        try:
            async with turn:
                rows = await run_in_threadpool(model.answer, texts)
        except BudgetSpent as error:
            raise HTTPException(403, str(error)) from None
        return kind.answers.of(model.contract.labels, rows)

    async def refuse(request: Request) -> None:
        raise RaptError(
            f"texts: got a request at {request.url.path}, expected one at {kind.path}, where this "
            f"model answers. Ask {kind.path}."
        )

    for path in others:
        app.post(path)(refuse)
    return app
