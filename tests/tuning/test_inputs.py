from itertools import accumulate, chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
import torch
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from rapt.tuning.inference_spec import fitting
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
from rapt.tuning.loading import load_tokenizer
from rapt.utils import files
from tests.tuning.families import FAMILIES, OTHERS
from tests.tuning.tokenizers import WORDS


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
    assert list(split.tokens) == [
        [begin, -2, so, -3, -1, end, -2, good, end],
        [begin, film, good, end],
    ]
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


class Word(NamedTuple):
    text: str
    row: int = NO_ROW


def sizes(tokenizer: PreTrainedTokenizerBase, words: list[Word]) -> list[int]:
    """The positions that each word takes, of which the tokenizer is told one by one."""
    pieces = [
        tokenizer([word.text], is_split_into_words=True, add_special_tokens=False)["input_ids"]
        for word in words
    ]
    return [len(ids) if word.row == NO_ROW else 1 for word, ids in zip(words, pieces, strict=True)]


def leading(words: list[Word], sizes: list[int], room: int) -> list[Word]:
    return [word for word, sum_ in zip(words, accumulate(sizes), strict=True) if sum_ <= room]


Row = tuple[list[int], list[int], list[int], list[bool]]


def read_at_once(
    tokenizer: PreTrainedTokenizerBase, plain: list[Word], first: list[Word], second: list[Word]
) -> Row:
    """What the tokenizer makes of all words of a text in one call."""
    halves = [*plain, *first], second
    one, other = ([word.text for word in half] for half in halves)
    encoded = tokenizer(one, other or None, is_split_into_words=True)
    ids = encoded["input_ids"]
    types = encoded.get("token_type_ids") or [0] * len(ids)
    row: Row = ([], [], [], [])
    last = None
    for at, (token, kind) in enumerate(zip(ids, types, strict=True)):
        half, word = encoded.sequence_ids()[at], encoded.word_ids()[at]
        vector = NO_ROW if word is None else halves[half][word].row
        if vector != NO_ROW and last == (half, word):
            continue
        last = (half, word)
        is_plain = half == 0 and word < len(plain)
        shown = token if vector == NO_ROW else -1 - vector
        own = word is not None and not is_plain
        values = shown, kind, word if is_plain else NO_PLAIN, own
        for column, value in zip(row, values, strict=True):
            column.append(value)
    return row if ids else ([tokenizer.pad_token_id], [0], [NO_PLAIN], [False])


def expected(
    columns: dict[str, list], tokenizer: PreTrainedTokenizerBase, most: int, letters: list[str]
) -> list[Row]:
    """The rows of texts that are tokenized one by one, each as a whole."""
    # Some tokenizers glue the words of a list together, unless they bring their own spaces.
    glued = (
        tokenizer(["film", "film"], is_split_into_words=True)["input_ids"]
        != tokenizer("film film")["input_ids"]
    )
    before, rows = " " * glued, []
    for i, words in enumerate(columns["words"]):
        parts: list[list[Word]] = [[] for _ in range(max(2, 1 + len(letters)))]
        for word, row, part in zip(words, columns["row"][i], columns["segment"][i], strict=True):
            parts[part].append(Word(before + word, row))
        plain = [Word(before + word) for word in columns["plain"][i]]
        first, second = parts[0], parts[1]
        counts = [sizes(tokenizer, part) for part in parts]
        if letters:
            marks, end = [Word(f"\n{letter}.") for letter in letters], Word("\nAnswer:")
            room = most - sum(sizes(tokenizer, [*marks, end]))
            kept = [part[at] for part, at in zip(parts, fitting(counts, room), strict=True)]
            choices = [[mark, *kept[1 + k]] for k, mark in enumerate(marks)]
            first, second = [*kept[0], *chain.from_iterable(choices), end], []
        elif second:
            short = min(sum(counts[0]), sum(counts[1]), most // 2)
            longer = most - short
            rooms = (longer, short) if sum(counts[0]) > sum(counts[1]) else (short, longer)
            first, second = map(leading, parts, counts, rooms)
        else:
            first = leading(first, counts[0], most)
        rows.append(read_at_once(tokenizer, plain, first, second))
    return rows


@pytest.mark.parametrize("parts", [1, 2, 4])
@pytest.mark.parametrize("family", [*FAMILIES, "xlnet"])
def test_a_release_has_the_tokens_that_its_texts_have_one_by_one(
    family: str, parts: int, tmp_path: Path
) -> None:
    """Of texts, pairs and prompts; some words are unknown, special, odd, or have no tokens."""
    (FAMILIES | OTHERS)[family][0]().save_pretrained(tmp_path)
    tokenizer = load_tokenizer(tmp_path)
    special = [str(token) for token in tokenizer.all_special_tokens]
    known = [
        *WORDS,
        "unlikely",
        "Film's",
        "naïve",
        "日本",
        "a b",
        "\u200b",
        "",
        " ",
        "##ly",
        *special,
    ]
    rng = np.random.default_rng(parts)
    lengths = rng.integers(12, size=60)
    columns: dict[str, list] = {
        "words": [rng.choice(known, n).tolist() for n in lengths],
        "segment": [rng.integers(parts, size=n).tolist() for n in lengths],
        "row": [rng.choice([NO_ROW, NO_ROW, 0, 1, 2], n).tolist() for n in lengths],
        "plain": [rng.choice(known, n).tolist() for n in rng.integers(4, size=60)],
        "label": rng.integers(2, size=60).tolist(),
        "sequence": rng.integers(3, size=60).tolist(),
    }
    letters, vectors = ["A", "B", "C"] if parts == 4 else [], torch.ones(3, 2)
    for most in (40, 60):
        split = tokenized(columns, tokenizer, most, vectors, letters)
        rows = zip(split.tokens, split.types, split.plain, split.text, strict=True)
        assert list(rows) == expected(columns, tokenizer, most, letters)
        assert split.labels == columns["label"] and split.sequences == columns["sequence"]


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
