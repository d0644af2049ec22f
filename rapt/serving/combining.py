"""The provider's answer and a local model's, weighed on the user's machine (`--combine`)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
from scipy.special import softmax

from rapt import paths
from rapt.baselines import local
from rapt.baselines.combined import combined, weights
from rapt.privacy.released import HiddenStates, TextVector, positions
from rapt.serving.protocol import Provider, Text, asked, served_kind
from rapt.text.table import EmbeddingTable
from rapt.text.tagging import Tagger
from rapt.tuning.config import TrainConfig
from rapt.tuning.inference_spec import Contract
from rapt.utils import files
from rapt.utils.errors import RaptError


class Combined:
    """A local model of raw text, and its weight beside a provider's.

    The weights come from the training rows that the provider did not tune on. It is asked about
    their words as the release has them, so nothing more is released. The local model is fitted to
    all raw rows, and cross-validation has its answers to those.
    """

    def __init__(
        self, provider: Provider, rows: Path, release: Path, table: Path, tagger: str
    ) -> None:
        """Fit the local model, and ask the provider about the rows held out.

        Args:
            provider: the adapted model.
            rows: the task's tagged rows, data/tagged/TASK.
            release: the release of these rows that the provider tuned on.
            table: folder of an embedding table.
            tagger: package of the spaCy model that splits texts into words.

        Raises:
            RaptError: the provider tuned on every row, or the rows are not those of the release.
        """
        contract = provider.contract
        if not contract.held_out:
            raise RaptError(
                "combine: got an adapter that was tuned on every row, expected some held out. Tune "
                "one with train.held_out above 0."
            )
        raw, released = _train(rows), _train(paths.seed(release, 0))
        if not raw["example_id"].equals(released["example_id"]):
            raise RaptError(f"combine: got other rows in {rows} than in {release}, expected those.")
        labels = raw["label"].to_numpy()
        texts, classes = local.texts(raw), len(contract.labels)
        embedding = EmbeddingTable(table)
        name = contract.statement.task
        self.model = local.fit(name, texts, labels.tolist(), classes, embedding)[0]
        held = np.array(TrainConfig(held_out=contract.held_out).holds_out(len(raw)))
        answers = list(asked(provider, _sent(released.filter(held), contract)))
        self.rows = len(answers)
        with np.errstate(divide="ignore"):
            given = np.log(np.array(answers).reshape(-1, classes))
        self.weight = weights(given, self.model.held_out[held], labels[held])
        self._pairs = contract.segments == 2
        self._tagger = Tagger(tagger, tags=False)

    def __call__(
        self, texts: Sequence[Sequence[str]], answers: Sequence[Sequence[float]]
    ) -> list[list[float]]:
        """Return the probability of each class for raw texts.

        Args:
            texts: the segments of each, raw.
            answers: the provider's probabilities of their privatized words.
        """
        with np.errstate(divide="ignore"):
            given = np.log(np.asarray(answers, np.float64))
        words = [[s.words for s in self._tagger.texts(text)] for text in texts]
        if not self._pairs:
            words = [[list(chain.from_iterable(segments))] for segments in words]
        own = self.model.logits(words)
        return [list(map(float, row)) for row in softmax(combined(self.weight, given, own), axis=1)]

    def said(self) -> str:
        """Return the message for the user."""
        provider, own = self.weight
        return (
            f"combined with a local model ({self.model.name}): weight {own:.2f}, the adapter "
            f"{provider:.2f}, by {self.rows} rows held out of its tuning. It was asked about their "
            "released words again; nothing new of them was sent"
        )


def _train(folder: Path) -> pa.Table:
    path = folder / "train.parquet"
    if not path.is_file():
        raise RaptError(f"combine: got no {path}, expected labelled rows there.")
    rows = files.read_parquet(path)
    columns = {*rows.column_names}
    needed = {"example_id", "label"}
    if not {*TextVector.columns, *HiddenStates.columns} & columns:
        needed |= {"words", "segment"}
    if missing := needed - columns:
        raise RaptError(f"combine: got {path} without {min(missing)}, expected that column.")
    return rows


def _sent(released: pa.Table, contract: Contract) -> list[Text]:
    """Return rows of a release as a query has them, without words beyond what a model reads."""
    read = positions(released)
    plain = released["plain"].to_pylist() if "plain" in released.column_names else None
    ends = np.cumsum([len(words) for words in read.words])
    texts = []
    for row, (words, places, end) in enumerate(zip(read.words, read.segments, ends, strict=True)):
        parts = [[at for at, of in enumerate(places) if of == k] for k in range(contract.segments)]
        sizes = list(map(len, parts))
        fits = served_kind(contract).readable(sizes, contract.max_tokens, chat=contract.chat)
        kept = [at for part, which in zip(parts, fits, strict=True) for at in part[which]]
        vectors = None
        if read.vectors is not None:
            own = read.vectors[end - len(words) : end]
            vectors = own[kept].astype("<f4").tobytes()
        texts.append(
            Text(
                words=[words[at] for at in kept],
                segment=[places[at] for at in kept],
                plain=plain[row] or [] if plain else [],
                vectors=vectors,
            )
        )
    return texts
