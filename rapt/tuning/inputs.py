"""From privatized words to the backbone's tokens, and back from activations to words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

NO_PLAIN = -1
POOL = 8  # batches among which texts of like length are put together


@dataclass(frozen=True)
class Split:
    """One split of a release, tokenized: a list entry for each text.

    Attributes:
        tokens: ids with special tokens, plain words first.
        types: token type ids (segments of a pair).
        plain: for each token the place of its plain word, NO_PLAIN elsewhere.
        text: for each token whether it belongs to the text itself.
        labels: classes.
        sequences: number of the text's sequence of plain words, 0 without any.
    """

    tokens: list[list[int]]
    types: list[list[int]]
    plain: list[list[int]]
    text: list[list[bool]]
    labels: list[int]
    sequences: list[int]

    def __len__(self) -> int:
        return len(self.tokens)


@dataclass(frozen=True)
class Batch:
    """Padded tensors (batch, length), labels and sequences (batch,); fields as in `Split`."""

    tokens: Tensor
    attention: Tensor
    types: Tensor
    plain: Tensor
    text: Tensor
    labels: Tensor
    sequences: Tensor

    def to(self, device: torch.device) -> Batch:
        """The batch on a device."""
        return Batch(**{name: tensor.to(device) for name, tensor in vars(self).items()})


def read_split(path: Path, tokenizer: PreTrainedTokenizerBase, max_tokens: int) -> Split:
    """Tokenize one split of a release (docs/data.md).

    Args:
        path: its Parquet file.
        tokenizer: a fast tokenizer of the backbone.
        max_tokens: of a text's own words, whole words only; both halves of a pair share it.
    """
    return tokenized(pq.read_table(path).to_pydict(), tokenizer, max_tokens)


def tokenized(
    columns: Mapping[str, list[Any]], tokenizer: PreTrainedTokenizerBase, max_tokens: int
) -> Split:
    """Tokenize privatized texts, given by the columns of a release; see `read_split`."""
    labels = columns["label"]
    plain = columns.get("plain", [[]] * len(labels))
    split = Split([], [], [], [], labels, columns.get("sequence", [0] * len(labels)))
    before = _before_words(tokenizer)
    for words, segment, prefix in zip(columns["words"], columns["segment"], plain, strict=True):
        first = [before + w for w, s in zip(words, segment, strict=True) if s == 0]
        second = [before + w for w, s in zip(words, segment, strict=True) if s == 1]
        public = [before + w for w in prefix]
        _append(split, tokenizer, public, *_cut(tokenizer, first, second, max_tokens))
    return split


def _before_words(tokenizer: PreTrainedTokenizerBase) -> str:
    """What a word given alone needs before it to become the tokens it is inside a text.

    Some byte-level tokenizers (Llama 3's) glue words given one by one together, even when asked to
    put spaces between them.
    """
    one, two = tokenizer(["a", "a a"], add_special_tokens=False)["input_ids"]
    return "" if _pieces(tokenizer, ["a", "a"])[1] == two[len(one) :] else " "


def _cut(
    tokenizer: PreTrainedTokenizerBase, first: list[str], second: list[str], max_tokens: int
) -> tuple[list[str], list[str]]:
    """The leading words of a text, or of both halves of a pair, that fit whole."""
    sizes = [[len(ids) for ids in _pieces(tokenizer, words)] for words in (first, second)]
    room = [max_tokens, 0]
    if second:
        half = max_tokens // 2
        short = min(sum(sizes[0]), sum(sizes[1]), half)
        room = [short, max_tokens - short]
        if sum(sizes[0]) > sum(sizes[1]):
            room.reverse()
    return _fitting(first, sizes[0], room[0]), _fitting(second, sizes[1], room[1])


def _pieces(tokenizer: PreTrainedTokenizerBase, words: list[str]) -> list[list[int]]:
    if not words:
        return []
    encoded = tokenizer(words, is_split_into_words=True, add_special_tokens=False)
    pieces: list[list[int]] = [[] for _ in words]
    for token, word in zip(encoded["input_ids"], encoded.word_ids(), strict=True):
        pieces[word].append(token)
    return pieces


def _fitting(words: list[str], sizes: list[int], room: int) -> list[str]:
    total = 0
    for count, size in enumerate(sizes):
        total += size
        if total > room:
            return words[:count]
    return words


def _append(
    split: Split,
    tokenizer: PreTrainedTokenizerBase,
    prefix: list[str],
    first: list[str],
    second: list[str],
) -> None:
    """Tokenize [prefix; text], and note which token belongs to which plain word or to the text."""
    encoded = tokenizer([*prefix, *first], second or None, is_split_into_words=True)
    words, halves = encoded.word_ids(), encoded.sequence_ids()
    # A decoder puts no special tokens around an empty text, but has to see something.
    ids = encoded["input_ids"] or [tokenizer.pad_token_id]
    if not words:
        words, halves = [None], [None]
    plain = [
        w if w is not None and half == 0 and w < len(prefix) else NO_PLAIN
        for w, half in zip(words, halves, strict=True)
    ]
    split.tokens.append(ids)
    split.types.append(encoded.get("token_type_ids") or [0] * len(ids))
    split.plain.append(plain)
    split.text.append([w is not None and p == NO_PLAIN for w, p in zip(words, plain, strict=True)])


def read_targets(path: Path) -> Tensor:
    """The plain tokens' places in V_r, int64 (sequences, length), from a release's file."""
    table = pq.read_table(path)
    sequences = len(table["sequence"].unique())
    return torch.tensor(table["target"].to_numpy()).reshape(sequences, -1)


def collate(split: Split, rows: Sequence[int], pad: int) -> Batch:
    """The batch of these rows, padded on the right to the longest with the token `pad`."""
    lengths = torch.tensor([len(split.tokens[row]) for row in rows])
    length = int(lengths.max())

    def padded(values: list[list[int]] | list[list[bool]], fill: int) -> Tensor:
        return torch.tensor([[*values[r], *[fill] * (length - len(values[r]))] for r in rows])

    return Batch(
        tokens=padded(split.tokens, pad),
        attention=(torch.arange(length) < lengths[:, None]).long(),
        types=padded(split.types, 0),
        plain=padded(split.plain, NO_PLAIN),
        text=padded(split.text, False),
        labels=torch.tensor([split.labels[row] for row in rows]),
        sequences=torch.tensor([split.sequences[row] for row in rows]),
    )


def shuffled(split: Split, size: int, generator: torch.Generator) -> Iterator[list[int]]:
    """Batches of one epoch: random, but of texts alike in length, which saves padding."""
    order = torch.randperm(len(split), generator=generator).tolist()
    batches: list[list[int]] = []
    for start in range(0, len(order), POOL * size):
        pool = sorted(order[start : start + POOL * size], key=lambda row: len(split.tokens[row]))
        batches += [pool[i : i + size] for i in range(0, len(pool), size)]
    for i in torch.randperm(len(batches), generator=generator).tolist():
        yield batches[i]


def by_length(split: Split, size: int) -> Iterator[list[int]]:
    """Batches for prediction: every row once, longest first."""
    order = sorted(range(len(split)), key=lambda row: -len(split.tokens[row]))
    for start in range(0, len(order), size):
        yield order[start : start + size]


def pooled(activations: Tensor, mask: Tensor) -> Tensor:
    """The mean activation (batch, h) of the tokens in `mask` (batch, length), else 0."""
    weights = mask.to(activations.dtype)
    total = torch.einsum("bl,blh->bh", weights, activations)
    return total / weights.sum(1, keepdim=True).clamp(min=1)


def pooled_plain(activations: Tensor, plain: Tensor, count: int) -> Tensor:
    """Each plain word's own activation (batch, count, h): the mean over the tokens it became."""
    places = torch.arange(count, device=plain.device)
    weights = (plain[:, None, :] == places[None, :, None]).to(activations.dtype)
    return weights @ activations / weights.sum(2, keepdim=True).clamp(min=1)
