"""The attacker who masks each word and takes the likeliest."""

from __future__ import annotations

from rapt.attacks.base import Public, Release
from tests.attacks.contexts import CONTEXT, MASKED
from tests.attacks.contexts import alternating as alternating
from tests.attacks.test_bayesian import NONE
from tests.attacks.test_bayesian import public as public
from tests.tuning.conftest import backbone as backbone


def test_words_released_as_they_are_stay_but_for_who_masks_them(alternating: Public) -> None:
    """The model has no chances for the words of the group that stays: the first will do."""
    release = Release([["the", "unheard", "nounb"]])
    assert CONTEXT.fit(alternating, NONE, 0).words([release]) == [["the", "unheard", "nouna"]]
    assert MASKED.fit(alternating, NONE, 0).words([release]) == [["nounc", "nounb", "nouna"]]


def test_clean_text_is_no_success_of_an_attack_that_masks_it(alternating: Public) -> None:
    """Nor are words that the table has in a group that stays: in a text they may be of another."""
    clean = Release([["Nounb", "Unheard", "The"], ["Nouna", "nounb"]])
    guessed = MASKED.fit(alternating, NONE, 0).words([clean])
    assert guessed == [["nouna", "nounb", "nounc"], ["nouna", "nounb"]]
