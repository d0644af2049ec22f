"""The perceptron that inverts a release: words, vectors, and how much it learns from."""

from __future__ import annotations

import numpy as np
from threadpoolctl import threadpool_limits

from rapt.attacks.base import Pairs, Public, Release
from tests.attacks.two_words import ATTACKER, texts
from tests.attacks.two_words import public as public


def test_it_learns_from_as_many_words_as_it_is_given(public: Public) -> None:
    words = [["nouna"]] * 10 + [["nounb"]] * 90
    own = Pairs(words, Release(words))
    few = ATTACKER.model_copy(update={"pairs": 10})
    assert few.fit(public, own, 0).words([Release([["nouna", "nounb"]])]) == [["nouna", "nouna"]]


def test_guesses_do_not_depend_on_the_number_of_threads(public: Public) -> None:
    own = texts(np.array([[0.6, 0.4], [0.4, 0.6]]), 0, 500)

    def once() -> list[list[str]]:
        return ATTACKER.fit(public, own, 3).words([own.released])

    with threadpool_limits(2):
        two = once()
    assert once() == two


def test_it_reads_vectors_where_vectors_are_released(public: Public) -> None:
    """The released words are all the same: only the vectors distinguish originals."""
    rng = np.random.default_rng(0)
    words = [[str(word)] for word in rng.choice(["nouna", "nounb"], 2000)]
    centres = public.table.embed([text[0] for text in words])
    noise = 0.05 * rng.standard_normal(centres.shape)
    release = Release([["verba"]] * 2000, (centres + noise).astype(np.float32))
    half = Release(release.words[:1000], release.vectors[:1000])  # type: ignore[index]
    victims = Release(release.words[1000:], release.vectors[1000:])  # type: ignore[index]
    assert ATTACKER.fit(public, Pairs(words[:1000], half), 0).words([victims]) == words[1000:]
