"""`rapt privatize --preview`: which of the user's own words would stay, for their eyes alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain, islice

from rapt.measures import strength
from rapt.privacy.categories import ALL, Scheme
from rapt.privacy.fates import NOISE, VERBATIM_KIND
from rapt.release.job import Job
from rapt.release.ledger import NOWHERE
from rapt.release.text import TextPrivatizer, joined

TEXTS, FREQUENT, SHOWN, WIDTH = 1000, 20, 3, 300


def shown(job: Job, privatizer: TextPrivatizer) -> str:
    """Describe what a job would leave unprotected of its first texts; nothing is written.

    Returns:
        lines with counts by category, the most frequent words that stay, and texts before and
        after. They show raw text.

    Raises:
        RaptError: the input is not what it should be.
    """
    texts = list(islice(job.texts(), TEXTS))
    by_category, by_word = Counter[str](), Counter[str]()  # of those that stay
    fates, names = Counter[str](), Counter[str]()
    for category, word, fate, is_name in _fates(privatizer, texts):
        kind = fate.partition(" ")[0]
        fates[kind] += 1
        names[kind] += is_name
        if fate.startswith(VERBATIM_KIND):
            by_category[category] += 1
            by_word[word.lower()] += 1
    some = texts[:SHOWN]
    released = privatizer.release(some, account=NOWHERE)
    after = (joined(words, privatizer.keep_spacing) for words in released)
    return "\n".join(
        [
            f"Nothing is written. This shows your text: keep it to yourself. Of the "
            f"{fates.total()} words of the first {len(texts)} texts, {fates[NOISE]} get noise, "
            f"{fates['placeholder']} become placeholders, {fates['verbatim']} stay:",
            *(f"  {category}: {count}" for category, count in by_category.most_common()),
            *_of_names(privatizer, names),
            "Most often: "
            + (", ".join(f"{word} ({n})" for word, n in by_word.most_common(FREQUENT)) or "none"),
            *(
                f"{name}: {' '.join(text.split())[:WIDTH]}"
                for pair in zip(some, after, strict=True)
                for name, text in zip(("before", "after"), pair, strict=True)
            ),
        ]
    )


def _of_names(privatizer: TextPrivatizer, names: Counter[str]) -> Iterator[str]:
    if names.total():
        kept = 1 - strength.replaced_names(privatizer.privatizer).value
        yield (
            f"Of {names.total()} proper nouns {names['noise']} get noise, after which about "
            f"{kept:.0%} of them stand as they were; {names['placeholder']} become placeholders, "
            f"{names['verbatim']} stay."
        )


def _fates(privatizer: TextPrivatizer, texts: list[str]) -> Iterator[tuple[str, str, str, bool]]:
    """Yield each word's category, the word, its fate, and whether it is a name."""
    every = Scheme((ALL,))
    for part in chain.from_iterable(privatizer.tagged(texts)):
        rows = zip(part.words, part.pos, privatizer.prepared(part).fates, strict=True)
        for word, tag, fate in rows:
            category = every.names[every.group_of(tag)]
            yield category, word, fate, privatizer.privatizer.is_name(word, tag)
