"""Numbers and names as the report prints them."""

import pytest

from rapt.reporting import text


@pytest.mark.parametrize(
    ("share", "sd", "printed"),
    [(None, None, "–"), (0.5, None, "50.0"), (-0.1, 0.01, "−10.0 ± 1.0"), (-1e-9, None, "0.0")],
)
def test_a_share_is_in_percent_and_zero_has_no_sign(
    share: float | None, sd: float | None, printed: str
) -> None:
    assert text.percent(share, sd).replace(text.NBSP, " ") == printed


def test_a_span_is_one_number_where_its_ends_print_alike() -> None:
    assert text.span([0.2, None, 0.1]) == "10.0 to 20.0"
    assert text.span([0.1, 0.10001]) == "10.0"
    assert text.span([None]) == "–"


def test_differences_have_their_sign() -> None:
    assert [text.points(found) for found in (0.012, -0.012, 0)] == ["+1.2", "−1.2", "0.0"]
    assert [text.number(found, "+") for found in (3, None)] == ["+3.0", "–"]
    assert [text.eta_number(found) for found in (None, 9.1234, 103.04)] == ["∞", "9.12", "103.0"]


def test_lists_and_counts_read_as_english() -> None:
    lists = [text.listing(items) for items in ([], ["a"], ["a", "b"], ["a", "b", "c"])]
    assert lists == ["nothing", "a", "a and b", "a, b and c"]
    assert [text.count(number, "cell") for number in (1, 2000)] == ["1 cell", "2,000 cells"]


def test_sections_have_dotted_names() -> None:
    section = {"a": {"b": [1, 2], "c": None}, "d": True}
    assert text.flat("", section) == {"a.b": "1, 2", "a.c": "null", "d": "True"}


def test_a_level_follows_a_method_s_name() -> None:
    at = [text.at_eta(eta).replace(text.NBSP, " ") for eta in ("75", "recovered-20", "replaced-50")]
    assert at == ["at η = 75", "(at most 20% recovered)", "(50% replaced)"]
