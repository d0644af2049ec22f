"""Conversion of privatized words to the backbone's tokens, and of activations to words."""

from __future__ import annotations

import warnings
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedTokenizerBase

from rapt import models
from rapt.privacy import released
from rapt.tuning.inference_spec import fitting
from rapt.utils import files
from rapt.utils.errors import RaptError

NO_PLAIN = -1
NO_TOKEN = -100  # as PyTorch's cross entropy leaves it out
TOLD = "\N{OBJECT REPLACEMENT CHARACTER}"  # stands for a user's turn
NO_ROW = -1  # a word represented by the backbone's own tokens


class Reader(NamedTuple):
    """How a model reads texts.

    Attributes:
        max_tokens: of a text that are read.
        chat: whether a text is a user's turn in the tokenizer's chat template.
        apart: whether what is written stands apart from what is read, in a decoder of its own.
    """

    tokenizer: PreTrainedTokenizerBase
    max_tokens: int
    chat: bool = False
    apart: bool = False

    @property
    def pad(self) -> int:
        """The token of padding."""
        return int(self.tokenizer.pad_token_id)


@dataclass(frozen=True)
class Split:
    """One split of a release, tokenized: a list entry for each text.

    Attributes:
        tokens: ids with special tokens, plain words first; −1 − r stands for row r of `vectors`.
        types: token type ids (segments of a pair).
        plain: for each token the index of its plain word, else NO_PLAIN.
        text: for each token whether it belongs to the text itself.
        labels: what is to be predicted: classes, or numbers.
        sequences: number of the text's sequence of plain words, 0 without any.
        vectors: float32 (R, h), input embeddings besides the backbone's; None: no word has one.
        targets: ids of the text that a decoder writes, apart from `tokens`; None: there is none.
    """

    tokens: list[list[int]]
    types: list[list[int]]
    plain: list[list[int]]
    text: list[list[bool]]
    labels: list[Any]
    sequences: list[int]
    vectors: Tensor | None = None
    targets: list[list[int]] | None = None

    def __len__(self) -> int:
        return len(self.tokens)

    def of(self, rows: Sequence[int]) -> Split:
        """Return the texts of some rows."""
        chosen: dict[str, Any] = {
            name: [each[row] for row in rows]
            for name, each in vars(self).items()
            if name != "vectors" and each is not None
        }
        return replace(self, **chosen)

    @property
    def lengths(self) -> list[int]:
        """The number of tokens of each text."""
        return [len(tokens) for tokens in self.tokens]


@dataclass(frozen=True)
class Batch:
    """Padded tensors (batch, length), labels and sequences (batch,); fields as in `Split`.

    Attributes:
        vectors: float32 (batch, length, h), the input embedding of negative tokens, else 0.
        targets: (batch, length of the longest), NO_TOKEN where a shorter one has ended.
    """

    tokens: Tensor
    attention: Tensor
    types: Tensor
    plain: Tensor
    text: Tensor
    labels: Tensor
    sequences: Tensor
    vectors: Tensor | None
    targets: Tensor | None = None

    def to(self, device: torch.device) -> Batch:
        """Move the batch to a device."""
        moved: dict[str, Any] = {
            name: None if tensor is None else tensor.to(device)
            for name, tensor in vars(self).items()
        }
        return Batch(**moved)


@dataclass(frozen=True)
class WordVectors:
    """Input embeddings, float32 (R, h), that replace the tokens of some words, by their rows."""

    rows: dict[str, int]
    vectors: Tensor

    def named_in(self, columns: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
        """Add columns with the rows of the words to the columns of a release."""
        named = {
            f"{prefix}row": [[self.rows.get(word, NO_ROW) for word in text] for text in columns[of]]
            for of, prefix in (("words", ""), ("plain", "plain_"))
            if of in columns
        }
        return {**columns, **named}


def read_columns(
    path: Path, known: WordVectors | None = None
) -> tuple[dict[str, list[Any]], Tensor | None]:
    """Read one split of a release (docs/data.md), with the vectors that its model reads, if any."""
    columns, vectors = readable(files.read_parquet(path))
    if vectors is None and known:
        return known.named_in(columns), known.vectors
    return columns, vectors


def read_split(
    path: Path,
    tokenizer: PreTrainedTokenizerBase,
    max_tokens: int,
    known: WordVectors | None = None,
) -> Split:
    """Tokenize one split of a release of texts to classify; see `tokenized`."""
    columns, vectors = read_columns(path, known)
    return tokenized(columns, tokenizer, max_tokens, vectors)


def readable(table: pa.Table) -> tuple[dict[str, list[Any]], Tensor | None]:
    """Return the columns of a release as `tokenized` takes them, with their vectors, if any."""
    words, segments, vectors = released.positions(table)
    columns = {**released.beside(table), "words": words, "segment": segments}
    if vectors is None:
        return columns, None
    columns["row"] = numbered(words)
    with warnings.catch_warnings():  # nobody writes to the column's memory
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return columns, torch.from_numpy(vectors)


def numbered(texts: Sequence[Sequence[str]]) -> list[list[int]]:
    """Number the words of all texts consecutively."""
    ends = list(accumulate(map(len, texts), initial=0))
    return [list(range(*span)) for span in pairwise(ends)]


class _Word(NamedTuple):
    """A word as given to the tokenizer, and the row of the vector that replaces it, if any."""

    text: str
    row: int


def tokenized(
    columns: Mapping[str, list[Any]],
    tokenizer: PreTrainedTokenizerBase,
    max_tokens: int,
    vectors: Tensor | None = None,
    letters: Sequence[str] = (),
    *,
    chat: bool = False,
) -> Split:
    """Tokenize privatized texts, given by the columns of a release.

    A text keeps as many whole words as fit into `max_tokens`, which the halves of a pair share.

    With letters, a text is a question and a choice for each of them, and becomes a prompt. With
    `chat` it is a user's turn in the tokenizer's chat template.

    If words have vectors (R, h), the columns `row` and `plain_row` say which row each word of
    `words` and of `plain` has, or NO_ROW. A vector takes one position instead of the word's tokens.
    """
    labels, words = columns["label"], columns["words"]
    plain = columns.get("plain", [[]] * len(labels))
    rows, plain_rows = (
        columns.get(name) or [[NO_ROW] * len(text) for text in texts]
        for name, texts in (("row", words), ("plain_row", plain))
    )
    sequences = columns.get("sequence", [0] * len(labels))
    split = Split([], [], [], [], labels, sequences, vectors)
    before = _before_words(tokenizer)
    around = _template(tokenizer) if letters and chat else None

    def given(texts: list[str], rows: list[int]) -> list[_Word]:
        return [_Word(before + text, row) for text, row in zip(texts, rows, strict=True)]

    for i, segment in enumerate(columns["segment"]):
        parts: list[list[_Word]] = [[] for _ in range(max(2, 1 + len(letters)))]
        for word, part in zip(given(words[i], rows[i]), segment, strict=True):
            parts[part].append(word)
        if letters:
            first, second = _prompt(tokenizer, letters, parts, max_tokens, chat), list[_Word]()
        else:
            first, second = _cut(tokenizer, parts[0], parts[1], max_tokens)
        _append(split, tokenizer, given(plain[i], plain_rows[i]), first, second, around)
    return split


def _prompt(
    tokenizer: PreTrainedTokenizerBase,
    letters: Sequence[str],
    parts: Sequence[list[_Word]],
    max_tokens: int,
    chat: bool,
) -> list[_Word]:
    """Return a question, each choice after its letter, and but in a chat a request to answer."""
    marks = [_Word(f"\n{letter}.", NO_ROW) for letter in letters]
    end = [] if chat else [_Word("\nAnswer:", NO_ROW)]
    frame = sum(_sizes(tokenizer, [*marks, *end]))
    if frame > max_tokens:
        raise RaptError(
            f"train.max_tokens: got {max_tokens}, expected at least {frame}, for the letters of "
            "the choices. Raise it."
        )
    kept = fitting([_sizes(tokenizer, part) for part in parts], max_tokens - frame)
    question, *choices = (part[at] for part, at in zip(parts, kept, strict=True))
    lettered = ([mark, *choice] for mark, choice in zip(marks, choices, strict=True))
    return [*question, *chain.from_iterable(lettered), *end]


def user_turn(tokenizer: PreTrainedTokenizerBase, told: str) -> str:
    """Return what a user tells in the tokenizer's chat template, up to where the answer begins.

    Raises:
        RaptError: the tokenizer has no chat template.
    """
    if not tokenizer.chat_template:
        raise RaptError(
            "decoding.chat: got true with a tokenizer without a chat template, expected false."
        )
    turn = [{"role": "user", "content": told}]
    return str(tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True))


@cache
def as_spelled(folder: str) -> PreTrainedTokenizerBase:
    """Return a folder's tokenizer that adds no space to a template, as ours does for words."""
    return models.tokenizer(Path(folder))


def _template(tokenizer: PreTrainedTokenizerBase, *answers: str) -> list[list[int]]:
    """Return the chat template's tokens before a turn, those after it, and these with an answer."""
    before, _, after = user_turn(tokenizer, TOLD).partition(TOLD)
    texts = [before, after, *(after + answer for answer in answers)]
    encoded = as_spelled(tokenizer.name_or_path)(texts, add_special_tokens=False)
    return list(encoded["input_ids"])


def _before_words(tokenizer: PreTrainedTokenizerBase) -> str:
    """Return the prefix that makes a single word become the tokens it has inside a text."""
    # Some byte-level tokenizers (Llama 3's) join words that are given one by one.
    one, two = tokenizer(["a", "a a"], add_special_tokens=False)["input_ids"]
    return "" if _pieces(tokenizer, ["a", "a"])[1] == two[len(one) :] else " "


def _cut(
    tokenizer: PreTrainedTokenizerBase, first: list[_Word], second: list[_Word], max_tokens: int
) -> tuple[list[_Word], list[_Word]]:
    """Return the leading words of a text, or of both halves of a pair, that fit completely."""
    sizes = [_sizes(tokenizer, words) for words in (first, second)]
    room = [max_tokens, 0]
    if second:
        half = max_tokens // 2
        short = min(sum(sizes[0]), sum(sizes[1]), half)
        room = [short, max_tokens - short]
        if sum(sizes[0]) > sum(sizes[1]):
            room.reverse()
    return _fitting(first, sizes[0], room[0]), _fitting(second, sizes[1], room[1])


def _sizes(tokenizer: PreTrainedTokenizerBase, words: list[_Word]) -> list[int]:
    """Return the number of positions that each word takes."""
    pieces = _pieces(tokenizer, [word.text for word in words])
    return [len(ids) if word.row == NO_ROW else 1 for word, ids in zip(words, pieces, strict=True)]


def word_pieces(tokenizer: PreTrainedTokenizerBase, words: Sequence[str]) -> list[list[int]]:
    """Return the tokens of each word as inside a text."""
    before = _before_words(tokenizer)
    return _pieces(tokenizer, [before + word for word in words])


def letter_tokens(
    tokenizer: PreTrainedTokenizerBase, letters: Sequence[str], *, chat: bool = False
) -> list[int]:
    """Return the token of each letter, as it stands after a prompt, or begins the answer of a chat.

    Raises:
        RaptError: a letter is more than one token, or two are the same.
    """
    pieces = word_pieces(tokenizer, letters)
    if chat and letters:
        _, after, *answered = _template(tokenizer, *letters)
        pieces = [ids[len(after) :] for ids in answered if ids[: len(after)] == after]
    tokens = [piece[0] for piece in pieces if len(piece) == 1]
    if len(set(tokens)) < len(letters):
        raise RaptError(
            f"label.names: got {', '.join(letters)}, expected names that are one token each for "
            "the backbone, as A, B, C, D."
        )
    return tokens


def _pieces(tokenizer: PreTrainedTokenizerBase, words: list[str]) -> list[list[int]]:
    if not words:
        return []
    encoded = tokenizer(words, is_split_into_words=True, add_special_tokens=False)
    pieces: list[list[int]] = [[] for _ in words]
    for token, word in zip(encoded["input_ids"], encoded.word_ids(), strict=True):
        pieces[word].append(token)
    return pieces


def _fitting(words: list[_Word], sizes: list[int], room: int) -> list[_Word]:
    return words[: bisect_right(list(accumulate(sizes)), room)]


def _append(
    split: Split,
    tokenizer: PreTrainedTokenizerBase,
    prefix: list[_Word],
    first: list[_Word],
    second: list[_Word],
    around: list[list[int]] | None,
) -> None:
    """Tokenize [prefix; text], and record which token belongs to which plain word or the text.

    In a chat the template's tokens around it take the place of special ones.
    """
    before, after = around or ([], [])
    halves = ([*prefix, *first], second)
    one, other = ([word.text for word in half] for half in halves)
    special = around is None
    encoded = tokenizer(one, other or None, is_split_into_words=True, add_special_tokens=special)
    # A decoder adds no special tokens to an empty text, but needs at least one token.
    ids = encoded["input_ids"] or [tokenizer.pad_token_id]
    types = encoded.get("token_type_ids") or [0] * len(ids)
    # For each token, its half and its word; None: none.
    places = list(zip(encoded.sequence_ids(), encoded.word_ids(), strict=True)) or [(None, None)]
    rows = [NO_ROW if word is None else halves[half][word].row for half, word in places]
    # A word's vector replaces its first token, and the other tokens are left out.
    kept = [
        at
        for at, row in enumerate(rows)
        if row == NO_ROW or at == 0 or places[at - 1] != places[at]
    ]
    plain = [
        word if word is not None and half == 0 and word < len(prefix) else NO_PLAIN
        for half, word in places
    ]
    tokens = [ids[at] if rows[at] == NO_ROW else -1 - rows[at] for at in kept]
    is_text = [places[at][1] is not None and plain[at] == NO_PLAIN for at in kept]
    split.tokens.append([*before, *tokens, *after])
    split.types.append([0] * len(before) + [types[at] for at in kept] + [0] * len(after))
    own = [plain[at] for at in kept]
    split.plain.append([NO_PLAIN] * len(before) + own + [NO_PLAIN] * len(after))
    split.text.append([False] * len(before) + is_text + [True] * len(after))


def read_targets(path: Path) -> Tensor:
    """Read the plain tokens' indices into V_r, int64 (sequences, length), from a release."""
    table = files.read_parquet(path)
    sequences = len(table["sequence"].unique())
    return torch.tensor(table["target"].to_numpy()).reshape(sequences, -1)


def collate(split: Split, rows: Sequence[int], pad: int) -> Batch:
    """Collate these rows into a batch, padded on the right to the longest with the token `pad`."""
    lengths = torch.tensor([len(split.tokens[row]) for row in rows])
    length = int(lengths.max())

    def padded(values: list[list[int]] | list[list[bool]], fill: int) -> Tensor:
        return torch.tensor([[*values[r], *[fill] * (length - len(values[r]))] for r in rows])

    tokens, targets = padded(split.tokens, pad), None
    if split.targets is not None:
        targets = pad_sequence(
            [torch.tensor(split.targets[row], dtype=torch.long) for row in rows],
            batch_first=True,
            padding_value=NO_TOKEN,
        )
    return Batch(
        tokens=tokens,
        attention=(torch.arange(length) < lengths[:, None]).long(),
        types=padded(split.types, 0),
        plain=padded(split.plain, NO_PLAIN),
        text=padded(split.text, False),
        labels=torch.tensor([split.labels[row] for row in rows]),
        sequences=torch.tensor([split.sequences[row] for row in rows]),
        vectors=None if split.vectors is None else _looked_up(split.vectors, tokens),
        targets=targets,
    )


def _looked_up(vectors: Tensor, tokens: Tensor) -> Tensor:
    """Look up the rows of negative tokens, float32 (batch, length, h), else 0."""
    given = tokens < 0
    found = vectors.new_zeros(*tokens.shape, vectors.shape[1])
    found[given] = vectors[-1 - tokens[given]]
    return found


def pooled(activations: Tensor, mask: Tensor) -> Tensor:
    """Compute the mean activation (batch, h) of the tokens in `mask` (batch, length), else 0."""
    weights = mask.to(activations.dtype)
    total = torch.einsum("bl,blh->bh", weights, activations)
    return total / weights.sum(1, keepdim=True).clamp(min=1)


def pooled_plain(activations: Tensor, plain: Tensor, count: int) -> Tensor:
    """Compute each plain word's activation (batch, count, h): the mean over its tokens."""
    places = torch.arange(count, device=plain.device)
    weights = (plain[:, None, :] == places[None, :, None]).to(activations.dtype)
    return weights @ activations / weights.sum(2, keepdim=True).clamp(min=1)
