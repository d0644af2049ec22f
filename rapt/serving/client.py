"""HTTP client of a remote provider; only privatized texts are sent."""

from __future__ import annotations

import http.client
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import TypeAdapter

from rapt.serving.protocol import (
    BYTES,
    Provider,
    Query,
    Text,
    read,
    read_contract,
    served_kind,
)
from rapt.utils.errors import RaptError

SECONDS = 300  # to wait for an answer: a text is written word by word
SCHEMES = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}


def is_url(adapter: str) -> bool:
    """Whether an adapter is given by the address of its server."""
    return adapter.startswith(tuple(f"{scheme}://" for scheme in SCHEMES))


def opened(adapter: str) -> Provider:
    """Open the adapter in a folder or behind a URL."""
    if is_url(adapter):
        return Remote(adapter)
    from rapt.serving.model import Adapted  # torch, which only a local model needs

    return Adapted(Path(adapter))


class Remote:
    """A model behind `rapt serve` or a compatible server.

    Without proxies and redirections, queries go only to the given address.
    """

    def __init__(self, url: str) -> None:
        """Request the contract."""
        self._url = url.rstrip("/")
        self.contract = read_contract(self._ask("GET", "/"), f"adapter {self._url}")

    def answer(self, texts: list[Text]) -> Sequence[Any]:
        """Request the answer to each text, as the kind of task has it.

        Raises:
            RaptError: the server refuses, is gone, or sends an invalid answer.
        """
        kind, where = served_kind(self.contract), f"adapter {self._url}"
        body = Query(texts=texts).model_dump_json(exclude_none=True).encode()
        message = read(TypeAdapter(kind.answers), self._ask("POST", kind.path, body), where)
        rows = message.rows(self.contract.labels)
        if rows is None or len(rows) != len(texts):
            raise RaptError(
                f"{where}: got an answer for other texts or labels, expected one for these. Check "
                "the server."
            )
        return rows

    def _ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        try:
            parts = urlsplit(self._url)
            connection = SCHEMES[parts.scheme](parts.hostname or "", parts.port, timeout=SECONDS)
            try:
                kind = {"Content-Type": "application/json"} if body else {}
                connection.request(method, parts.path + path, body, kind)
                response = connection.getresponse()
                content = response.read(BYTES + 1)
            finally:
                connection.close()
        except (OSError, ValueError, http.client.HTTPException) as error:
            reason = getattr(error, "strerror", None) or type(error).__name__
            raise RaptError(
                f"adapter {self._url}: got no answer ({reason}), expected `rapt serve` there. "
                "Start it, or correct the address."
            ) from None
        if response.status != 200 or len(content) > BYTES:
            refusal = _refusal(response.status, content)
            raise RaptError(f"adapter {self._url}: got status {refusal}, expected 200.")
        return content


def _refusal(status: int, content: bytes) -> str:
    """Format a server's refusal as one short line, without unprintable characters."""
    try:
        line = str(json.loads(content)["error"])
    except (ValueError, KeyError, TypeError, RecursionError):
        line = "not from `rapt serve`"
    return f"{status} ({line[:200] if line.isprintable() else '…'})"
