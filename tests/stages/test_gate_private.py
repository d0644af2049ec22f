"""The gate of a task's releases."""

from pathlib import Path

import pytest

from rapt.utils import files
from rapt.utils.errors import RaptError
from stages import gate_private, privatize
from tests.stages.conftest import GATE, RELEASE, edited, gate, put_columns


def test_the_gate_counts_all_words(movies: Path) -> None:
    findings = gate()
    for k, seed in enumerate(findings["replaced"]):
        before, after = protected(k)
        assert seed["words"] == len(before)
        assert seed["replaced"] == sum(b != a for b, a in zip(before, after, strict=True))
        assert seed["share"] == seed["replaced"] / seed["words"]
        assert seed["ties"] == 0
    assert gate() == findings


def protected(k: int) -> tuple[list[str], list[str]]:
    """The protected words of both splits, before and after."""
    pairs = []
    for split in ("train", "test"):
        tagged = files.read_parquet(f"data/tagged/movies/{split}.parquet").to_pydict()
        after = files.read_parquet(RELEASE / f"seed-{k}/{split}.parquet")["words"].to_pylist()
        texts = zip(tagged["words"], tagged["pos"], after, strict=True)
        for text in texts:
            pairs += [(b, a) for b, tag, a in zip(*text, strict=True) if tag in ("NOUN", "VERB")]
    return [before for before, _ in pairs], [after for _, after in pairs]


def test_the_gate_of_a_task_checks_all_its_releases(movies: Path) -> None:
    with edited() as content:
        content["sweep"] |= {"methods": ["rapt"], "attacked": [], "etas": [1, 2]}
        content["sweep"] |= {"tune_at": [], "channels": [], "channel_inversions": []}
        content["tasks"]["movies"]["authors"] = ["id"]
    for split in ("train", "test"):
        put_columns(f"data/tagged/movies/{split}.parquet", author=list(range(100)))
    folder = GATE.parent
    files.write_json(folder / "rapt-3.json", {})
    for method, eta, name in (("rapt", "1", "rapt-1"), ("clean", "inf", "clean")):
        privatize.main("movies", method, eta, "minilm", RELEASE.with_name(name))
    gate_private.main("movies")
    for name in ("rapt-1", "clean"):  # which stays with the user
        release = files.read_parquet(RELEASE.with_name(name) / "seed-0/train.parquet")
        assert ("author" in release.column_names) == (name == "clean")
    assert {path.name for path in folder.iterdir()} == {"rapt-1.json", "rapt-2.json", "clean.json"}
    assert gate() == files.read_json(folder / "rapt-2.json")
    for eta in ("1", "2"):
        (RELEASE.with_name(f"rapt-{eta}") / "notes.txt").write_text("x")
    with pytest.raises(RaptError) as error:
        gate_private.main("movies")
    lines = str(error.value).splitlines()
    assert [line.split(": ")[0] for line in lines] == [
        f"{folder}/rapt-{eta}.json" for eta in (1, 2)
    ]
    passed = {path.stem: files.read_json(path)["passed"] for path in folder.iterdir()}
    assert passed == {"rapt-1": False, "rapt-2": False, "clean": True}
