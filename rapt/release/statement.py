"""The privacy statement of a release of a user's own texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rapt import __version__
from rapt.measures import strength
from rapt.measures.statement import statement as of_privatizer
from rapt.privacy.fates import Counts
from rapt.release.sentences import MINIMUM
from rapt.release.text import NAMES, NUMBERED, TextPrivatizer
from rapt.text.detectors import FORMS
from rapt.text.language import of_tagger

FRESH = "ChaCha20, keyed by the operating system anew for every text: nobody can replay it"
SEEDED = "INSECURE: seeded, for tests alone; whoever knows the seed can undo the noise"


def statement(privatizer: TextPrivatizer, columns: Sequence[str], counts: Counts) -> dict[str, Any]:
    """Build the privacy statement of a release, as JSON (docs/privatize.md)."""
    content = of_privatizer(
        privatizer.privatizer,
        counts,
        eta=repr(privatizer.eta).removesuffix(".0"),
        columns=sorted(counts.others),
        spacing="as in the texts" if privatizer.keep_spacing else "single spaces",
        names={name: counts.names[name] for name in ("noise", "placeholder", "verbatim")},
        generator=FRESH if privatizer.insecure_seed is None else SEEDED,
        rapt=__version__,
        tagger=privatizer.tagger,
        language=privatizer.language or of_tagger(privatizer.tagger),
        privatized_columns=list(columns),
    )
    placeholders = content["words"]["placeholders"]
    content["words"]["placeholders"] = dict.fromkeys(FORMS.kinds, 0) | placeholders
    content["strength"]["read"] = strength.read(privatizer.privatizer)
    gaps = content["not_covered"]
    if privatizer.categories and not privatizer.keep_identifiers:
        gaps.append(
            "Numbers, e-mail addresses, URLs, handles and markup are replaced by placeholders "
            "where their form is recognized. Which words are is not hidden."
        )
    if privatizer.names != NAMES[0] or privatizer.detectors:
        gaps.append(
            "Words that a detector marks become placeholders before the noise, by a public rule: "
            "the guarantee holds given which words are marked. A tagger errs: what it does not "
            "mark is treated like any other word."
        )
    if privatizer.names == NUMBERED:
        gaps.append("Which names of a text are the same.")
    gaps.append(
        "The user's ledger counts how often a text was released, and each of its sentences of "
        f"{MINIMUM} or more words with noise. It does not count a sentence that is less than half "
        "of another text."
    )
    if counts.others:
        gaps.append(f"Columns released as they are: {', '.join(sorted(counts.others))}.")
    return content
