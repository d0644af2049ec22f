"""Repeats a release's privatization with fresh noise, for the texts of `rapt predict`."""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterator, Sequence
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rapt import defaults
from rapt.kinds.messages import Text
from rapt.measures import strength
from rapt.privacy.base import AnyPrivatizer, PreparedText
from rapt.privacy.categories import VERBATIM
from rapt.privacy.fates import KINDS, NOISE, PLACEHOLDER, VERBATIM_KIND, Counts, Word, verbatim
from rapt.privacy.mechanisms import mechanism
from rapt.privacy.privatizer import Privatizer, of_words
from rapt.privacy.restoring import Map
from rapt.privacy.streams import fresh
from rapt.privacy.whole_texts import WholeTextPrivatizer
from rapt.release.ledger import Account, Ledger, checked
from rapt.release.sentences import Counted, Unit, counted
from rapt.release.text import AGAIN, TextPrivatizer, accounts, tagged_pieces
from rapt.serving.protocol import served_kind
from rapt.tasks import TASKS
from rapt.text.table import EmbeddingTable
from rapt.text.tagged import Tagged
from rapt.text.tagging import Tagger
from rapt.tuning.inference_spec import Contract
from rapt.utils.errors import RaptError, not_allowed

Vectors = NDArray[np.float32]
NO_VECTORS: Vectors = np.empty((0, 0), np.float32)


class PredictionPrivatizer:
    """Privatizes texts like the release that an adapter was tuned on, with fresh noise.

    Attributes:
        maps: of the sources of its last call, if their entities are protected. They are secret.
    """

    def __init__(
        self,
        contract: Contract,
        eta: float,
        folder: Path | None,
        tagger: str,
        language: str | None = None,
        allow_weak: bool = False,
        budget: float | str | None = None,
    ) -> None:
        """Open the table, the project's or MiniLM's if none is given; see `TextPrivatizer`.

        Args:
            contract: the adapter's contract.
            eta: the privacy parameter; inf: words stay unchanged, and a table is needed only if
                the model takes vectors.
            folder: of the embedding table; None: the project's, else MiniLM's.
            tagger: package of the spaCy model.
            language: code of the texts' language, or "any"; None: the tagger's.
            allow_weak: whether η may be so large that hardly a word is replaced.
            budget: the most that a text may lose over all its releases; see `TextPrivatizer`.

        Raises:
            RaptError: the table is not the release's, or an option is not allowed.
        """
        self.contract, self.eta, self._tagger = contract, eta, tagger
        self._privatizer: TextPrivatizer | None = None  # of words alone
        self._made: AnyPrivatizer[Any] | None = None  # None: words stay as they are
        self._account = Account(Ledger(), checked(budget))
        self.maps: list[Map] = []
        statement = contract.statement
        if contract.kind not in TASKS:
            raise RaptError(f"adapter: {not_allowed('kind', contract.kind, TASKS)}")
        law = mechanism(statement.mechanism, **statement.parameters)
        if law.releases.has_vectors != statement.vectors:
            raise RaptError(
                f"adapter: got releases {statement.releases!r} of mechanism {law.name}, expected "
                f"{law.releases.name!r}. Get the adapter again from its provider."
            )
        if eta == math.inf and not statement.vectors:
            return
        folder = folder or defaults.table(statement.embedding)
        if statement.vectors or not law.releases.aligned:
            table, categories = EmbeddingTable(folder), statement.categories
            self._made = law.privatizer(table=table, eta=eta, categories=categories)
            if isinstance(self._made, Privatizer) and not allow_weak and math.isfinite(eta):
                strength.check(self._made)
        else:
            self._privatizer = TextPrivatizer(
                table=folder,
                eta=eta,
                mechanism=statement.mechanism,
                parameters=statement.parameters,
                categories=statement.categories,
                tagger=tagger,
                language=language,
                allow_weak=allow_weak,
            )
            self._made = self._privatizer.privatizer
        table = self._made.table
        if table.sha256 != statement.table_sha256:
            raise RaptError(
                f"table: got {str(table.folder)!r} with sha256 {table.sha256}, expected "
                f"{statement.embedding} with {statement.table_sha256}, as in the adapter's tuning."
            )
        if self._privatizer:
            self._plain = _groups_of_plain(self._privatizer.privatizer, contract.plain)

    def __call__(self, texts: Sequence[Sequence[str]]) -> tuple[list[Text], Counts]:
        """Privatize [k; x] for each text x, given by its segments.

        Words beyond the model's length limit are not sent, as they would spend privacy for nothing.
        The ledger counts the others.

        Returns:
            the texts to send, and the counts of their words.

        Raises:
            RaptError: texts are in another language than expected, or beyond their budget.
        """
        if isinstance(self._made, WholeTextPrivatizer):
            return self._whole(self._made, texts)
        kind, contract = served_kind(self.contract), self.contract
        released = iter(self._release([segment for text in texts for segment in text]))
        sent, shown, counts = [], list[list[Word]](), Counts()
        for text, plain in zip(texts, self._plain_copies(len(texts)), strict=True):
            parts = [next(released) for _ in text]
            sizes = [len(words) for words, _ in parts]
            read = kind.readable(sizes, contract.max_tokens, chat=contract.chat)
            words = [words[at] for (words, _), at in zip(parts, read, strict=True)]
            vectors = [vectors[at].tobytes() for (_, vectors), at in zip(parts, read, strict=True)]
            sent.append(
                Text(
                    words=[word.released for part in words for word in part],
                    segment=[number for number, part in enumerate(words) for _ in part],
                    plain=plain,
                    vectors=b"".join(vectors) if contract.statement.vectors else None,
                    space_after=[word.space_after for part in words for word in part]
                    if kind.keeps_spacing
                    else None,
                )
            )
            counts.add(words)
            # A choice such as "all of these" is no text of its own.
            is_one = kind.part(0) is not None
            shown += [list(chain.from_iterable(words))] if is_one else words
        if self._made:
            self._account.spend(accounts(shown, self._made), self._made.max_loss)
        return sent, counts

    def _whole(
        self, privatizer: WholeTextPrivatizer[Any], texts: Sequence[Sequence[str]]
    ) -> tuple[list[Text], Counts]:
        """Privatize each text as a whole: of its positions a model reads the first."""
        tagged = tagged_pieces(Tagger(self._tagger), [" ".join(text) for text in texts])
        words = [[word for piece in pieces for word in piece.words] for pieces in tagged]
        if math.isfinite(self.eta):
            form = privatizer.table.form
            prepared = [privatizer.text(own, []) for own in words]
            units = [
                Counted(Unit(one.whole.key, privatizer.units(text)))
                for text in prepared
                if (one := counted(((word, True) for word in text.words), form))
            ]
            self._account.spend(units, privatizer.max_loss)
            made = list(privatizer.release(prepared))
        else:
            made = [privatizer.unprotected(own) for own in words]
        counts, sent = Counts(), []
        for one in made:
            counts.add_fates(one.fates)
            read = slice(self.contract.max_tokens)
            vectors = None if one.vectors is None else one.vectors[read].astype("<f4").tobytes()
            positions = one.words[read]
            sent.append(
                Text(words=positions, segment=[0] * len(positions), plain=[], vectors=vectors)
            )
        return sent, counts

    def said(self, counts: Counts) -> Iterator[str]:
        """Yield the messages for the user: which words are protected, and the privacy loss."""
        if self.eta == math.inf:
            yield "unprotected: eta is inf, every word goes to the model as it is"
            return
        statement, most = self.contract.statement, counts.most
        assert self._made
        loss = (most * self._made.bound).loss(1.0)
        law = f"{statement.mechanism} at eta {self.eta:g}"
        spends = "each prediction spends privacy, also of a text that was asked about before. "
        if isinstance(self._made, WholeTextPrivatizer):
            bound = f"at most {loss:g}" if math.isfinite(loss) else "without a bound"
            yield f"{law} releases {self._made.releases.name}"
            yield f"{spends}The privacy loss of a text is {bound} for each unit of distance"
        else:
            scope = ", ".join(statement.categories or ["every word"])
            scope += " of entities" * (statement.protect == "entities")
            kinds = counts.kinds(VERBATIM_KIND).items()
            verbatim = ", ".join(f"{count} {KINDS[name]}" for name, count in kinds if count)
            yield (
                f"{law} ({scope}): of {counts.words} words {counts.fates[NOISE]} get noise, "
                f"{sum(counts.kinds(PLACEHOLDER).values())} become placeholders; as they are: "
                f"{verbatim or 'none'}"
            )
            bound = f"{self.eta:g} · {most} words = {loss:g}" if math.isfinite(loss) else "no bound"
            yield (
                f"{spends}The privacy loss is at most eta for each word with noise and each unit "
                f"of distance, here at most {bound} for one text"
            )
        if self._account.spent.again:
            yield AGAIN

    def _release(self, texts: Sequence[str]) -> list[tuple[list[Word], Vectors]]:
        """Privatize each text, with its words' vectors (n, d), of which most models take none."""
        if self._privatizer:
            task, protect = TASKS[self.contract.kind], self.contract.statement.protect
            released, self.maps = task.released(self._privatizer, texts, protect, self._tagger)
            return [(words, NO_VECTORS) for words in released]
        tagged = tagged_pieces(Tagger(self._tagger), texts)
        whole = [[word for piece in pieces for word in _as_they_are(piece)] for pieces in tagged]
        if self._made is None:
            return [(words, NO_VECTORS) for words in whole]
        return [_represented(of_words(self._made), words) for words in whole]

    def _plain_copies(self, count: int) -> Iterator[list[str]]:
        """Draw a sequence of plain words for each text, privatized anew."""
        plain = self.contract.plain
        if not plain:
            return repeat([], count)
        chosen = [secrets.randbelow(len(plain)) for _ in range(count)]
        if self._privatizer is None:
            return (plain[number] for number in chosen)
        return self._privatizer.privatizer.privatize(
            PreparedText(plain[number], self._plain[number], fresh) for number in chosen
        )


def _groups_of_plain(privatizer: Privatizer, plain: Sequence[Sequence[str]]) -> list[list[int]]:
    """The group of each plain word, that of its row in the table."""
    rows = {word: row for row, word in enumerate(privatizer.table.words)}
    of_rows = [*privatizer.groups_of_rows(np.arange(len(rows))), VERBATIM]
    groups = [[of_rows[rows.get(word, -1)] for word in sequence] for sequence in plain]
    if VERBATIM in chain.from_iterable(groups):
        raise RaptError(
            "adapter: got a plain word that its mechanism cannot release, expected words of its "
            "table. Ask its provider for another one."
        )
    return groups


def _represented(privatizer: Privatizer, words: list[Word]) -> tuple[list[Word], Vectors]:
    """Release the noisy vectors of a text's words, and the words nearest to them."""
    originals = [word.original for word in words]
    (made,) = privatizer.release([PreparedText(originals, [0] * len(words), fresh)])
    assert made.vectors is not None
    if privatizer.eta < math.inf:
        words = [
            word._replace(released=new, fate=NOISE)
            for word, new in zip(words, made.words, strict=True)
        ]
    return words, made.vectors.astype("<f4")


def _as_they_are(part: Tagged) -> list[Word]:
    rows = zip(part.words, part.identifiers, part.space_after, strict=True)
    return [Word(word, word, verbatim(word, of), space_after) for word, of, space_after in rows]
