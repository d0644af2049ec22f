"""Texts written by a served model for `rapt predict`, whose entities the user puts back."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from rapt.serving.model import Adapted
from rapt.serving.protocol import Text, check
from rapt.tuning.config import Decoding
from rapt.tuning.inference_spec import Contract
from rapt.utils.errors import RaptError
from tests.serving.conftest import Served, tuned, write_gpt2, write_release
from tests.serving.test_predict import Rapt, repeater
from tests.serving.test_predict import rapt as rapt
from tests.serving.test_server import ask

SOURCES = ["Bob | likes | Alice", "Alice | met | Paris", "story | in | Paris"] * 3


@pytest.fixture(scope="session")
def writes(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Path:
    """An adapter that was tuned to write."""
    root = tmp_path_factory.mktemp("texts")
    write_gpt2(root / "gpt2")
    more = {"kind": "generate", "protect": "entities", "labels": None}
    train = {
        "words": [["film", "plot", "film", "."]] * 8,
        "segment": [[0, 0, 1, 1]] * 8,
        "space_after": [[True] * 4] * 8,
    }
    write_release(root / "release", folder, train, train | {"segment": [[0] * 4] * 8}, **more)
    # A hundred tokens, the default, would leave a text of the tiny model no room.
    few = Decoding(beams=2, max_new_tokens=5)
    return tuned(root / "release", root / "gpt2", max_tokens=40, decoding=few)


class Echo:
    """A provider that writes what it was sent."""

    def __init__(self, contract: Contract) -> None:
        self.contract, self.sent = contract, list[Text]()

    def answer(self, texts: list[Text]) -> list[str]:
        check(texts, self.contract)
        self.sent += texts
        return [" ".join(text.words).capitalize() for text in texts]


@pytest.fixture
def echo(writes: Path) -> Iterator[tuple[Echo, Served]]:
    provider = Echo(Adapted(writes).contract)
    with Served(provider) as served:
        yield provider, served


def test_three_triples_go_and_come_back(
    echo: tuple[Echo, Served], rapt: Rapt, tmp_path: Path
) -> None:
    provider, served = echo
    (tmp_path / "sources.txt").write_text("\n".join(SOURCES) + "\n")
    done = rapt("--adapter", served.url, "sources.txt", "--json", "--show")
    assert done.error == ""
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    sent = [line["sent"]["words"] for line in lines]
    assert sent == [text.words for text in provider.sent]
    assert [line["received"] for line in lines] == [" ".join(words).capitalize() for words in sent]
    # Two entities of one source may become one word, of eight: not so all nine times (1e-6).
    distinct = [n for n, words in enumerate(sent) if words[0] != words[4]]
    assert [lines[n]["text"] for n in distinct] == [SOURCES[n] for n in distinct] != []
    for source, words in zip(SOURCES, sent, strict=True):
        assert words[1:4] == source.split()[1:4]
    assert sent != [source.split() for source in SOURCES]
    for name in (b"Bob", b"Alice", b"Paris"):
        assert name not in served.received


def test_triples_in_webnlgs_own_spelling_are_read_as_in_tuning(
    echo: tuple[Echo, Served], rapt: Rapt
) -> None:
    provider, served = echo
    done = rapt("--adapter", served.url, 'Bob_Dylan | "has"_met | "Alice_Munro"')
    assert done.error == ""
    (text,) = provider.sent
    assert text.words[2:6] == ["|", "has", "met", "|"]
    assert len(text.words) == 8
    assert not {"_", '"'} & set("".join(text.words))
    assert " of entities): of 8 words " in done.stderr


def test_a_served_model_and_a_local_one_write_the_same(writes: Path, rapt: Rapt) -> None:
    with Served(Adapted(writes)) as served:
        asked = ("film plot", "--eta", "inf")
        there, here = (rapt("--adapter", at, *asked) for at in (served.url, writes))
        assert there.error == here.error == ""
        assert there.stdout == here.stdout
        assert b'"space_after":[true,false]' in served.received


def test_a_model_says_by_which_path_it_is_asked(writes: Path, model: Adapted) -> None:
    for one, other, own in ((Adapted(writes), "/predict", "/write"), (model, "/write", "/predict")):
        with Served(one) as served:
            status, content = ask(served, "POST", other, b"{}")
        assert status == 400
        line = f"texts: got a request at {other}, expected one at {own}, where"
        assert content["error"].startswith(line)


def test_spacing_is_told_to_a_model_that_writes_alone(writes: Path, model: Adapted) -> None:
    contract = Adapted(writes).contract
    words = {"words": ["film"], "segment": [0], "plain": []}
    check([Text(**words, space_after=[False])], contract)
    for spaces, got in ((None, "none"), ([True, True], "2")):
        with pytest.raises(RaptError, match=rf"space_after: got {got}, expected one entry for eac"):
            check([Text(**words, space_after=spaces)], contract)
    with pytest.raises(RaptError, match=r"space_after: got 1, expected none"):
        check([Text(**words, space_after=[True])], replace(model.contract, plain=[]))


def test_what_is_written_is_not_combined(writes: Path, rapt: Rapt, tmp_path: Path) -> None:
    own = writes.parents[1] / "release"
    done = rapt("--adapter", writes, SOURCES[0], "--combine", tmp_path, "--release", own)
    assert done.error == "combine: got rows with an adapter of kind generate, expected none."


@pytest.mark.parametrize("text", ["Ann has diabetes", "Ann|has|diabetes", "Ann | has diabetes"])
def test_a_text_that_is_not_all_triples_is_not_sent(
    echo: tuple[Echo, Served], rapt: Rapt, text: str
) -> None:
    """Its words would stay in clear, as entities alone are protected."""
    provider, served = echo
    done = rapt("--adapter", served.url, text)
    assert done.error.startswith("text 1: got a text that is not all triples, expected SUBJECT")
    assert "Ann" not in done.error
    assert provider.sent == []
    assert b"diabetes" not in served.received


def test_a_written_text_is_one_line_of_a_terminal(
    echo: tuple[Echo, Served], rapt: Rapt, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider, served = echo
    monkeypatch.setattr(
        provider, "answer", lambda texts: ["\x1b]0;pwn\x07one\nsecond"] * len(texts)
    )
    done = rapt("--adapter", served.url, SOURCES[0])
    assert done.stdout == "]0;pwn one second\n"


def test_words_that_say_little_are_not_put_back(writes: Path, folder: Path) -> None:
    """The tagger has to tell them, whatever the mechanism's categories are."""
    contract = Adapted(writes).contract
    told = replace(contract.statement, mechanism="t2t", categories=None)
    privatize = repeater(replace(contract, statement=told), folder)
    privatize([["School of Arts | city | Paris"]])
    (secret,) = privatize.maps
    assert not any("of" in originals for originals in secret.originals.values())
