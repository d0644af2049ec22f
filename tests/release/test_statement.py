from collections.abc import Callable

from rapt.privacy.fates import Counts
from rapt.release.statement import statement
from rapt.release.text import TextPrivatizer
from tests.release.conftest import FOUR


def test_the_statement_says_what_is_released_as_it_is(
    make: Callable[..., TextPrivatizer], pct2t: TextPrivatizer
) -> None:
    content = statement(pct2t, ["text"], Counts(others={"id"}))
    assert content["columns"] == ["id"]
    assert content["spacing"] == "single spaces"
    assert "Columns released as they are: id." in content["not_covered"]
    assert any("are replaced by placeholders" in gap for gap in content["not_covered"])
    kept = make(eta=1, categories=FOUR, keep_identifiers=True, keep_spacing=True)
    content = statement(kept, ["text"], Counts())
    assert content["spacing"] == "as in the texts"
    assert not any("placeholders" in gap for gap in content["not_covered"])
