"""Draws of an audit are those of a release."""

from dataclasses import replace

from rapt.audit import Choice, audit, cases_of


def test_draws_are_those_of_a_release() -> None:
    """A seed repeats them; without one they never do."""
    some = replace(cases_of(Choice(mechanisms=["t2t"]))[0], draws=4000)
    losses = [
        [f.loss for f in audit([some], seed).verdicts[0].findings] for seed in (1, 1, None, None)
    ]
    assert losses[0] == losses[1]
    assert losses[2] != losses[3]
