import base64
import http.client
import json
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rapt.serving.client import Remote
from rapt.serving.loopback import listening
from rapt.serving.model import Adapted
from rapt.serving.protocol import BYTES, TEXTS, Text
from tests.conftest import ROOT
from tests.serving.conftest import PLAIN, Served
from tests.test_pipeline import imported

TEXT = {"words": ["good", "film"], "segment": [0, 0], "plain": PLAIN}


def ask(served: Served, method: str, path: str, body: bytes = b"", **headers: str) -> Any:
    """The status and the JSON of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", served.port)
    connection.request(method, path, body, headers)
    response = connection.getresponse()
    content = response.read()
    connection.close()
    return response.status, json.loads(content)


def post(served: Served, texts: Any) -> Any:
    return ask(served, "POST", "/predict", json.dumps({"texts": texts}).encode())


def test_over_http_as_here(served: Served, model: Adapted) -> None:
    texts = [Text(**TEXT), Text(words=["bad"], segment=[0], plain=["film"] * 3)]
    texts.append(Text(words=[], segment=[], plain=PLAIN))
    remote = Remote(served.url + "/")
    assert remote.contract == model.contract
    here = model.answer(texts)
    assert remote.answer(texts) == here
    assert here[0] != here[1]
    assert [sum(row) for row in here] == pytest.approx([1] * 3)


@pytest.mark.parametrize(
    ("texts", "line"),
    [
        ([], "body: texts: got an invalid value, expected at least 1 item"),
        (
            [TEXT] * (TEXTS + 1),
            f"body: texts: got an invalid value, expected at most {TEXTS} items",
        ),
        ("Zanzibar", "body: texts: got an invalid value, expected a valid array"),
        (
            [TEXT | {"words": [1]}],
            "body: texts.0.words.0: got an invalid value, expected a valid string",
        ),
        (
            [TEXT | {"segment": [0, -1]}],
            "body: texts.0.segment.1: got an invalid value, expected greater than or equal to 0",
        ),
        ([TEXT | {"text": "Zanzibar"}], "body: texts.0: got an unknown field, expected no others."),
        ([TEXT, TEXT | {"segment": [0]}], "texts.1.segment: got 1, expected one entry for each"),
        ([TEXT | {"segment": [0, 1]}], "texts.0.segment: got segment 1, expected none above 0."),
        ([TEXT | {"plain": []}], "texts.0.plain: got 0, expected 3."),
        ([TEXT | {"vectors": "AAAA"}], "texts.0.vectors: got some, expected none: words alone."),
        (
            [TEXT | {"words": ["Zanzibar"] * 9, "segment": [0] * 9}],
            "texts.0.words: got 9, expected at most 8 of a segment.",
        ),
    ],
)
def test_what_is_not_allowed_is_one_line_of_json(served: Served, texts: Any, line: str) -> None:
    status, content = post(served, texts)
    assert status == 400
    assert list(content) == ["error"]
    assert content["error"].startswith(line)
    assert "\n" not in content["error"]
    assert "Zanzibar" not in content["error"]


def test_vectors_over_http_as_here(of_vectors: Path) -> None:
    """In either alphabet of base64."""
    model = Adapted(of_vectors)
    with Served(model) as served:
        rng = np.random.default_rng(0)
        numbers = [rng.standard_normal((n, 8)).astype("<f4").tobytes() for n in (2, 3, 0, 2)]
        texts = [
            Text(words=["film"] * n, segment=[0] * n, plain=[], vectors=given)
            for n, given in zip((2, 3, 0, 2), numbers, strict=True)
        ]
        here = model.answer(texts)
        assert Remote(served.url).answer(texts) == here
        assert len({tuple(row) for row in here}) == 4
        alone = [model.answer([text])[0] for text in texts]
        assert here == [pytest.approx(row, abs=1e-6) for row in alone]
        body = {"words": ["film"] * 3, "segment": [0] * 3, "plain": []}
        given = base64.b64encode(numbers[1]).decode()
        status, content = post(served, [body | {"vectors": given}])
        assert (status, content["probabilities"][0]) == (200, alone[1])
        for vectors, line in {
            None: "texts.0.vectors: got none, expected one for each word.",
            given[:-8]: "texts.0.vectors: got 90 bytes, expected 96, 8 float32 for each word.",
            "A+_": "body: texts.0.vectors: got an invalid value, expected valid base64",
            base64.b64encode(
                b"\xff" * 96
            ).decode(): "texts: got vectors with a number that is not fin",
        }.items():
            status, content = post(served, [body | {"vectors": vectors}])
            assert (status, content["error"][: len(line)]) == (400, line)


@pytest.mark.parametrize(
    ("args", "status", "line"),
    [
        (("POST", "/predict", b'{"texts": ['), 400, "body: got what is not JSON, expected JSON."),
        (("POST", "/predict", b"\xff"), 400, "body: got what is not JSON, expected JSON."),
        (("POST", "/predict", b"[" * 100_000), 400, "body: got what is not JSON, expected JSON."),
        (
            ("POST", "/predict", b" " * (BYTES + 1)),
            413,
            f"body: got {BYTES + 1} bytes, expected at most {BYTES}.",
        ),
        (("GET", "/predict"), 405, "Method Not Allowed"),
        (("GET", "/docs"), 404, "Not Found"),
    ],
)
def test_other_bodies_and_addresses(
    served: Served, args: tuple[Any, ...], status: int, line: str
) -> None:
    assert ask(served, *args) == (status, {"error": line})


def test_only_this_machine_reaches_it(served: Served) -> None:
    with listening(0) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.2", served.port), timeout=5)
    # A page of another site that had its name point here.
    status, content = ask(served, "GET", "/", Host="site.example")
    assert (status, list(content)) == (400, ["error"])


def test_its_log_holds_nothing_of_a_request(
    model: Adapted, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(texts: list[Text]) -> list[list[float]]:
        raise IndexError(texts[0].words[0])

    with Served(model) as served:
        assert post(served, [TEXT | {"words": ["Zanzibar", "film"]}])[0] == 200
        ask(served, "GET", "/Zanzibar?Zanzibar")
        ask(served, "POST", "/predict", b"Zanzibar", Zanzibar="Zanzibar")
        monkeypatch.setattr(model, "answer", fails)
        status, content = post(served, [TEXT | {"words": ["Zanzibar", "film"]}])
        assert (status, content["error"]) == (500, "the model failed on this query")
    said = "".join(capfd.readouterr())
    assert said.splitlines() == [
        "POST /predict 200",
        "GET (elsewhere) 404",
        "POST /predict 400",
        "the model failed: IndexError",
        "POST /predict 500",
    ]


def test_the_provider_reads_no_text() -> None:
    """It knows the units of a release, which read tables of them and nothing else.

    Training at home asks the rules of detectors, which read no file.
    """
    units = {Path("rapt/privacy/__init__.py"), Path("rapt/privacy/released.py")}
    reads = set.union(*map(imported, units)) - units
    assert {module.parts[:2] for module in reads} == {("rapt", "utils")}
    rules = {Path("rapt/text/__init__.py"), Path("rapt/text/detectors.py")}
    for module in imported(Path("rapt/serving/server.py")) - units - rules:
        assert module.parts[:2] not in {
            ("rapt", part) for part in ("data", "text", "privacy", "release", "attacks")
        }, module
    assert (ROOT / "rapt/serving/server.py").is_file()
