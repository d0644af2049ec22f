"""Attribute inference from the words themselves, as authors are told apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt
from threadpoolctl import threadpool_limits

from rapt.attacks.base import Inference, Release, Values

if TYPE_CHECKING:
    from rapt.text.table import EmbeddingTable


class Authorship(Inference):
    """Attribute inference from a text's released words and word pairs, by logistic regression.

    With `characters` it counts n-grams of them as well. That helps where words are the author's
    own: a released word is one of the table's, and its spelling tells no more than the word.
    """

    source = "the usual baseline of authorship attribution; Fernandes et al., 2019"
    attacker_knowledge = "released texts whose attribute is known"

    type: Literal["authorship"]
    longest: PositiveInt = Field(2, description="words in a row that count as one feature")
    characters: NonNegativeInt = Field(
        0, description="characters in a row, within words, that count as well; 0: none"
    )
    strength: PositiveFloat = Field(10.0, description="1 / the penalty on squared weights")

    def guesses(
        self, table: EmbeddingTable, own: Release, values: Values, victims: Release, seed: int
    ) -> dict[str, list[str]]:
        """Weigh the words of the attacker's own texts, then read the victims'."""
        from sklearn.feature_extraction.text import TfidfVectorizer
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline, make_union

        kinds: list[dict[str, Any]] = [{"analyzer": lambda text: _runs(text, self.longest)}]
        if self.characters:
            within_words = {"analyzer": "char_wb", "ngram_range": (1, self.characters)}
            kinds.append(within_words | {"preprocessor": " ".join})
        count = make_union(*(TfidfVectorizer(**kind, sublinear_tf=True) for kind in kinds))
        weigh = LogisticRegression(C=self.strength, max_iter=1000)
        # One thread, so that the figures do not depend on how many cores there are.
        with threadpool_limits(1):
            return {
                name: make_pipeline(count, weigh).fit(own.words, of).predict(victims.words).tolist()
                for name, of in values.items()
            }


def _runs(text: Sequence[str], longest: int) -> list[str]:
    """Every run of up to so many words."""
    return [
        " ".join(text[at : at + length])
        for length in range(1, longest + 1)
        for at in range(len(text) - length + 1)
    ]
