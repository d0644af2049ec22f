from pathlib import Path

import pyarrow as pa
import pytest
import torch
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from rapt.tuning.inputs import (
    NO_PLAIN,
    NO_ROW,
    Split,
    collate,
    pooled,
    pooled_plain,
    read_split,
    tokenized,
)
from rapt.utils import files


@pytest.fixture(scope="module")
def tokenizer(backbone: Path) -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(backbone)


def split_of(
    tmp_path: Path, tokenizer: PreTrainedTokenizerBase, max_tokens: int = 16, **columns: list
) -> Split:
    rows = len(columns["words"])
    columns.setdefault("segment", [[0] * len(words) for words in columns["words"]])
    columns.setdefault("label", [0] * rows)
    files.write_parquet(tmp_path / "split.parquet", pa.table(columns))
    return read_split(tmp_path / "split.parquet", tokenizer, max_tokens)


def test_each_token_knows_its_plain_word_or_the_text(
    tmp_path: Path, tokenizer: PreTrainedTokenizerBase
) -> None:
    split = split_of(tmp_path, tokenizer, words=[["so", "unlikely"]], plain=[["unlikely", "film"]])
    tokens = tokenizer.convert_ids_to_tokens(split.tokens[0])
    assert tokens == [
        "[CLS]",
        "un",
        "##like",
        "##ly",
        "film",
        "so",
        "un",
        "##like",
        "##ly",
        "[SEP]",
    ]
    assert split.plain[0] == [-1, 0, 0, 0, 1, -1, -1, -1, -1, -1]
    assert split.text[0] == [False] * 5 + [True] * 4 + [False]


def test_a_words_vector_takes_one_position(tokenizer: PreTrainedTokenizerBase) -> None:
    columns = {
        "words": [["so", "unlikely", "unlikely", "film", "good"], ["good"]],
        "segment": [[0, 0, 0, 1, 1], [0]],
        "row": [[NO_ROW, 2, 0, 1, NO_ROW], [NO_ROW]],
        "plain": [["unlikely"], ["film"]],
        "plain_row": [[1], [NO_ROW]],
        "label": [0, 0],
    }
    vectors = torch.arange(6.0).reshape(3, 2) + 1
    split = tokenized(columns, tokenizer, 16, vectors)
    begin, end, so, film, good = tokenizer.convert_tokens_to_ids(
        ["[CLS]", "[SEP]", "so", "film", "good"]
    )
    assert split.tokens == [[begin, -2, so, -3, -1, end, -2, good, end], [begin, film, good, end]]
    assert split.plain[0] == [-1, 0, -1, -1, -1, -1, -1, -1, -1]
    assert split.text[0] == [False, False, True, True, True, False, True, True, False]
    assert split.types[0] == [0] * 6 + [1] * 3
    batch = collate(split, [1, 0], 7)
    assert batch.vectors is not None
    given = torch.stack([vectors[r] for r in (1, 2, 0, 1)])
    torch.testing.assert_close(batch.vectors[1, [1, 3, 4, 6]], given)
    assert batch.vectors.sum() == given.sum()
    (cut, _) = tokenized(columns, tokenizer, 4, vectors).tokens  # two words of each half
    assert cut == [begin, -2, so, -3, end, -2, good, end]


def test_the_text_is_cut_to_whole_words_and_plain_words_never(
    tmp_path: Path, tokenizer: PreTrainedTokenizerBase
) -> None:
    plain = [["unlikely"] * 10]
    split = split_of(tmp_path, tokenizer, 4, words=[["so", "unlikely", "film", "so"]], plain=plain)
    assert sum(split.text[0]) == 4
    assert {p for p in split.plain[0] if p != NO_PLAIN} == set(range(10))
    split = split_of(tmp_path, tokenizer, 3, words=[["so", "unlikely", "film"]])
    assert tokenizer.convert_ids_to_tokens(split.tokens[0]) == ["[CLS]", "so", "[SEP]"]


def test_a_pair_keeps_its_segments_and_shares_the_room(
    tmp_path: Path, tokenizer: PreTrainedTokenizerBase
) -> None:
    words, segment = [["so"] * 9 + ["film"] * 2], [[0] * 9 + [1] * 2]
    split = split_of(tmp_path, tokenizer, 8, words=words, segment=segment, plain=[["plot"]])
    tokens = tokenizer.convert_ids_to_tokens(split.tokens[0])
    assert tokens == ["[CLS]", "plot", *["so"] * 6, "[SEP]", "film", "film", "[SEP]"]
    assert split.types[0] == [0] * 9 + [1] * 3
    assert [t for t, own in zip(tokens, split.text[0], strict=True) if own] == ["so"] * 6 + [
        "film"
    ] * 2
    both = split_of(
        tmp_path, tokenizer, 6, words=[["so"] * 5 + ["film"] * 5], segment=[[0] * 5 + [1] * 5]
    )
    assert sum(both.text[0]) == 6
    assert sum(both.types[0]) == 4  # three words and the last [SEP]


def test_a_text_without_words_is_a_row_too(
    tmp_path: Path, tokenizer: PreTrainedTokenizerBase
) -> None:
    split = split_of(
        tmp_path,
        tokenizer,
        words=pa.array([[], ["so"]], pa.list_(pa.string())),
        segment=pa.array([[], [0]], pa.list_(pa.int8())),
    )
    batch = collate(split, [0, 1], 0)
    assert torch.isfinite(pooled(torch.randn(*batch.tokens.shape, 4), batch.text)).all()


def test_pooling_takes_the_right_activations() -> None:
    activations = torch.arange(24.0).reshape(1, 6, 4)
    text = torch.tensor([[False, False, False, True, True, False]])
    torch.testing.assert_close(pooled(activations, text), activations[:, 3:5].mean(1))
    plain = torch.tensor([[-1, 1, 1, 0, -1, -1]])
    got = pooled_plain(activations, plain, 3)
    torch.testing.assert_close(got[0, 0], activations[0, 3])
    torch.testing.assert_close(got[0, 1], activations[0, 1:3].mean(0))
    assert not got[0, 2].any()  # a plain word without tokens
