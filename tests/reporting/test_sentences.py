"""The example sentences."""

import pytest

from rapt import paths
from rapt.params import Params
from rapt.reporting.sentences import sentences

# Each test draws a whole page.
pytestmark = pytest.mark.slow


def test_examples_mark_what_was_replaced(whole: Params) -> None:
    text = paths.REPORT.read_text()
    assert f"<q>{sentences()[0]['text']}</q>" in text
    assert sentences()[0]["text"] == "the emotions are raw and will strike a nerve"
    assert "<mark>synthetic1</mark>" in text
    assert "Anna Berger, 54, was admitted on 12 March" in text
    assert len(sentences()) == 10
    for sentence in sentences():
        assert f"<q>{sentence['text']}</q>" in text
    assert text.index('id="examples"') < text.index('id="claims"')
