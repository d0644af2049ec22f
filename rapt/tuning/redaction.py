"""Just Fine-tune Twice (Shi et al., 2022): first on redacted texts, then privately on whole ones.

A public policy finds words in each training text. The first tuning has no noise, and reads a
placeholder in the place of each word that is found. The second goes on from there on the whole
texts, by DP-SGD (`rapt.tuning.private`).

Neighbours are data sets of equal redaction: one text (or author) has other words *where the policy
finds some*, and what the first tuning reads is the same, with the same label. So the first tuning
is the same for both, and all that is spent is the second's, in which a text is replaced
(`rapt.tuning.accounting`). What the policy misses is in the clear. So are the number and the places
of the words that it finds: a run of them is as long as it was. Whether it finds a word may depend
on the others of the text, which is why equal redaction defines neighbours, and not a rule on words.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

import torch

from rapt.tuning.checkpoints import Checkpoint
from rapt.tuning.inputs import Reader, Split
from rapt.tuning.strategies import Plain, Policy, Private
from rapt.utils.errors import RaptError, not_allowed

if TYPE_CHECKING:
    from rapt.tuning.config import Run
    from rapt.tuning.trainer import Trainer

Columns = Mapping[str, list[Any]]
NO_MASK = "_"  # the placeholder of a tokenizer without a mask token


@dataclass(frozen=True)
class Redacted:
    """What the first tuning reads.

    Attributes:
        split: the redacted texts of those that are tuned on.
        marks: for each of their words whether the policy found it; equal for neighbours.
    """

    split: Split
    marks: list[list[bool]]

    @classmethod
    def of(
        cls, run: Run, columns: Columns, reader: Reader, statement: Mapping[str, Any]
    ) -> Redacted | None:
        """Redact a training split by the run's policy; None: it has none, or takes no steps.

        Raises:
            RaptError: the texts have noise, or no classes; or as `marked`.
        """
        policy: Policy | None = getattr(run.gradient, "policy", None)
        if policy is None or not run.learning_rate:
            return None
        if not (run.kind.has_classes and statement["protection"] == "unprotected"):
            raise RaptError(
                f"{run.cell}: private.policy: got one for {statement['method']} of kind "
                f"{run.kind.name}, expected clean text with classes. Tune there without a policy."
            )
        rows = run.train.tunes_on(len(columns["words"]), run.k)
        own = {name: [values[row] for row in rows] for name, values in columns.items()}
        marks = marked(policy, own["words"], own["space_after"])
        placeholder = reader.tokenizer.mask_token or NO_MASK
        own["words"] = [
            [placeholder if mark else word for word, mark in zip(*each, strict=True)]
            for each in zip(own["words"], marks, strict=True)
        ]
        return cls(run.kind.tokenized(own, reader), marks)

    def tune_twice(
        self, trainer: Trainer, whole: Split, checkpoint: Checkpoint, device: str
    ) -> dict[str, list[float]]:
        """Tune on the redacted texts, then privately on the whole ones; see `Trainer.fit`.

        Each tuning has random numbers of its own, so that what the second draws is independent of
        the first, and of how many numbers were drawn before. The first has a checkpoint until the
        second has ended.

        Returns:
            the curves of the second.
        """
        run = trainer.run
        policy = cast(Private, run.gradient).policy
        assert policy
        tuner: dict[str, Any] = {"private": None, "learning_rate": policy.learning_rate}
        first = replace(
            run,
            cell=f"{run.cell}, first tuning",
            tuner=run.tuner.model_copy(update=tuner),
            train=run.train.model_copy(update={"epochs": policy.epochs, "gradient": Plain()}),
        )
        tokens = hashlib.sha256(self.split.tokens.values.numpy().tobytes()).hexdigest()
        earlier = Checkpoint(first, device, redacted=tokens)
        if checkpoint.step() is None:
            trainer.run = first
            _seed(run, "redacted")
            trainer.fit(self.split, earlier)
            trainer.run = run
            _seed(run, "whole")
        curves = trainer.fit(whole, checkpoint)
        earlier.path.unlink(missing_ok=True)
        return curves

    def statement(self) -> dict[str, float]:
        """Return how many words the policy found, of how many."""
        return {"words_found": sum(map(sum, self.marks)), "words": sum(map(len, self.marks))}


def marked(
    policy: Policy, texts: Sequence[Sequence[str]], spaces: Sequence[Sequence[bool]]
) -> list[list[bool]]:
    """Return for each word of each text whether the policy finds it.

    spaCy reads whole texts: what it finds of a word depends on the others.

    Args:
        policy: the rules.
        texts: words of each.
        spaces: whether white space follows each word, without which no address is whole.

    Raises:
        RaptError: the tagger is no installed spaCy model, or does not know what it is asked for.
    """
    from spacy.parts_of_speech import IDS
    from spacy.tokens import Doc

    from rapt.text import detectors

    try:
        nlp = import_module(policy.tagger).load(exclude=["parser", "lemmatizer"])
    except (ImportError, AttributeError, OSError):
        raise RaptError(
            f"private.policy.tagger: got {policy.tagger!r}, expected an installed spaCy model. "
            f"Try: python -m spacy download {policy.tagger}"
        ) from None
    for key, given, allowed in (
        ("detectors", policy.detectors, detectors.DETECTORS),
        ("entities", policy.entities, nlp.pipe_labels.get("ner", [])),
        ("parts_of_speech", policy.parts_of_speech, [tag for tag in IDS if tag]),
    ):
        for name in given:
            if name not in allowed:
                raise RaptError(not_allowed(f"private.policy.{key}", name, allowed))
    docs = (
        Doc(nlp.vocab, words=list(words), spaces=list(after))
        for words, after in zip(texts, spaces, strict=True)
    )
    rules = [detectors.detector(name) for name in policy.detectors]
    types, tags = {*policy.entities}, {*policy.parts_of_speech}
    with nlp.memory_zone():
        return [
            [
                kind is not None or token.ent_type_ in types or token.pos_ in tags
                for kind, token in zip(detectors.marked(doc, rules), doc, strict=True)
            ]
            for doc in nlp.pipe(docs)
        ]


def _seed(run: Run, tuning: str) -> None:
    """Seed all random numbers of one of the two tunings."""
    digest = hashlib.sha256(f"{run.seed} {run.k} {tuning}".encode()).digest()
    torch.manual_seed(int.from_bytes(digest[:8], "little"))
