"""The page of `rapt try`: what it answers, to whom, and what it leaves behind."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from rapt.paths import TAGGER
from rapt.release.ledger import Ledger
from rapt.serving.trial import BYTES, CHARACTERS, METHODS, application, page
from tests.release.conftest import folder as folder

TEXT = "Bob met Alice at 7, very slow and very unbelievabubble."
OWN = "http://127.0.0.1:8123"


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[TestClient]:
    with TestClient(application(folder, TAGGER), base_url=OWN) as client:
        yield client


def wish(**changes: Any) -> dict[str, Any]:
    return {"text": TEXT, "method": "pct2t", "level": 75} | changes


def test_each_word_has_its_fate_and_the_attackers_guesses(client: TestClient) -> None:
    answer = client.post("/try", json=wish())
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    content = answer.json()
    fates = {one["word"]: one["fate"] for one in content["words"]}
    assert fates["Bob"] == fates["unbelievabubble"] == "noise"
    assert (fates["7"], fates["very"]) == ("placeholder", "as it is")
    assert content["released"].split() == [one["released"] for one in content["words"]]
    assert "pct2t at eta" in content["statement"]
    assert content["replaced"]["value"] == pytest.approx(0.75, abs=0.05)
    for one in content["words"]:
        shares = [share for _, share in one["guesses"]]
        assert bool(shares) == (one["fate"] == "noise")
        assert shares == sorted(shares, reverse=True)
        assert sum(shares) <= 1 + 1e-9
        if shares:
            assert one["read"] == (one["guesses"][0][0] == one["word"].lower())
            assert one["sure"] <= max(shares) + 1e-9
    (unknown,) = (one for one in content["words"] if one["word"] == "unbelievabubble")
    assert (unknown["sure"], unknown["read"]) == (0, False)


def test_the_page_offers_these_methods_and_loads_nothing_else(client: TestClient) -> None:
    answer = client.get("/")
    assert re.findall(r'<option value="([^"]*)"', answer.text) == list(METHODS)
    assert f'maxlength="{CHARACTERS}"' in answer.text
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy and "http" not in policy
    assert "report.css" not in page()[0]
    assert not re.findall(r"(?:src|href)=|@import|url\(", answer.text)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("text", ["", "...", TEXT])
def test_every_method_takes_every_text(client: TestClient, method: str, text: str) -> None:
    answer = client.post("/try", json=wish(method=method, text=text, level=40))
    assert answer.status_code == 200, answer.text


def test_nothing_is_stored_and_nothing_logged(
    client: TestClient, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    before = sorted(tmp_path.parent.rglob("*"))
    client.post("/try", json=wish())
    assert Ledger().total() == (0, 0, 0)
    assert sorted(tmp_path.parent.rglob("*")) == before
    assert "".join(capfd.readouterr()) == "POST /try 200\n"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "site.example"}, 400),
        ({"Origin": "http://site.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:9999"}, 403),
        ({"Origin": OWN}, 200),
    ],
)
def test_no_other_site_is_answered(
    client: TestClient, headers: dict[str, str], status: int
) -> None:
    answer = client.post("/try", json=wish(text="."), headers=headers)
    assert answer.status_code == status
    assert ("error" in answer.json()) == (status != 200)


@pytest.mark.parametrize(
    ("changes", "status", "line"),
    [
        ({"method": "t3t"}, 400, "method: got 't3t', expected one of"),
        ({"level": 99}, 400, "body: level: got"),
        ({"text": "a" * (CHARACTERS + 1)}, 400, "body: text: got"),
        ({"text": "a" * BYTES}, 413, "body: got"),
        ({"more": 1}, 400, "body: got an unknown field"),
    ],
)
def test_a_mistake_is_one_line(
    client: TestClient, changes: dict[str, Any], status: int, line: str
) -> None:
    answer = client.post("/try", json=wish(**changes))
    assert answer.status_code == status
    assert answer.json()["error"].startswith(line)
    assert "\n" not in answer.json()["error"]
