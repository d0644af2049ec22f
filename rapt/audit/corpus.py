"""A public corpus that varies in all that a fault may depend on, and a table of some of its words.

The words are those of `rapt/measures/public_words.parquet`, English of eight kinds of text, and of
spaCy's example sentences, in other languages and scripts.
"""

from __future__ import annotations

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import import_module
from itertools import chain, pairwise
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from rapt.audit.cases import write_table
from rapt.text.table import EmbeddingTable

Codes = NDArray[np.int64]

FILE = Path(__file__).parents[1] / "measures" / "public_words.parquet"
LANGUAGES = "am ar bn cs de el es fa fr he hi hu hy ja ko pl ru ta te tr uk ur vi zh"
TEXTS = 1100  # so that a fault of every thousandth text shows
WORDS = (5, 45)  # words of a text, at least and at most
LONG, LONG_WORDS = 2, 7500  # texts of more than one piece, and their words
COPIES, COPY_WORDS = 60, 30  # of one text, to see repeats
DIMENSION = 64
FREQUENT, RARE, FOREIGN = 500, 500, 150  # words of the table
PIECE = 20_000  # characters that a release privatizes at a time
FROM_ANOTHER_LANGUAGE = 0.15  # of the words
TAGGED = 0.25  # the share of a word's uses from which on a tag is one of the table's
EVERY = (2, 3, 5, 7, 10, 20, 50, 64, 100, 128, 250, 256, 500, 512, 1000)  # every n-th text
MARKS = ".,!?"

# What the paper and docs/guarantees.md call a category, apart from the code that is audited.
CATEGORY = {
    tag: number
    for number, tags in enumerate(
        (
            "NOUN PROPN",
            "VERB AUX",
            "PRON",
            "ADP",
            "ADJ",
            "SYM PUNCT",
            "DET",
            "CCONJ SCONJ",
            "ADV PART",
            "NUM",
            "INTJ X",
        )
    )
    for tag in tags.split()
}


@dataclass(frozen=True)
class Corpus:
    """Texts of words, each of which stays one word, and a table.

    Attributes:
        texts: the words of each text.
        table: words of the table.
        pos: tags of each.
        frequency: float64 (V,).
        vectors: float32 (V, d), of random directions.
    """

    texts: list[list[str]]
    table: list[str]
    pos: list[list[str]]
    frequency: NDArray[np.float64]
    vectors: NDArray[np.float32]

    def write(self, folder: Path) -> EmbeddingTable:
        """Write the table, and open it."""
        write_table(folder, self.table, self.vectors, self.frequency, self.pos)
        return EmbeddingTable(folder)

    @cached_property
    def words(self) -> list[str]:
        """The words of all texts."""
        return list(chain.from_iterable(self.texts))

    @cached_property
    def rows(self) -> Codes:
        """The table's row of each word, in lower case; -1: it is not in the table."""
        known = {word: row for row, word in enumerate(self.table)}
        return np.array([known.get(lower(word), -1) for word in self.words])

    @cached_property
    def text(self) -> Codes:
        """The number of each word's text."""
        return np.repeat(np.arange(len(self.texts)), [len(text) for text in self.texts])

    @cached_property
    def place(self) -> Codes:
        """The place of each word in its text."""
        return np.concatenate([np.arange(len(text)) for text in self.texts])

    @cached_property
    def strata(self) -> dict[str, Codes]:
        """By name the strata that a word can be in, and the number of each word's stratum."""
        forms, size = [lower(word) for word in self.words], [len(text) for text in self.texts]
        counts = Counter(forms)
        ends = np.concatenate([np.arange(len(text))[::-1] for text in self.texts])
        starts = np.concatenate(
            [np.cumsum([0, *(len(word) + 1 for word in text[:-1])]) for text in self.texts]
        )
        repeated = [False, *(one == other for one, other in pairwise(forms))]
        by_text = {f"every {n} texts": self.text % n for n in EVERY}
        return {
            name: np.unique(np.asarray(codes), return_inverse=True)[1].astype(np.int64)
            for name, codes in {
                "word": forms,
                "spelling": self.words,
                "length": [len(word) for word in self.words],
                "more than 6 letters": [len(word) > 6 for word in self.words],
                "case": [_case(word) for word in self.words],
                "script": [_script(word) for word in self.words],
                "ASCII": [word.isascii() for word in self.words],
                "signs": [_signs(word) for word in self.words],
                "first letter": [form[0] for form in forms],
                "last letter": [form[-1] for form in forms],
                "whether the table has it": self.rows < 0,
                "frequency in the corpus": [counts[form].bit_length() for form in forms],
                "frequency in the table": _bins(self.frequency, self.rows),
                "size of the vector": _bins(np.linalg.norm(self.vectors, axis=1), self.rows),
                "place": self.place,
                "place from the end": ends,
                "words by twos": self.place % 2,
                "words by threes": self.place % 3,
                "words by tens": self.place % 10,
                "repeat of the word before": repeated,
                "text": self.text,
                "length of the text": [len(text).bit_length() for text in self.texts for _ in text],
                "number of the text": [n.bit_length() for n in self.text.tolist()],
                "piece": np.where(np.repeat(size, size) < LONG_WORDS // 4, -1, starts // PIECE),
            }.items()
        } | by_text

    def tagged(self, tags: Sequence[str]) -> dict[str, Codes]:
        """The strata of each word's tag and category, and of both with case and length."""
        codes = np.unique(np.asarray(tags), return_inverse=True)[1].astype(np.int64)
        strata = self.strata
        return {
            "tag": codes,
            "category": np.array([CATEGORY.get(tag, CATEGORY["X"]) for tag in tags]),
            "tag and case": _crossed(codes, strata["case"]),
            "tag and length": _crossed(codes, strata["length"]),
        }


def _crossed(one: Codes, other: Codes) -> Codes:
    return np.unique(one * (other.max() + 1) + other, return_inverse=True)[1].astype(np.int64)


def _bins(values: NDArray[np.floating], rows: Codes) -> Codes:
    """The tenth of the table's words in which each word is, by a value; -1: it is unknown."""
    tenth = np.argsort(np.argsort(values, kind="stable")) * 10 // len(values)
    return np.where(rows < 0, -1, tenth[rows])


@lru_cache(1 << 16)
def lower(word: str) -> str:
    """The form of a word in the table."""
    return "".join(character.lower() for character in word)


def _case(word: str) -> str:
    kinds = ("none", "lower", "upper", "capitalised", "mixed")
    is_kind = (
        lower(word) == word.upper(),
        word.islower(),
        word.isupper() and len(word) > 1,
        word[0].isupper() and lower(word[1:]) == word[1:],
        True,
    )
    return kinds[is_kind.index(True)]


def _script(word: str) -> str:
    """The first word of the name of its first letter, such as CYRILLIC."""
    letters = [character for character in word if unicodedata.category(character)[0] == "L"]
    return unicodedata.name(letters[0], "?").split()[0] if letters else ""


def _signs(word: str) -> str:
    """The kinds of its characters: letters, marks, digits, punctuation."""
    return "".join(sorted({unicodedata.category(character)[0] for character in word}))


@lru_cache(1)
def corpus() -> Corpus:
    """The corpus, always the same."""
    rng = np.random.Generator(np.random.PCG64(0))
    stays = _stays()
    english: Counter[str] = Counter()
    tags: dict[str, Counter[str]] = defaultdict(Counter)
    for row in pq.read_table(FILE).to_pylist():
        if stays(row["word"]):
            english[row["word"]] += row["count"]
            tags[lower(row["word"])][row["pos"]] += row["count"]
    foreign = {word for word in _foreign() if stays(word)}
    others = sorted(foreign - set(english))

    forms = Counter[str]()
    for word, count in english.items():
        forms[lower(word)] += count
    ranked = [word for word, _ in sorted(forms.items(), key=lambda pair: (-pair[1], pair[0]))]
    rare = rng.choice(np.array(ranked[FREQUENT:]), RARE, replace=False).tolist()
    known = sorted({*map(lower, others)} - set(forms))
    known = rng.choice(np.array(known), FOREIGN, replace=False).tolist()
    words = [*ranked[:FREQUENT], *rare, *known]
    vectors = rng.standard_normal((len(words), DIMENSION)) / np.sqrt(DIMENSION)
    vectors *= rng.uniform(0.7, 1.3, (len(words), 1))

    pool, weights = list(english), np.array(list(english.values()), np.float64)
    # Each as often as any other in a quarter of the places.
    weights = 0.75 * weights / weights.sum() + 0.25 / len(weights)

    def text(count: int) -> list[str]:
        drawn = rng.choice(len(pool), count, p=weights)
        return [_varied(pool, others, at, rng) for at in drawn]

    lengths = rng.integers(*WORDS, TEXTS)
    texts = [text(int(length)) for length in lengths]
    texts += [text(LONG_WORDS) for _ in range(LONG)]
    texts += [text(COPY_WORDS)] * COPIES
    return Corpus(
        texts,
        words,
        [_tags(tags[word]) for word in words],
        np.array([forms[word] for word in words], np.float64),
        vectors.astype(np.float32),
    )


def _varied(pool: Sequence[str], others: Sequence[str], at: int, rng: np.random.Generator) -> str:
    """A word of the pool, or of another language, or in another case."""
    kind = rng.random()
    if kind < FROM_ANOTHER_LANGUAGE:
        return others[int(rng.integers(len(others)))]
    word = pool[at]
    if kind < FROM_ANOTHER_LANGUAGE + 0.08:
        return word.capitalize()
    return word.upper() if kind < FROM_ANOTHER_LANGUAGE + 0.11 else word


def _tags(counts: Counter[str]) -> list[str]:
    most = counts.total()
    return [tag for tag, count in counts.items() if count >= TAGGED * most] or ["X"]


def _foreign() -> Iterator[str]:
    for language in LANGUAGES.split(" "):
        for sentence in import_module(f"spacy.lang.{language}.examples").sentences:
            yield from sentence.split()


def _stays() -> Callable[[str], bool]:
    """Whether a word stays one word, whoever splits texts: of letters, marks, digits, or a sign."""
    import spacy

    split = spacy.blank("en").tokenizer

    def stays(word: str) -> bool:
        categories = {unicodedata.category(character) for character in word}
        if categories - {"Lu", "Ll", "Lo", "Lm", "Mn", "Mc", "Nd"} and word not in MARKS:
            return False
        every: Iterable[str] = {word, word.capitalize(), word.upper()}
        return all(one.isprintable() and len(split(one)) == 1 for one in every)

    return stays
