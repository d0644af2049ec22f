"""Examples of releases."""

from pathlib import Path

from rapt.utils import files
from stages import examples
from tests.stages.conftest import edited
from tests.stages.test_vectors import release


def test_examples_are_words(movies: Path) -> None:
    release("2")
    with edited() as content:
        content["sweep"] |= {"methods": ["t2t", "vectors"], "attacked": ["t2t"]}
        content["sweep"] |= {"channels": [], "channel_inversions": []}
    examples.main()
    for sentence in files.read_json("reports/examples.json")["sentences"]:
        shown = {(r["method"], r["eta"]): r["words"] for r in sentence["releases"]}
        assert shown["t2t", "75"] == shown["vectors", "75"]
