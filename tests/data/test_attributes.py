import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rapt.data import attributes
from rapt.data.config import Bins, MostFrequent
from rapt.utils.errors import RaptError


def bins(count: int) -> Bins:
    return Bins(type="bins", column="age", least=0, most=100, count=count, edges=None)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("34", 34),
        ("2.0", 2),
        (" 45 ", 45),
        ("45.0", 45),
        ("37years", 37),
        (",30", 30),
        (".5", 0.5),
        ("-3", -3),
        ("NA", None),
        ("prefer not to say", None),
        ("{}", None),
        ("", None),
        (None, None),
        ("25-30", None),
        ("1,200", None),
    ],
)
def test_the_one_number_of_dirty_strings(value: str | None, found: float | None) -> None:
    assert attributes.number(value) == found


@given(st.text() | st.from_regex(r"\d+\.?\d*\w*"))
def test_any_string_has_a_number_or_none(value: str) -> None:
    found = attributes.number(value)
    assert (found is not None) <= any(c.isdigit() for c in value)


def test_the_most_frequent_values_and_ties_by_spelling() -> None:
    values = ["c", "b", "b", "a", "", "", " ", " ", None, None]
    how = MostFrequent(type="most-frequent", column="who", count=2)
    assert attributes.most_frequent(values, how, "k") == {"b", "a"}
    with pytest.raises(RaptError) as error:
        attributes.most_frequent(["secret", "secret"], how, "tasks.a.attributes.author")
    assert str(error.value) == (
        "tasks.a.attributes.author.count: got 2, expected at most 1, the different values that are "
        "left."
    )


def test_edges_that_are_given_part_whatever_the_numbers_are() -> None:
    years = Bins(type="bins", column="y", least=1900, most=2010, count=None, edges=[1956, 1964])
    edges = attributes.edges([1990] * 5, years, "k")
    names = attributes.binned([1955, 1956, 1963, 1964, 1990], edges)
    first, second, third = "[1900, 1956)", "[1956, 1964)", "[1964, 2010]"
    assert names == [first, second, second, third, third]


def test_bins_are_named_by_their_edges() -> None:
    edges = attributes.edges([10, 20, 30, 40, 50.5, 60], bins(3), "k")
    assert edges == [0, 30, 50.5, 100]
    names = attributes.binned([0, 29.9, 30, 50, 50.5, 100], edges)
    assert names == ["[0, 30)"] * 2 + ["[30, 50.5)"] * 2 + ["[50.5, 100]"] * 2


@given(
    numbers=st.lists(st.integers(0, 100) | st.floats(0, 100), min_size=1, max_size=60),
    count=st.integers(2, 6),
)
def test_bins_are_equally_full_but_for_equal_numbers(numbers: list[float], count: int) -> None:
    try:
        edges = attributes.edges(numbers, bins(count), "k")
    except RaptError as error:
        assert "expected fewer, as equal numbers stay together" in str(error)
        _, copies = np.unique(numbers, return_counts=True)
        assert copies.max() > len(numbers) / count / 2
        return
    assert edges == sorted(edges)
    names = attributes.binned(numbers, edges)
    sizes = {name: names.count(name) for name in names}
    assert len(sizes) == count
    most_equal = max(numbers.count(number) for number in numbers)
    assert all(abs(size - len(numbers) / count) <= most_equal for size in sizes.values())


def test_numbers_too_much_alike() -> None:
    with pytest.raises(RaptError) as error:
        attributes.edges([3, 3, 3, 4], bins(3), "tasks.a.attributes.age")
    assert str(error.value) == (
        "tasks.a.attributes.age.count: got 3, expected fewer, as equal numbers stay together "
        "and fill 2 of them."
    )
