"""Conversion of privatized words to the backbone's tokens, and of activations to words."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from rapt import models
from rapt.privacy import released
from rapt.tuning.layout import (
    NO_PLAIN,
    NO_ROW,
    Runs,
    Units,
    Words,
    different,
    flat,
    laid_out,
    of_prompts,
    that_fit,
)
from rapt.tuning.ragged import Ragged
from rapt.utils import files
from rapt.utils.errors import RaptError

AT_ONCE = 1000  # words per call of the tokenizer
NO_TOKEN = -100  # as PyTorch's cross entropy leaves it out
TOLD = "\N{OBJECT REPLACEMENT CHARACTER}"  # stands for a user's turn


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


@dataclass(frozen=True, eq=False)
class Split:
    """One split of a release, tokenized: a row for each of n texts.

    Attributes:
        tokens: ids with special tokens, plain words first; −1 − r stands for row r of `vectors`.
        types: token type ids (segments of a pair).
        plain: for each token the index of its plain word, else NO_PLAIN.
        text: for each token whether it belongs to the text itself.
        labels: what is to be predicted: classes, or numbers.
        sequences: number of the text's sequence of plain words, 0 without any.
        vectors: float32 (R, h), input embeddings besides the backbone's; None: no word has one.
        targets: ids of the text that a decoder writes, apart from `tokens`; None: there is none.
        authors: number of the text's author; None: authors are not known.
    """

    tokens: Ragged
    types: Ragged
    plain: Ragged
    text: Ragged
    labels: list[Any]
    sequences: list[int]
    vectors: Tensor | None = None
    targets: Ragged | None = None
    authors: list[int] | None = None

    @classmethod
    def of_lists(
        cls,
        tokens: Sequence[Sequence[int]],
        types: Sequence[Sequence[int]] | None = None,
        plain: Sequence[Sequence[int]] | None = None,
        text: Sequence[Sequence[bool]] | None = None,
        labels: list[Any] | None = None,
        sequences: list[int] | None = None,
        targets: Sequence[Sequence[int]] | None = None,
    ) -> Split:
        """Take lists; by themselves tokens are of one segment, and none is plain or the text's."""

        def each(value: int) -> list[list[int]]:
            return [[value] * len(row) for row in tokens]

        return cls(
            tokens=Ragged.of(tokens),
            types=Ragged.of(types or each(0), torch.int8),
            plain=Ragged.of(plain or each(NO_PLAIN)),
            text=Ragged.of(text or each(False), torch.bool),
            labels=labels or [0] * len(tokens),
            sequences=sequences or [0] * len(tokens),
            targets=None if targets is None else Ragged.of(targets),
        )

    def __len__(self) -> int:
        return len(self.tokens)

    def of(self, rows: Sequence[int]) -> Split:
        """Return the texts of some rows."""
        at = torch.tensor(rows, dtype=torch.long)
        return replace(
            self,
            tokens=self.tokens.at(at),
            types=self.types.at(at),
            plain=self.plain.at(at),
            text=self.text.at(at),
            labels=[self.labels[row] for row in rows],
            sequences=[self.sequences[row] for row in rows],
            targets=None if self.targets is None else self.targets.at(at),
            authors=None if self.authors is None else [self.authors[row] for row in rows],
        )

    @cached_property
    def lengths(self) -> list[int]:
        """The number of tokens of each text."""
        lengths: list[int] = self.tokens.lengths.tolist()
        return lengths


@dataclass(frozen=True)
class Batch:
    """Padded tensors (batch, length), labels and sequences (batch,); fields as in `Split`.

    Attributes:
        vectors: float32 (batch, length, h), the input embedding of negative tokens, else 0.
        targets: (batch, length of the longest), NO_TOKEN where a shorter one has ended.
        on_the_left: whether texts are padded there. The host knows, so it need not ask a GPU.
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
    on_the_left: bool = False

    def to(self, device: torch.device) -> Batch:
        """Move the batch to a device; to a CUDA GPU while it computes, from pinned memory."""
        pins = device.type == "cuda" and self.tokens.device.type == "cpu"
        moved: dict[str, Any] = {
            name: (value.pin_memory() if pins else value).to(device, non_blocking=pins)
            for name, value in vars(self).items()
            if isinstance(value, Tensor)
        }
        return replace(self, **moved)


@dataclass(frozen=True)
class InputVectors:
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
    path: Path, known: InputVectors | None = None
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
    known: InputVectors | None = None,
) -> Split:
    """Tokenize one split of a release of texts to classify; see `tokenized`."""
    columns, vectors = read_columns(path, known)
    return tokenized(columns, tokenizer, max_tokens, vectors)


def readable(table: pa.Table) -> tuple[dict[str, list[Any]], Tensor | None]:
    """Return the columns of a release as `tokenized` takes them, with their vectors, if any."""
    words, segments, vectors = released.positions(table)
    columns = {**released.others(table), "words": words, "segment": segments}
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


class _Frame(NamedTuple):
    """What a tokenizer or a template puts around a text, or around the halves of a pair.

    Attributes:
        places: of each half.
        types: of each half's tokens.
        tokens: the others; of each its place, itself, its type, and whether it is of the text.
    """

    places: list[int]
    types: list[int]
    tokens: list[tuple[int, int, int, bool]]


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
    # A fast tokenizer reads each word of a list apart from the others, so that it is enough to give
    # it once each word that the texts have.
    texts, given = len(columns["label"]), (columns["words"], columns.get("plain", []))
    known, numbers = different(*given)
    words, plain = (
        Words.of(each, unit, columns.get(row))
        for each, unit, row in zip(given, numbers, ("row", "plain_row"), strict=True)
    )
    before = _before_words(tokenizer)
    spelled = [before + word for word in known]
    marks = [f"\n{letter}." for letter in letters]
    if letters and not chat:
        marks.append("\nAnswer:")
    units = Units(_pieces(tokenizer, [*spelled, *marks]))

    parts = max(2, 1 + len(letters))
    group = np.ravel_multi_index((words.text, flat(columns["segment"])), (texts, parts))
    order = group.argsort(kind="stable")
    words, group = words.at(order), group[order]
    costs = np.where(words.row == NO_ROW, units.sizes[words.unit], 1)
    if letters:
        room = _beside(int(units.sizes[len(known) :].sum()), max_tokens)
        kept = of_prompts(costs, group, parts, texts, room)
    else:
        kept = that_fit(costs, group, texts, max_tokens)
    words, part = words.at(kept), group[kept] % parts

    # The halves of a pair stand apart; a question and its choices are one text.
    half, is_pair = np.zeros_like(part) if letters else part, np.zeros(texts, np.int64)
    is_pair[words.text[half == 1]] = 1
    if letters and chat:
        frames = [_of_turn(tokenizer)]
    else:
        probe = [word for word, size in zip(spelled, units.sizes, strict=False) if size][:1]
        frames = [_frame(tokenizer, probe, second) for second in (None, probe or None)]
    places, types = (
        np.array(each)
        for each in zip(*((frame.places, frame.types) for frame in frames), strict=True)
    )
    # The steps of a half: plain words, the question, a mark, its choice, a mark …
    steps = 2 * parts + 1
    in_plain = is_pair[plain.text], 0
    in_words = is_pair[words.text], half
    runs = [
        Runs.of(
            plain.text,
            steps * places[in_plain],
            units.of(plain),
            types[in_plain],
            plain=plain.place,
        ),
        Runs.of(
            words.text,
            steps * places[in_words] + 2 * part + 1,
            units.of(words),
            types[in_words],
            own=True,
        ),
    ]
    every = np.arange(texts)
    for number in range(len(marks)):
        step = steps * places[0, 0] + 2 * (number + 1)
        runs.append(Runs.of(every, step, len(known) + number, types[0, 0], own=True))
    for number, frame in enumerate(frames):
        around = every[is_pair == number]
        for place, token, kind, own in frame.tokens:
            runs.append(Runs.of(around, steps * place, units.add([token]), kind, own=own))
    tokens, kinds, of_plain, is_own = laid_out(
        runs, units, texts, units.add([tokenizer.pad_token_id])
    )
    return Split(
        tokens=tokens,
        types=kinds,
        plain=of_plain,
        text=is_own,
        labels=columns["label"],
        sequences=columns.get("sequence", [0] * texts),
        vectors=vectors,
    )


def _beside(marks: int, max_tokens: int) -> int:
    """Return the tokens that are left for the words of a prompt beside its marks."""
    if marks > max_tokens:
        raise RaptError(
            f"train.max_tokens: got {max_tokens}, expected at least {marks}, for the letters of "
            "the choices. Raise it."
        )
    return max_tokens - marks


def _frame(
    tokenizer: PreTrainedTokenizerBase, first: list[str], second: list[str] | None
) -> _Frame:
    """Return what the tokenizer puts around words, by the tokens of one or of a pair."""
    encoded = tokenizer(first, second, is_split_into_words=True)
    types = encoded.get("token_type_ids") or [0] * len(encoded["input_ids"])
    frame = _Frame([0, 0], [0, 0], [])
    halves = zip(encoded.sequence_ids(), encoded["input_ids"], types, strict=True)
    for place, (half, token, kind) in enumerate(halves):
        if half is None:
            frame.tokens.append((place, token, kind, False))
        else:
            frame.places[half], frame.types[half] = place, kind
    return frame


def _of_turn(tokenizer: PreTrainedTokenizerBase) -> _Frame:
    """Return the chat template's tokens around a turn; the answer follows the last ones."""
    before, after = _template(tokenizer)
    place = len(before)
    tokens = [(at, token, 0, False) for at, token in enumerate(before)]
    tokens += [(at, token, 0, True) for at, token in enumerate(after, place + 1)]
    return _Frame([place, place], [0, 0], tokens)


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
    pieces: list[list[int]] = [[] for _ in words]
    for start in range(0, len(words), AT_ONCE):
        some = words[start : start + AT_ONCE]
        encoded = tokenizer(some, is_split_into_words=True, add_special_tokens=False)
        for token, word in zip(encoded["input_ids"], encoded.word_ids(), strict=True):
            pieces[start + word].append(token)
    return pieces


def read_targets(path: Path) -> Tensor:
    """Read the plain tokens' indices into V_r, int64 (sequences, length), from a release."""
    table = files.read_parquet(path)
    sequences = len(table["sequence"].unique())
    return torch.tensor(table["target"].to_numpy()).reshape(sequences, -1)


def collate(split: Split, rows: Sequence[int], pad: int) -> Batch:
    """Collate these rows into a batch, padded on the right to the longest with the token `pad`."""
    at = torch.tensor(rows, dtype=torch.long)
    places, targets = split.tokens.places(at), None
    tokens = split.tokens.padded(places, pad).long()
    if split.targets is not None:
        targets = split.targets.padded(split.targets.places(at), NO_TOKEN).long()
    return Batch(
        tokens=tokens,
        attention=places.within.long(),
        types=split.types.padded(places, 0).long(),
        plain=split.plain.padded(places, NO_PLAIN).long(),
        text=split.text.padded(places, False),
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
