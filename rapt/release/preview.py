"""`rapt privatize --preview`: which of the user's own words would stay, for their eyes alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import islice

from rapt.privacy import strength
from rapt.privacy.categories import ALL, VERBATIM, Scheme
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
    words = noise = 0
    names = Counter[str]()
    for category, word, group, is_name in _fates(privatizer, texts):
        words += 1
        noise += group != VERBATIM
        if is_name:
            names["noise" if group != VERBATIM else "stay" if word else "placeholder"] += 1
        if group == VERBATIM and word:
            by_category[category] += 1
            by_word[word.lower()] += 1
    stay = by_word.total()
    hidden = words - noise - stay
    some = texts[:SHOWN]
    released = privatizer.release(some, account=NOWHERE)
    after = (joined(words, privatizer.keep_spacing) for words in released)
    return "\n".join(
        [
            f"Nothing is written. This shows your text: keep it to yourself. Of the {words} words "
            f"of the first {len(texts)} texts, {noise} get noise, {hidden} become placeholders, "
            f"{stay} stay:",
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
    if names:
        kept = 1 - strength.replaced_names(privatizer.privatizer).value
        yield (
            f"Of {names.total()} proper nouns {names['noise']} get noise, after which about "
            f"{kept:.0%} of them stand as they were; {names['placeholder']} become placeholders, "
            f"{names['stay']} stay."
        )


def _fates(privatizer: TextPrivatizer, texts: list[str]) -> Iterator[tuple[str, str, int, bool]]:
    """Yield each word's category, the word if it is released, its group, and if it is a name."""
    every = Scheme((ALL,))
    for pieces in privatizer.tagged(texts):
        for part in pieces:
            text = privatizer.prepared(part)
            rows = zip(part.words, part.pos, text.words, text.groups, strict=True)
            for word, tag, shown, group in rows:
                category = every.names[every.group_of(tag)]
                is_name = privatizer.privatizer.is_name(word, tag)
                yield category, word if shown == word else "", group, is_name
