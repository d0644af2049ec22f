"""The language of texts, told by py3langid, which brings its model along."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from rapt.utils.errors import RaptError, not_allowed

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

ANY = "any"  # the language of texts that are not checked
NONE = "zxx"  # what is no language: tables of numbers, code
# A sample of so many texts, from each its first characters. Nothing is said of fewer letters, nor
# if the expected language is more likely. Of 300 samples each, none of eleven English files fails.
TEXTS, CHARACTERS, LETTERS, UNLIKELY = 100, 200, 100, 0.01


def of_tagger(package: str) -> str:
    """Return the language of a spaCy model, which its name begins with: `en` of en_core_web_sm."""
    return package.partition("_")[0]


def check_table(of_table: str | None, of_tagger: str) -> None:
    """Check that a table and a tagger are of one language, as far as that is noted.

    Raises:
        RaptError: they are not.
    """
    if of_table not in (None, ANY, of_tagger):
        raise RaptError(
            f"table: got words in {of_table!r}, expected {of_tagger!r}, the tagger's language. "
            f"Take a tagger of the table's, or override it: --language {ANY}."
        )


def check(texts: Sequence[str], of_tagger: str, language: str | None) -> None:
    """Check that texts are in the language that is expected of them.

    Args:
        texts: as they are.
        of_tagger: the tagger's language.
        language: that of the texts (ISO 639-1) or ANY; None: the tagger's.

    Raises:
        RaptError: they are in another language, or there is none of this code.
    """
    if language == ANY:
        return
    expected = language or of_tagger
    known = _identifier().labels
    if expected not in known:
        if language:
            raise RaptError(not_allowed("language", language, (*known, ANY)))
        return
    few = texts[:: 1 + len(texts) // TEXTS]
    sample = "\n".join(text[:CHARACTERS] for text in few)
    if sum(map(str.isalpha, sample)) < LETTERS:
        return
    # Half of a surrogate pair, which has no UTF-8, is refused where the text is read.
    likely = dict(_identifier().rank(sample.encode(errors="replace").decode()))
    found = max(likely, key=likely.__getitem__)
    if found not in (expected, NONE) and likely[expected] < UNLIKELY:
        raise RaptError(
            f"language: got texts in {found!r}, expected {expected!r}. Take a tagger and a table "
            f"of that language, or override it: --language {found}, or language in params.yaml."
        )


@cache
def _identifier() -> LanguageIdentifier:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
