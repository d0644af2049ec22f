import inspect
import pickle
from dataclasses import fields

import numpy as np
import pytest

from rapt.privacy.mechanisms import (
    MECHANISMS,
    RewritingMechanism,
    Space,
    VectorMechanism,
    WordMechanism,
    mechanism,
    parameters,
    word_mechanism,
)
from rapt.privacy.streams import stream
from rapt.utils.errors import RaptError

WORDS = [name for name, kind in MECHANISMS.items() if issubclass(kind, WordMechanism)]
# What the published constants of truncated-gumbel need on these twelve words.
ETA = {"truncated-gumbel": 200.0}


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_says_what_it_is(name: str) -> None:
    made = mechanism(name)
    assert made.name == name
    assert made.source and made.metric
    assert "claim" in vars(MECHANISMS[name])
    assert made.claim.unit == ("one word" if made.releases.aligned else "one text")
    assert "{" not in made.metric + made.claim.law("75")
    bases = (VectorMechanism, WordMechanism, RewritingMechanism)
    assert sum(isinstance(made, base) for base in bases) == 1
    assert not {inspect.getdoc(base) for base in type(made).__bases__} & {inspect.getdoc(made)}
    for field in fields(made):
        assert field.metadata["help"]
    assert mechanism(name, **parameters(made)) == made
    again = pickle.loads(pickle.dumps(made))  # as processes of an audit or a release pass it on
    assert again == made and again.claim.law("75") == made.claim.law("75")


ABOVE, WHOLE, AT_LEAST = "a number above 0.", "a whole number above 0.", "a number of at least 0"
SHARE, FROM = "a number above 0 and below 1.", "a number from 0 to 1."


@pytest.mark.parametrize(
    ("name", "parameter", "value", "expected"),
    [
        ("tem", "beta", 1, SHARE),
        ("mahalanobis", "weight", 1.0, AT_LEAST),
        ("vickrey", "threshold", -1, FROM),
        ("custext", "size", 1, "2 or more."),
        ("santext-plus", "p", 0, "a number above 0 and at most 1."),
        ("gaussian", "delta", 0.0, SHARE),
        ("gaussian", "delta", float("nan"), SHARE),
        ("gaussian", "dimensions", -1, "a whole number of at least 0."),
        ("dpnr", "mu", 1.0, f"{AT_LEAST} and below 1."),
        ("dpnr", "mu", float("nan"), AT_LEAST),
        ("ome-as-written", "weight", 0.0, ABOVE),
        ("split", "layer", -1, "a whole number of at least 0."),
        ("split", "grid", 0.0, ABOVE),
        ("sap", "spared", 2.0, FROM),
        ("privtune", "neighbours", 0, WHOLE),
        ("privtune", "hops", 0, WHOLE),
        ("privtune", "pull", 1.5, FROM),
        ("privtune", "heavier", -1.0, AT_LEAST),
        ("dp-forward", "clip", 0.0, ABOVE),
        ("dp-forward", "tokens", 0, WHOLE),
    ],
)
def test_a_parameter_out_of_range_is_one_line(
    name: str, parameter: str, value: float, expected: str
) -> None:
    with pytest.raises(RaptError) as error:
        mechanism(name, **{parameter: value})
    assert str(error.value).startswith(f"{parameter}: got {value}, expected {expected}")


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"type": "t3t"}, "mechanism: got 't3t', expected one of custext, imola"),
        ({"type": "tem", "bata": 1}, "mechanism tem: got 'bata', expected beta. Did you mean"),
        ({"type": "adept"}, "mechanism: got 'adept', expected one of custext"),
    ],
)
def test_errors_say_what_is_allowed(given: dict[str, object], line: str) -> None:
    with pytest.raises(RaptError) as error:
        word_mechanism(**given)  # type: ignore[arg-type]
    assert str(error.value).startswith(line)


@pytest.mark.parametrize("name", WORDS)
def test_batches_and_order_do_not_matter(name: str, plane: Space) -> None:
    made = word_mechanism(name)
    release = made.sampler(plane, ETA.get(name, 2.0))
    rng = np.random.default_rng(0)
    # Candidates, and vectors of words that are none.
    vectors = np.concatenate([plane.vectors, rng.standard_normal((40, 2)).astype(np.float32)])
    draws = made.draw(stream(0, name), len(vectors), 2)
    whole = release(vectors, draws)
    assert whole.shape == (52,)
    assert set(whole) <= set(range(12))
    np.testing.assert_array_equal(release(vectors[::-1], draws[::-1]), whole[::-1])
    one_by_one = [release(vectors[i : i + 1], draws[i : i + 1])[0] for i in range(len(vectors))]
    np.testing.assert_array_equal(one_by_one, whole)
    assert release(vectors[:0], draws[:0]).shape == (0,)


# The others do not by their definition, or by the solver's least probability.
CHANGING = {"vickrey", "santext-plus", "imola", "truncated-gumbel"}


@pytest.mark.parametrize("name", sorted({*WORDS} - CHANGING))
def test_a_large_eta_keeps_candidates(name: str, plane: Space) -> None:
    made = word_mechanism(name)
    released = made.sampler(plane, 1e6)(plane.vectors, made.draw(stream(1, name), 12, 2))
    np.testing.assert_array_equal(released, np.arange(12))


def test_the_amount_drawn_does_not_depend_on_the_words() -> None:
    for name in WORDS:
        rng = stream(0, "x")
        made = word_mechanism(name)
        both = made.draw(rng, 3, 5)
        assert len(both) == 3
