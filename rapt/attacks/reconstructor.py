"""The encoder with a copy head that an attacker trains to reconstruct a text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array
from threadpoolctl import threadpool_limits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, embedding_bag
from torch.nn.utils.rnn import pad_sequence

from rapt.attacks import encoders
from rapt.attacks.base import Public, Texts, by_text
from rapt.attacks.bigrams import WEIGHTS, Beam, Bigrams, Rows, Shares
from rapt.privacy.base import PreparedText
from rapt.privacy.categories import VERBATIM
from rapt.privacy.posterior import TINY, Posterior
from rapt.privacy.privatizer import Privatizer
from rapt.privacy.streams import stream
from rapt.tuning.backbones import most_tokens
from rapt.tuning.batches import by_length, shuffled
from rapt.tuning.inputs import word_pieces
from rapt.tuning.loading import load_tokenizer
from rapt.utils.errors import RaptError

if TYPE_CHECKING:
    from rapt.attacks.trained_inversion import TrainedReconstruction

LONGEST = 128  # words read at once at most; a longer text is read in parts
BATCH = 32  # texts guessed at once
HELD_OUT = 20  # each so many-th public text chooses the weight of bigrams, and is not learnt from
LEAST = 1e-3  # the share of a word's releases that draws have not met, at least


class Reconstructor(nn.Module):
    """Scores for each released word y the candidates, and y itself if it is none of them.

    The score of w is h·e(w) + b(w) + β·log(P(y|w) / r(y,w)), and for w = y a copy score more. h and
    the copy score are linear in the encoder's state at this place. e(w) is the mean vector of the
    word's tokens, and r(y,w) the part of P(y|w) that no draw has met. At first h and the copy score
    are 0, and b(w) = log(π(w)·r(y,w)) but for a term of y. So it decides by P(y|w)·π(w), with π the
    word's frequency in the public text.
    """

    _means: Tensor
    _candidates: Tensor

    def __init__(
        self,
        encoder: Any,
        tokenizer: Any,
        public: Public,
        posterior: Posterior,
        counts: Mapping[str, int],
    ) -> None:
        """Take an encoder, and the candidates with their numbers in the public text."""
        super().__init__()
        self.encoder, self._tokenizer = encoder.requires_grad_(True), tokenizer
        encoder.get_input_embeddings().requires_grad_(False)
        self._longest = min(LONGEST, most_tokens(encoder) or LONGEST)
        self._table, self._words = public.table, list(counts)
        self._numbers = {word: number for number, word in enumerate(counts)}
        leads, rows = posterior.leads, self._table.rows(counts)
        self._has_posterior = np.asarray(leads.sum(axis=1)) > 0
        least = posterior.overall[posterior.overall > 0].min(initial=1.0)
        share = 1 / np.maximum(posterior.overall, least)
        # Of a word outside the table no draw is known.
        rest = np.maximum(posterior.rest, LEAST)
        of_words = np.where(rows >= 0, rest[rows], 1.0)
        (known,) = np.nonzero(rows >= 0)
        chosen = csr_array(
            (1 / of_words[known], (rows[known], known)), shape=(len(rest), len(rows))
        )
        self._log = csr_array(diags_array(share) @ leads @ chosen)
        self._log.data = np.log1p(self._log.data)
        bias = np.log(np.array([*counts.values()]) / sum(counts.values()) * of_words)
        kept = np.log(np.maximum(posterior.prior, TINY) * rest)
        self._log_kept = kept + np.log1p(leads.diagonal() * share / rest)
        means = posterior.matrix @ self._vectors(self._table.words).numpy()
        self.register_buffer("_means", torch.from_numpy(means.astype(np.float32)))
        self.register_buffer("_candidates", self._vectors(self._words))
        size = encoder.config.hidden_size
        self.mean, self.state = nn.Linear(size, size), nn.Linear(size, size)
        self.noisy, self.copy = nn.Embedding(2, size), nn.Linear(size, 1)
        for layer in (self.mean, self.state, self.noisy, self.copy):
            for weights in layer.parameters():
                nn.init.zeros_(weights)
        self.bias = nn.Parameter(torch.from_numpy(bias).float())
        self.trust = nn.Parameter(torch.ones(1))

    @classmethod
    def fitted(
        cls,
        how: TrainedReconstruction,
        folder: Path,
        public: Public,
        posterior: Posterior,
        seed: int,
    ) -> Reconstructor:
        """Fine-tune an encoder by AdamW on public text; equal seeds give equal weights.

        Raises:
            RaptError: the model is no encoder, there is no public text, or the loss is no number.
        """
        form, held_out = public.table.form, public.texts[HELD_OUT - 1 :: HELD_OUT]
        if how.beam == 1:
            held_out = []
        else:
            learnt = [text for i, text in enumerate(public.texts, 1) if i % HELD_OUT]
            public = replace(public, texts=learnt)
        words = Counter(
            form(word)
            for text in public.texts
            for word, group in zip(text.words, text.groups, strict=True)
            if group != VERBATIM
        )
        if not words:
            raise RaptError("public_text: got no protected word, expected text of public tasks.")
        torch.manual_seed(seed)
        encoder, candidates = encoders.load(folder, how.layers), words.most_common(how.candidates)
        own = cls(encoder, load_tokenizer(folder), public, posterior, dict(candidates))
        own._fit(how, public, seed)
        own.eval()._decide(how.beam, public, dict(candidates), held_out, seed)
        return own

    def originals(self, texts: Texts) -> list[list[str]]:
        """Guess the original of each released word."""
        parts = [part for text in texts for part in self._parts(text)]
        return by_text(texts, chain.from_iterable(self._decoded(parts, self._read(parts))))

    @torch.inference_mode()
    def _read(self, parts: Texts) -> list[list[tuple[Rows, Shares]]]:
        """Return each place's likeliest candidates, and the logarithms of their probabilities.

        A word that nothing else is released as has one candidate. The number behind the last word
        stands for the released word itself where it is no candidate.
        """
        found: dict[int, list[tuple[Rows, Shares]]] = {}
        with threadpool_limits(1):
            for numbers in by_length([len(part) for part in parts], BATCH):
                some = [parts[number] for number in numbers]
                flat = list(chain(*some))
                hidden = self._is_hidden(self._table.rows(flat))
                scores = self(some, hidden).log_softmax(1)
                best = scores.topk(min(self._width, scores.shape[1]))
                likely = zip(best.indices.numpy(), best.values.double().numpy(), strict=True)
                seen = self._places([self._table.form(word) for word in flat]).numpy()
                places = [
                    next(likely) if noisy else (seen[at : at + 1], np.zeros(1))
                    for at, noisy in enumerate(hidden)
                ]
                found |= zip(numbers, by_text(some, places), strict=True)
        return [found[number] for number in range(len(parts))]

    def _decide(
        self,
        width: int,
        public: Public,
        counts: Mapping[str, int],
        held_out: Sequence[PreparedText],
        seed: int,
    ) -> None:
        """Choose the weight of bigrams by which most words of the texts held out are recovered."""
        assert public.privatizer
        form, prior = self._table.form, np.array([*counts.values()], np.float64)
        texts = [self._places(map(form, text.words)).numpy() for text in public.texts]
        bigrams = Bigrams.of(texts, prior / prior.sum())
        self._width, self._beam = width, Beam(bigrams, 0.0)
        if not held_out:
            return
        originals = [form(word) for text in held_out for word in text.words]
        groups = list(chain.from_iterable(text.groups for text in held_out))
        streams = [partial(stream, seed, "held out", number) for number in range(len(held_out))]
        pairs = zip(held_out, streams, strict=True)
        again = (replace(text, stream=of) for text, of in pairs)
        released = list(cast(Privatizer, public.privatizer).privatize(again))
        parts = [part for text in released for part in self._parts(text)]
        read, found = self._read(parts), {}
        for weight in WEIGHTS:
            self._beam = Beam(bigrams, weight)
            guesses = chain.from_iterable(self._decoded(parts, read))
            found[weight] = sum(
                group != VERBATIM and form(guess) == word
                for word, group, guess in zip(originals, groups, guesses, strict=True)
            )
        self._beam = Beam(bigrams, max(WEIGHTS, key=found.__getitem__))

    def _decoded(self, parts: Texts, read: list[list[tuple[Rows, Shares]]]) -> list[list[str]]:
        """Decide on the words of each part."""
        words = []
        for part, places in zip(parts, read, strict=True):
            hidden = self._is_hidden(self._table.rows(part))
            chosen = zip(part, hidden, self._beam(places), strict=True)
            words.append([(*self._words, y)[state] if noisy else y for y, noisy, state in chosen])
        return words

    def forward(self, texts: Texts, chosen: NDArray[np.bool_]) -> Tensor:
        """Score what each chosen word was, (chosen words, candidates + 1).

        Args:
            texts: released words.
            chosen: of all their words, those to score; they have a posterior.
        """
        flat = list(chain(*texts))
        rows = self._table.rows(flat)
        noisy, own = torch.from_numpy(self._is_hidden(rows)), self._vectors(flat)
        means = torch.where(noisy[:, None], self._means[np.maximum(rows, 0)], own)
        embedded = own + self.mean(means) + self.noisy(noisy.long())
        padded = pad_sequence(embedded.split([len(text) for text in texts]), batch_first=True)
        mask = pad_sequence([torch.ones(len(text)) for text in texts], batch_first=True)
        states = self.encoder(inputs_embeds=padded, attention_mask=mask).last_hidden_state
        states, of = states[mask.bool()][torch.from_numpy(chosen)], rows[chosen]
        copied = self._places([word for word, is_one in zip(flat, chosen, strict=True) if is_one])
        log = torch.from_numpy(np.column_stack((self._log[of].toarray(), self._log_kept[of])))
        scores = self.trust * log.float()
        scores[:, :-1] += self.state(states) @ self._candidates.T + self.bias
        scores = scores.scatter_add(1, copied[:, None], self.copy(states))
        is_other = torch.arange(scores.shape[1]) == len(self._words)
        return scores.masked_fill(is_other & (copied != len(self._words))[:, None], -torch.inf)

    def _parts(self, values: Sequence[Any]) -> list[Sequence[Any]]:
        """Divide a text into what is read at once."""
        return [values[at : at + self._longest] for at in range(0, len(values), self._longest)]

    def _is_hidden(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether words of the table, by row, may be other words' releases."""
        return (rows >= 0) & self._has_posterior[rows]

    def _places(self, words: Iterable[str]) -> Tensor:
        """The column of each word's score as the released one."""
        places = [self._numbers.get(word, len(self._words)) for word in words]
        return torch.tensor(places, dtype=torch.int64)

    def _vectors(self, words: Sequence[str]) -> Tensor:
        """The mean vector of each word's tokens, float32 (n, h)."""
        pieces = word_pieces(self._tokenizer, words)
        ends = np.cumsum([0, *map(len, pieces)])[:-1]
        tokens = torch.tensor(list(chain(*pieces)), dtype=torch.int64)
        weights = self.encoder.get_input_embeddings().weight
        return embedding_bag(tokens, weights, torch.from_numpy(ends), mode="mean").detach()

    def _fit(self, how: TrainedReconstruction, public: Public, seed: int) -> None:
        order = torch.Generator().manual_seed(seed)

        def batches() -> Iterator[tuple[tuple[list[PreparedText], Texts], int]]:
            for originals, released in self._pairs(how, public, seed):
                for numbers in shuffled([len(text) for text in released], how.batch_size, order):
                    texts = [released[number] for number in numbers]
                    yield ([originals[number] for number in numbers], texts), sum(map(len, texts))

        encoders.fine_tune(
            *(how.type, self, batches(), lambda pair: self._loss(*pair)),
            *(how.learning_rate, how.words, "word"),
        )

    def _pairs(
        self, how: TrainedReconstruction, public: Public, seed: int
    ) -> Iterator[tuple[list[PreparedText], list[list[str]]]]:
        """Yield public texts, or their parts, before and after each pass's own privatization."""
        assert public.privatizer
        texts = [
            PreparedText(words, groups)
            for text in public.texts
            for words, groups in zip(self._parts(text.words), self._parts(text.groups), strict=True)
        ]
        left, number = how.words, 0
        while left > 0:
            order = stream(seed, "order", number).permutation(len(texts))
            ends = np.cumsum([len(texts[at].words) for at in order])
            some = [
                replace(texts[at], stream=partial(stream, seed, "attacker", number, int(at)))
                for at in order[: 1 + np.searchsorted(ends, left)]
            ]
            yield some, list(cast(Privatizer, public.privatizer).privatize(some))
            left, number = left - int(ends[-1]), number + 1

    def _loss(self, originals: Sequence[PreparedText], released: Texts) -> Tensor:
        """The mean cross-entropy of the protected words that are candidates, or were kept."""
        flat = list(chain(*released))
        words = [self._table.form(word) for text in originals for word in text.words]
        groups = np.fromiter(chain(*(text.groups for text in originals)), np.int64)
        pairs = zip(words, flat, strict=True)
        learnt = np.array([word in self._numbers or word == shown for word, shown in pairs], bool)
        chosen = learnt & (groups != VERBATIM) & self._is_hidden(self._table.rows(flat))
        targets = self._places([word for word, is_one in zip(words, chosen, strict=True) if is_one])
        total = cross_entropy(self(released, chosen), targets, reduction="sum")
        return total / max(1, len(targets))
