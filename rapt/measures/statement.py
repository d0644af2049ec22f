"""The privacy statement of a release: as JSON, and in plain words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from rapt.measures import strength
from rapt.privacy.base import AnyPrivatizer
from rapt.privacy.budget import budget
from rapt.privacy.fates import KINDS, NOISE, PLACEHOLDER, SHARED, VERBATIM_KIND, Counts
from rapt.privacy.labels import RandomizedLabels
from rapt.privacy.mechanisms import parameters
from rapt.privacy.mechanisms.claim import D_X, NO_GUARANTEE, NOTHING
from rapt.privacy.privatizer import Privatizer

UNPROTECTED = "unprotected"
LABELS = (
    " The label of each training text is drawn once for each copy, by randomized response. It adds "
    "{epsilon:g} to the text's loss."
)
TEST_LABELS = "The labels of the test split, which are released as they are for the score."
FINITE = (
    "The law holds up to a probability of δ = {delta:.1g} for {unit}: numbers of 53 bits never "
    "give rarer outcomes."
)


def statement(
    privatizer: AnyPrivatizer[Any],
    counts: Counts,
    *,
    eta: str,
    columns: Sequence[str],
    spacing: str,
    generator: str,
    names: Mapping[str, int] | None = None,
    gaps: Sequence[str] = (),
    labels_drawn: RandomizedLabels | None = None,
    **facts: Any,
) -> dict[str, Any]:
    """Build the statement of a release: its guarantee, its gaps and its counts (docs/data.md).

    Args:
        privatizer: the release's privatizer.
        counts: of the release.
        eta: the privacy parameter as the user wrote it.
        columns: columns released unchanged.
        spacing: description of the released spacing.
        generator: description of the noise's generator, and whether it is repeatable.
        names: number of proper nouns by what became of them: `noise`, `placeholder`, `verbatim`;
            None: they were not counted.
        gaps: what a release of this kind of task does not cover.
        labels_drawn: how the training labels are drawn; None: they are released as they are.
        **facts: fields that the release itself decides (task, method, embedding, …).
    """
    if labels_drawn:
        facts["label_noise"] = labels_drawn.epsilon
    mechanism, scheme, claim = privatizer.mechanism, privatizer.scheme, privatizer.claim
    protected, delta = not np.isinf(privatizer.eta), privatizer.bound.delta
    not_covered = [*privatizer.stated().not_covered, *claim.conditions]
    not_covered += [*gaps, *([TEST_LABELS] if labels_drawn else [])]
    not_covered += [claim.caveat] if claim.caveat else []
    if 0 < delta < 1 and not claim.approximate:
        not_covered.append(FINITE.format(delta=delta, unit=claim.unit))
    protection = claim.kind if protected else UNPROTECTED
    noise, shared = counts.fates[NOISE], counts.fates[SHARED]
    of_words = privatizer if isinstance(privatizer, Privatizer) else None
    of_entities = facts.get("protect") == "entities"
    if not of_words:
        facts["releases"] = privatizer.releases.name
    return facts | {
        "mechanism": mechanism.name,
        "parameters": parameters(mechanism),
        "categories": None if scheme.categories is None else list(scheme.categories),
        "eta": eta,
        "table_sha256": privatizer.table.sha256,
        "metric": mechanism.metric,
        "protection": protection,
        "claim": {
            "domain": claim.domain,
            "unit": claim.unit,
            "delta": delta,
            "conditions": list(claim.conditions),
            "proof": claim.places,
        }
        if protected and claim.proof
        else None,
        "guarantee": ("Of entities and their mentions: " if of_entities else "")
        + guarantee(privatizer, eta)
        + (LABELS.format(epsilon=labels_drawn.epsilon) if labels_drawn else "")
        if protected
        else "None: the words are the originals.",
        "not_covered": not_covered if protected else ["Everything."],
        "documents": counts.documents,
        "words": {
            "noise": noise,
            "shared": shared,
            "placeholders": counts.kinds(PLACEHOLDER),
            "verbatim": dict.fromkeys(KINDS, 0) | counts.kinds(VERBATIM_KIND),
        }
        if of_words
        else None,
        "names": _names(of_words, names) if of_words and names and protected else None,
        "columns": sorted(columns),
        "spacing": spacing,
        "generator": generator,
        "budget_of_the_longest": budget(
            claim.kind,
            privatizer.bound,
            privatizer.eta,
            counts.most,
            privatizer.distances,
            facts["seeds"] * labels_drawn.bound if labels_drawn else NOTHING,
        )
        if protected
        else None,
        "strength": _strength(of_words, (noise + shared) / max(1, counts.words))
        if of_words and protected
        else None,
    }


def _strength(privatizer: Privatizer, covered: float) -> dict[str, float]:
    """Return the share of protected words that become another, and of all words, about.

    Args:
        privatizer: of the release.
        covered: the share of the release's words that got noise.
    """
    share = strength.replaced(privatizer)
    return asdict(share) | {"all_words": share.value * covered}


def _names(privatizer: Privatizer, names: Mapping[str, int]) -> dict[str, Any]:
    """Count proper nouns, with the share of public ones with noise that stand as they were.

    The release's own number would tell more than the release does: the user alone sees it.
    """
    return dict(names) | {"unchanged": 1 - strength.replaced_names(privatizer).value}


def guarantee(privatizer: AnyPrivatizer[Any], eta: str) -> str:
    """State the bound for a unit, and over what it adds up, in one sentence."""
    claim, (scope, adds_up_over, more, _) = privatizer.claim, privatizer.stated()
    if not claim.proof:
        return f"{NO_GUARANTEE.capitalize()}: none is proven for this mechanism."
    return (
        f"{scope[0].upper()}{scope[1:]} is released by a mechanism M with {claim.law(eta)}; losses "
        f"add up over {adds_up_over}.{more}"
    )


def plain_words(content: Mapping[str, Any]) -> str:
    """Format the statement in plain words."""
    if content["protection"] == UNPROTECTED:
        return "PRIVACY STATEMENT\n\nUNPROTECTED: the words are the originals.\n"
    unit = "word" if content["words"] else "text"
    weak = ["WEAK: this level protects next to nothing.", ""] if is_weak(content) else []
    longest = content["budget_of_the_longest"]
    losses = [
        f"- {name}: at distance {loss['distance']:.3g} at most exp({loss['at_most']:.4g})"
        if loss["at_most"] is not None
        else f"- {name}: no bound"
        for name, loss in longest["loss"].items()
    ]
    return "\n".join(
        [
            *weak,
            "PRIVACY STATEMENT",
            "",
            *(_of_words(content) if content["words"] else _of_texts(content)),
            f"Columns released as they are: {', '.join(content['columns']) or 'none'}.",
            f"Noise: {content['generator']}.",
            f"Spacing: {content['spacing']}.",
            "",
            f"Protection: {content['protection']}"
            + (
                ", which is weaker than epsilon-differential privacy: how well two "
                f"{unit}s are hidden from each other depends on their distance."
                if content["protection"] == D_X
                else "."
            ),
            content["guarantee"],
            f"d is the {content['metric']}, in the table with sha256 {content['table_sha256']}; "
            "eta means nothing without it.",
            "",
            *_of_strength(content["strength"]),
            "",
            *_of_longest(longest["words"], unit),
            *losses,
            "",
            "Not covered:",
            *(f"- {gap}" for gap in content["not_covered"]),
            "- Releasing the same text again averages the noise away.",
            "",
        ]
    )


def _of_words(content: Mapping[str, Any]) -> list[str]:
    """Say how many words there are, and what became of them."""
    categories, counts = content["categories"], content["words"]
    shared = counts["shared"]
    total = (
        counts["noise"]
        + shared
        + sum(sum(counts[of].values()) for of in ("placeholders", "verbatim"))
    )
    whole = "those of entities" if content.get("protect") == "entities" else "all of them"
    scope = f"within their part of speech ({', '.join(categories)})" if categories else whole
    return [
        f"{content['documents']} documents with {total} words were privatized by "
        f"{content['mechanism']} at eta {content['eta']}.",
        f"{counts['noise']} words got noise: {scope}.",
        *([f"{shared} more were released as the same word before them."] if shared else []),
        f"Replaced by placeholders: {_listing(counts['placeholders']) or 'nothing'}.",
        f"Released word for word: {_listing(counts['verbatim']) or 'nothing'}.",
        *_of_names(content.get("names")),
    ]


def _of_texts(content: Mapping[str, Any]) -> list[str]:
    """Say what is released of each text as a whole."""
    return [
        f"{content['documents']} documents were privatized by {content['mechanism']} at eta "
        f"{content['eta']}.",
        f"The release holds {content['releases']}.",
    ]


def _of_strength(replaced: Mapping[str, float] | None) -> list[str]:
    """Say how many words become another, where words do."""
    if replaced is None:
        return [
            "How much of a text can be read from its release is not measured here: no word stands "
            "for another. Run attacks on it."
        ]
    return [
        f"Of public text's protected words that the table lists {replaced['value']:.0%} "
        f"({replaced['low']:.0%} to {replaced['high']:.0%}) become another; of all words of "
        f"this release that is about {replaced['all_words']:.0%}. Words that the table does "
        "not list in their category always do. Whoever takes each word as it stands is right "
        "for the others, and a Bayesian attacker for at least as many.",
    ]


def _of_longest(count: int, unit: str) -> list[str]:
    """Say over how many units the losses of one document add up."""
    if unit == "word":
        return [
            f"Losses add up. In the longest document {count} words got noise. How much "
            "likelier its release is from it than from a text in which each of them is another "
            "word:"
        ]
    times = "once" if count == 1 else f"{count} times"
    return [
        f"Losses add up. This release holds each text {times}. How much likelier they are "
        "from it than from another text:"
    ]


def _of_names(names: Mapping[str, Any] | None) -> list[str]:
    if not names:
        return []
    return [
        f"Proper nouns, as far as the tagger knows them: {names['placeholder']} became "
        f"placeholders, {names['verbatim']} stand as they were, {names['noise']} got noise. Of "
        f"those with noise about {names['unchanged']:.0%} stand as they were, too, by chance."
    ]


def is_weak(content: Mapping[str, Any]) -> bool:
    """Whether a statement is of a release that replaces hardly a word."""
    level = content["strength"]
    return level is not None and (
        level["value"] < strength.ENOUGH or level.get("read", 0.0) > strength.READ
    )


def _listing(counts: Mapping[str, int]) -> str:
    return ", ".join(
        f"{count} {KINDS.get(name, f'words of kind {name!r}')}"
        for name, count in counts.items()
        if count
    )
