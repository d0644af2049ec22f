import pyarrow as pa

from rapt.data.examples import segments


def test_the_texts_of_an_example_are_in_order() -> None:
    raw = pa.table(
        {
            "text": ["one", "one", "who?", None],
            "text_pair": [None, "two", None, None],
            "choices": [None, None, ["a", "b"], None],
        }
    )
    assert list(segments(raw)) == [["one"], ["one", "two"], ["who?", "a", "b"], [""]]
