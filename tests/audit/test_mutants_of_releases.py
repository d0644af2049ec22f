"""Ways to release texts that are broken on purpose: the audit catches each.

Chance plays no part in a pass that would be wrong: the audit's false alarms are below 1e-6.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import gamma

from rapt.audit import FALSE_ALARM, Verdict, paths, ways
from rapt.audit.laws import Check
from rapt.audit.paths import Paths
from rapt.audit.strata import Law
from rapt.privacy.privatizer import Privatizer
from rapt.release import text as release_text
from rapt.release.text import TextPrivatizer, tagged_pieces
from rapt.text.tagged import Tagged
from rapt.text.tagging import Tagger
from tests.audit.broken_generators import entropy, few_states, shared

pytestmark = pytest.mark.slow  # some minutes in all
SHARE = FALSE_ALARM / 20
MOST_CHECKS = 300  # of a way to release texts, or more than it has: test_paths.py


def cached(release):
    """Each text is released once: the same text becomes the same again."""
    known: dict[str, list] = {}

    def release_tagged(self, raw, texts, *names, **how):
        for one, text in zip(raw, texts, strict=True):
            key = str(text)
            known[key] = known.get(key) or release(self, [one], [text], *names, **how)[0]
        return [known[str(text)] for text in texts]

    return release_tagged


class SpendsMore(Privatizer):
    def __init__(self, *, eta, **how):
        super().__init__(eta=1.4 * eta, **how)


def verbatim(chosen: Callable[[str, int, int], bool], share: float = 1.0):
    """Words of which some stand as they are, by word, place and number of the text."""

    def broken(release):
        def release_tagged(self, raw, texts, *names, **more):
            rng = np.random.default_rng()
            return [
                [
                    word._replace(released=word.original.lower())
                    if chosen(word.original, place, number) and rng.random() < share
                    else word
                    for place, word in enumerate(text)
                ]
                for number, text in enumerate(release(self, raw, texts, *names, **more))
            ]

        return release_tagged

    return broken


def beyond_a_piece(release):
    """Only the first piece of a text is privatized."""

    def release_tagged(self, raw, texts, *names, **more):
        released = release(self, raw, texts, *names, **more)
        return [
            [
                word if place < len(parts[0].words) else word._replace(released=word.original)
                for place, word in enumerate(text)
            ]
            for parts, text in zip(texts, released, strict=True)
        ]

    return release_tagged


RELEASES = {
    "cached": cached,
    "long words verbatim": verbatim(lambda word, *_: len(word) > 6),
    "words of one letter verbatim": verbatim(lambda word, *_: len(word) == 1),
    "capitalised words verbatim": verbatim(lambda word, *_: word[:1].isupper()),
    "words beyond ASCII verbatim": verbatim(lambda word, *_: not word.isascii()),
    "words with a digit verbatim": verbatim(lambda word, *_: any(map(str.isdigit, word))),
    "the first word of a text": verbatim(lambda _, place, __: not place),
    "every 1,000th text": verbatim(lambda _, __, number: number % 1000 == 999),
    "2 % of words": verbatim(lambda *_: True, 0.02),
    "2 % of capitalised words": verbatim(lambda word, *_: word[:1].isupper(), 0.02),
    "beyond a piece": beyond_a_piece,
}


def noise_of(change: Callable) -> type[Privatizer]:
    """A privatizer whose noise is changed word by word, after it was drawn, text by text."""

    class Changed(Privatizer):
        def _replace(self, words, vectors, sources, batch):
            mechanism, table, texts = self.mechanism, self.table, iter(batch)

            class Drawing(type(mechanism)):
                claim = mechanism.claim

                def draw(self, rng, n, dimension):
                    return change(mechanism.draw(rng, n, dimension), next(texts).words, table)

            self.mechanism = Drawing()
            try:
                super()._replace(words, vectors, sources, batch)
            finally:
                self.mechanism = mechanism

    return Changed


def scaled(where: Callable[[str], bool], factor: float) -> Callable:
    def change(noise, words, _table):
        return noise * np.where([where(word) for word in words], factor, 1.0)[:, None]

    return change


def mixed(lag: int) -> Callable:
    """Each word's direction shares some with that of the word `lag` before."""

    def change(noise, _words, _table):
        size = np.linalg.norm(noise, axis=1, keepdims=True)
        unit = noise / size
        unit[lag:] += 0.3 * unit[:-lag]
        return unit / np.linalg.norm(unit, axis=1, keepdims=True) * size

    return change


def along_a_difference(noise, _words, table):
    """No noise along the difference of two words."""
    axis = np.asarray(table.vectors[7], np.float64) - table.vectors[99]
    axis /= np.linalg.norm(axis)
    return noise - (noise @ axis)[:, None] * axis


def cut(quantile: float) -> Callable:
    def change(noise, _words, _table):
        size = np.linalg.norm(noise, axis=1, keepdims=True)
        most = gamma.ppf(quantile, noise.shape[1])
        return noise * np.minimum(1, most / size)

    return change


def coarse_size(noise, _words, _table):
    """The size of the noise is drawn of 2^20 numbers."""
    size = np.linalg.norm(noise, axis=1, keepdims=True)
    uniform = (np.floor(gamma.cdf(size, noise.shape[1]) * 2**20) + 0.5) / 2**20
    return noise / size * gamma.ppf(uniform, noise.shape[1])


PRIVATIZERS = {
    "eta": SpendsMore,
    "half for long words": noise_of(scaled(lambda word: len(word) > 6, 0.5)),
    "half for words with a capital": noise_of(scaled(lambda word: word.lower() != word, 0.5)),
    "eta doubled for rare words": noise_of(scaled(lambda word: hash(word) % 10 == 0, 0.5)),
    "eta times 1.1 beyond ASCII": noise_of(scaled(lambda word: not word.isascii(), 1 / 1.1)),
    "words 1 apart": noise_of(mixed(1)),
    "words 2 apart": noise_of(mixed(2)),
    "words 3 apart": noise_of(mixed(3)),
    "one direction": noise_of(along_a_difference),
    "tails at 99.9 %": noise_of(cut(0.999)),
    "float16": noise_of(lambda noise, *_: noise.astype(np.float16).astype(np.float64)),
    "float32": noise_of(lambda noise, *_: noise.astype(np.float32).astype(np.float64)),
    "20 bits": noise_of(coarse_size),
}


def verdict(checks: list[Check]) -> Verdict:
    return Verdict("", checks=checks, level=SHARE / len(checks))


@pytest.fixture(autouse=True)
def cut_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the checks after one that fails at any level: they don't change the verdict."""
    every = Law.checks

    def checks(self: Law, *seen: Any) -> Iterator[Check]:
        for check in every(self, *seen):
            yield check
            if check.p < SHARE / MOST_CHECKS:
                return

    monkeypatch.setattr(Law, "checks", checks)


@pytest.fixture(autouse=True)
def tagged_once(
    known: dict[tuple[bool, tuple[str, ...]], list[list[Tagged]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tag texts once for all mutants of what is done with their words."""

    def tagged(tagger: Tagger, texts: Sequence[str]) -> list[list[Tagged]]:
        key = tagger._tags, tuple(texts)
        if key not in known:
            known[key] = list(tagged_pieces(tagger, texts))
        return [[part.part(slice(None)) for part in parts] for parts in known[key]]

    monkeypatch.setattr(release_text, "tagged_pieces", tagged)


@pytest.fixture(scope="module")
def known() -> dict[tuple[bool, tuple[str, ...]], list[list[Tagged]]]:
    return {}


@pytest.mark.parametrize("broken", RELEASES)
def test_mutant_of_a_release(broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Faults that depend on the word, its place or its text, with the noise seen and without."""
    release = RELEASES[broken](TextPrivatizer.release_tagged)
    monkeypatch.setattr(TextPrivatizer, "release_tagged", release)
    law, texts, noise = Paths(tmp_path).ways()["files"]()
    assert verdict(list(law.checks(texts, noise))).violated
    assert verdict(list(law.checks(texts, ()))).violated


def test_mutant_of_a_release_by_spacy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of whose documents the audit sees the words alone; the fault that shows least in them."""
    release = RELEASES["2 % of capitalised words"](TextPrivatizer.release_tagged)
    monkeypatch.setattr(TextPrivatizer, "release_tagged", release)
    ((_, checks, *_),) = paths.released(["spaCy"])
    assert verdict(checks).violated


@pytest.mark.parametrize("broken", PRIVATIZERS)
def test_mutant_of_the_noise(broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release_text, "Privatizer", PRIVATIZERS[broken])
    ((_, checks, *_),) = paths.released(["files"])
    assert verdict(checks).violated


class AmongAllWords(Privatizer):
    """PCT2T that takes the whole table for each category."""

    def spaces(self):
        return [self._whole()] * len(super().spaces())

    def __init__(self, **options):
        super().__init__(**options)
        self._groups = [self._groups[-1]] * len(self._groups)


def test_mutant_that_leaves_the_category(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release_text, "Privatizer", AmongAllWords)
    ((_, checks, *_),) = paths.released(["category"])
    assert verdict(checks).violated


@pytest.mark.parametrize("broken", ["16 states", "shared by forks"])
def test_mutant_generator_on_the_way_of_a_release(
    broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a fault nothing is found: test_paths.py."""
    monkeypatch.setattr(paths, "GENERATORS", 1 << 10)
    expected = {"by workers", "by spaCy", "by datasets.map", "generator"}
    if broken == "16 states":
        entropy(monkeypatch, few_states(16))
        expected |= {"by files", "by category"}
    else:
        shared(monkeypatch)
    assert {found.name for found in ways(SHARE) if found.violated} == expected
