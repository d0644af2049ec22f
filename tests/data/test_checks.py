import pyarrow as pa

from rapt.data.checks import flags


def _split(*texts: str, **columns: list[list[str]]) -> pa.Table:
    none = pa.nulls(len(texts), pa.string())
    return pa.table({"text": texts, "text_pair": none, "choices": none, **columns})


def test_a_text_of_the_evaluation_split_is_not_new() -> None:
    frame = flags(_split("one", " TWO\n", "three"), _split("two", "four"))
    assert frame["is_new"].tolist() == [True, False, True]
    assert "is_new" not in flags(_split("one"), None)


def test_each_word_needs_its_tag() -> None:
    frame = flags(_split("a b", "a b c", entities=[["O", "O"], ["O", "O"]]), None)
    assert frame["is_tagged"].tolist() == [True, False]
    assert "is_tagged" not in flags(_split("one"), None)
