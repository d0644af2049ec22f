from rapt.privacy.streams import stream


def test_streams_differ_by_every_name_and_repeat() -> None:
    def first(*names: str | int) -> float:
        return stream(*names).random()  # type: ignore[arg-type]

    names = [
        (0, 0, "t", "a"),
        (1, 0, "t", "a"),
        (0, 1, "t", "a"),
        (0, 0, "u", "a"),
        (0, 0, "t", "b"),
    ]
    draws = [first(*name) for name in names]
    assert len(set(draws)) == len(draws)
    assert draws == [first(*name) for name in names]
    # Names are separated: "a", "bc" is not "ab", "c".
    assert first(0, "a", "bc") != first(0, "ab", "c")
