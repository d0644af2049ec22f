import pandas as pd
import pyarrow as pa

from rapt.data import checks
from rapt.data.examples import COLUMNS


def comparable(split: pa.Table) -> pd.DataFrame:
    return checks.comparable(split, COLUMNS)


def _split(*texts: str, **columns: list[list[str]]) -> pa.Table:
    none = pa.nulls(len(texts), pa.string())
    return pa.table({"text": texts, "text_pair": none, "choices": none, **columns})


def test_texts_that_differ_by_case_and_white_space_are_the_same() -> None:
    ones, others = (comparable(_split(*texts)) for texts in ((" TWO\n", "three"), ("two", "four")))
    assert ones["identity"].isin(others["identity"]).tolist() == [True, False]


def test_the_words_and_tags_of_a_text_are_counted() -> None:
    frame = comparable(_split("a b", "a b c", entities=[["O", "O"], ["O", "O"]]))
    assert frame["words_of_text"].tolist() == [2, 3]
    assert frame["tags_of_text"].tolist() == [2, 2]
    assert "tags_of_text" not in comparable(_split("one"))
