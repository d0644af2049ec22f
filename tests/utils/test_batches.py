"""Batches of things that differ in size."""

from rapt.utils.batches import by_size


def test_a_batch_ends_where_the_size_is_reached() -> None:
    assert list(by_size(["abc", "", "d", "ef"], len, 3)) == [["abc"], ["", "d", "ef"]]


def test_the_rest_is_a_batch_and_nothing_is_none() -> None:
    assert list(by_size(["ab", "cd", "e"], len, 4)) == [["ab", "cd"], ["e"]]
    assert list(by_size([], len, 4)) == []
