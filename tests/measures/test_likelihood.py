"""A column of the channel from one word, against closed forms and against draws of every word."""

from itertools import product

import numpy as np
import pytest

from rapt.audit.exact import exact_law
from rapt.measures import likelihood as module
from rapt.measures.likelihood import likelihood, posterior
from rapt.privacy.base import PreparedText
from rapt.privacy.channel import estimate
from rapt.privacy.mechanisms import exponential, word_mechanism
from rapt.privacy.privatizer import Privatizer
from rapt.privacy.streams import stream
from rapt.text.table import EmbeddingTable
from rapt.utils.errors import RaptError


def privatizer(
    table: EmbeddingTable, name: str, eta: float, categories: tuple[str, ...] | None = None
) -> Privatizer:
    made = word_mechanism(name)
    return Privatizer(table=table, mechanism=made, eta=eta, categories=categories)


@pytest.mark.parametrize(("name", "eta"), list(product(("santext", "tem"), (0.5, 3.0))))
def test_a_closed_form_is_that_of_the_paper(table: EmbeddingTable, name: str, eta: float) -> None:
    made = privatizer(table, name, eta)
    (space,) = made.spaces()
    law = exact_law(made.mechanism, space, eta)
    assert law is not None
    found = np.column_stack([likelihood(made, 0, word) for word in table.words])
    assert found == pytest.approx(law, rel=1e-9)


def test_sums_over_a_sample_are_near_the_whole(
    table: EmbeddingTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = privatizer(table, "santext", 0.2)
    whole = likelihood(made, 0, "nouna")
    monkeypatch.setattr(exponential, "SUMMED", 12)
    sampled = likelihood(privatizer(table, "santext", 0.2), 0, "nouna")
    assert not np.array_equal(sampled, whole)
    assert sampled == pytest.approx(whole, rel=0.1)


@pytest.mark.parametrize(
    ("name", "categories", "eta"),
    [("t2t", None, 2.0), ("t2t", None, 6.0), ("pct2t", ("noun", "verb"), 4.0)],
)
def test_noise_has_the_law_that_draws_of_every_word_have(
    table: EmbeddingTable,
    name: str,
    categories: tuple[str, ...] | None,
    eta: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Within 5 standard errors of both; the noise is fixed, so that no run differs."""
    draws = 2048
    monkeypatch.setattr(module, "KEPT", draws)
    monkeypatch.setattr(module, "MOST", draws)
    made = privatizer(table, name, eta, categories)
    channel = estimate(made, made.candidates, draws, seed=1).matrix.toarray()
    for group in sorted({*made.groups_of_rows(made.candidates)}):
        rows = made.rows_of(group)
        drawn = channel[np.searchsorted(made.candidates, rows)][:, rows]
        found = np.column_stack([likelihood(made, group, table.words[row]) for row in rows])
        # At most once and twice the variance of as many draws of the word itself.
        error = np.sqrt(3 * np.maximum(drawn, 1 / draws) / draws)
        assert (np.abs(found - drawn) < 5 * error).all()
        assert found.sum(axis=1) == pytest.approx(np.ones(len(rows)), abs=0.1)


def test_the_posterior_weighs_by_public_frequency(table: EmbeddingTable) -> None:
    made = privatizer(table, "santext", 1.0)
    joint = likelihood(made, 0, "verba") * table.frequency
    assert posterior(made, 0, "verba") == pytest.approx(joint / joint.sum())


def test_a_word_that_is_never_released_has_no_likelihood() -> None:
    twins = np.zeros((2, 8), np.float32)  # of which the first is always the nearest
    even = np.ones(2)
    assert module._of_noise(twins, even, 1, 3.0, stream(0)).tolist() == [0, 0]
    assert module._of_noise(twins, even, 0, 3.0, stream(0)) == pytest.approx(np.ones(2))


def test_another_mechanism_is_refused(table: EmbeddingTable) -> None:
    with pytest.raises(RaptError, match=r"^mechanism: got vickrey, expected t2t, pct2t, santext"):
        posterior(privatizer(table, "vickrey", 1.0), 0, "nouna")


@pytest.mark.parametrize(("name", "eta"), [("t2t", 4.0), ("santext", 4.0)])
def test_the_attacker_is_as_often_right_as_he_says(
    table: EmbeddingTable, name: str, eta: float
) -> None:
    """Of words drawn by public frequency; within 4 standard errors of noise that is fixed."""
    made, draws = privatizer(table, name, eta), 4000
    rng = stream(1, name)
    share = table.frequency / table.frequency.sum()
    words = [table.words[row] for row in rng.choice(len(share), draws, p=share)]
    (released,) = made.privatize([PreparedText(words, [0] * draws, lambda: rng)])
    found = [posterior(made, 0, word) for word in released]
    right = [table.words[one.argmax()] == word for one, word in zip(found, words, strict=True)]
    says = np.mean([one.max() for one in found])
    assert 0.3 < says < 0.95
    assert np.mean(right) == pytest.approx(says, abs=4 * 0.5 / np.sqrt(draws))
