"""`rapt serve`: a reference provider on this machine's loopback, for privatized words alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from fastapi import FastAPI, Request
from pydantic import TypeAdapter
from starlette.concurrency import run_in_threadpool

from rapt.serving import loopback
from rapt.serving.loopback import HOST, say
from rapt.serving.protocol import BYTES, Answer, Provider, Query, Text, Written, read
from rapt.tuning.inference_spec import Contract

QUERY = TypeAdapter(Query)
T = TypeVar("T")


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

    `/predict` answers with probabilities, and `/write` with texts if the model is of kind generate.
    """
    app = loopback.application("/", "/predict", "/write")
    turn = asyncio.Lock()  # one query is computed at a time, whatever memory many would take

    async def answered(request: Request, by: Callable[[list[Text]], T]) -> T:
        # Not by FastAPI, which knows no limit, and no strict types where bytes come as base64.
        texts = read(QUERY, await loopback.body(request, BYTES), "body").texts
        async with turn:
            return await run_in_threadpool(by, texts)

    @app.get("/")
    async def describe() -> Contract:
        return model.contract

    @app.post("/predict")
    async def predict(request: Request) -> Answer:
        probabilities = await answered(request, model.probabilities)
        return Answer(labels=model.contract.labels, probabilities=probabilities)

    @app.post("/write")
    async def write(request: Request) -> Written:
        return Written(texts=await answered(request, model.write))

    return app
