"""`rapt try`: a page on this machine's loopback that privatizes a text and attacks it.

Nothing is stored, and the ledger counts nothing: what the page shows stays on this machine.
"""

from __future__ import annotations

import asyncio
import re
from base64 import b64encode
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse
from pydantic import Field, TypeAdapter
from starlette.concurrency import run_in_threadpool

from rapt.measures.statement import plain_words
from rapt.privacy.fates import NOISE, PLACEHOLDER
from rapt.release.text import TextPrivatizer
from rapt.release.trial import Trial, Tried, at_level, tried
from rapt.serving import loopback
from rapt.serving.loopback import HOST, say
from rapt.serving.protocol import Message, read
from rapt.utils.errors import RaptError, not_allowed

CHARACTERS, BYTES = 500, 1 << 13  # of a text, and of the body that holds it
# The page's choices: mechanism and categories.
METHODS: dict[str, dict[str, Any]] = {
    "t2t": {"mechanism": "t2t"},
    "pct2t": {"mechanism": "pct2t", "categories": ("paper",)},
    "pct2t-all": {"mechanism": "pct2t", "categories": ("all",)},
    "santext": {"mechanism": "santext"},
}


class Wish(Message):
    """A text to try, a method, and the percentage of words that become another."""

    text: Annotated[str, Field(max_length=CHARACTERS)]
    method: str
    level: Annotated[int, Field(ge=10, le=95)]


WISH = TypeAdapter(Wish)


def serve(table: Path, tagger: str, port: int) -> None:
    """Serve the page at a port of 127.0.0.1, 0 for a free one, until interrupted."""
    with loopback.listening(port) as listener:
        app = application(table, tagger)
        say(
            f"rapt try: open http://{HOST}:{listener.getsockname()[1]} in a browser on this "
            "machine; nothing is stored; Ctrl+C ends it"
        )
        loopback.run(app, listener)


def application(table: Path, tagger: str) -> FastAPI:
    """The page, and what it asks for: `GET /` and `POST /try`."""
    app = loopback.application("/", "/try")
    turn = asyncio.Lock()
    content, policy = page()

    @lru_cache(maxsize=8)
    def privatizer(method: str, level: int) -> TextPrivatizer:
        return at_level(level / 100, table=table, tagger=tagger, **METHODS[method])

    def answer(wish: Wish) -> dict[str, Any]:
        if wish.method not in METHODS:
            raise RaptError(not_allowed("method", wish.method, METHODS))
        return shown(tried(privatizer(wish.method, wish.level), wish.text))

    @app.get("/")
    async def show() -> Response:
        return HTMLResponse(content, headers=policy)

    @app.post("/try")
    async def attempt(request: Request, response: Response) -> dict[str, Any]:
        response.headers["Cache-Control"] = "no-store"
        wish = read(WISH, await loopback.body(request, BYTES), "body")
        async with turn:  # one at a time, whatever memory many would take
            return await run_in_threadpool(answer, wish)

    return app


def shown(trial: Trial) -> dict[str, Any]:
    """A trial as the page takes it."""
    return {
        "eta": trial.statement["eta"],
        "replaced": trial.statement["strength"],
        "released": trial.released,
        "statement": plain_words(trial.statement),
        "words": [_word(one) for one in trial.words],
    }


def _word(one: Tried) -> dict[str, Any]:
    fate = one.word.fate
    noisy, hidden = fate == NOISE, fate.startswith(PLACEHOLDER)
    return {
        "word": one.word.original,
        "released": one.word.released,
        "fate": "noise" if noisy else "placeholder" if hidden else "as it is",
        "guesses": one.guesses,
        "sure": one.sure,
        "read": one.read,
    }


def page() -> tuple[str, dict[str, str]]:
    """The page, in the report's style, and the headers that let it load nothing else."""
    style = files("rapt.reporting").joinpath("report.css").read_text()
    content = files("rapt.serving").joinpath("trial.html").read_text()
    content = content.replace("/* report.css */", style)
    allowed = {
        tag: " ".join(
            f"'sha256-{b64encode(sha256(own.encode()).digest()).decode()}'"
            for own in re.findall(rf"(?s)<{tag}>(.*?)</{tag}>", content)
        )
        for tag in ("style", "script")
    }
    policy = (
        f"default-src 'none'; style-src {allowed['style']}; script-src {allowed['script']}; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return content, {
        "Content-Security-Policy": policy,
        "Cache-Control": "no-store",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }
