"""Privacy-adaptive pretraining: a masked language model of public text that has the users' noise.

Qu et al., 2021 (arXiv 2104.07504), section 3.4. The public text is privatized anew whenever it is
read, by draws that each word's channel was made of beforehand. Its words are the user's units: a
word that gets noise is one token, and only such words are masked. The input embeddings are frozen,
and with them the output's, which are tied to them: else they would evade the noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy, pad
from transformers import AutoModelForMaskedLM, AutoModelForPreTraining, get_scheduler

from rapt import models
from rapt.privacy.base import PreparedText
from rapt.privacy.categories import VERBATIM
from rapt.privacy.privatizer import Privatizer, WordVectorPrivatizer
from rapt.privacy.streams import stream
from rapt.tuning.checkpoints import Saved, give, resume, state_of
from rapt.tuning.config import Pretraining
from rapt.tuning.loading import load_tokenizer
from rapt.utils.device import device
from rapt.utils.errors import RaptError
from rapt.utils.progress import bar, counter

Ids = NDArray[np.int64]
MOST_MASKED = 20  # words of a text
PARTS = 4  # of a batch, each of texts of about one length
SHOWN_AS_MASK, SHOWN_AS_ANY = 0.8, 0.1  # of the masked words; the others are shown as released
IGNORED = -100
GRAM = 8


def disjoint(corpus: Iterable[Sequence[str]], others: Iterable[Sequence[str]]) -> list[bool]:
    """Return which texts of a corpus share no 8 words in a row with any other, or if short all."""
    own = [[word.lower() for word in text] for text in corpus]
    sizes = {min(GRAM, len(text)) for text in own if text}
    theirs = {
        gram
        for text in others
        for size in sizes
        for gram in _grams([word.lower() for word in text], size)
    }
    return [theirs.isdisjoint(_grams(text, min(GRAM, len(text)))) for text in own]


def _grams(words: Sequence[str], size: int) -> Iterator[tuple[str, ...]]:
    """Yield the runs of this many words; none of no words."""
    for start in range(len(words) - size + 1 if size else 0):
        yield tuple(words[start : start + size])


class Masked(NamedTuple):
    """A batch of texts of which some words are to be predicted.

    Attributes:
        tokens: (b, t), as the model reads them; -1 - i: row i of `vectors`.
        attention: 1 at tokens, 0 at padding, (b, t).
        types: the segment of each token, (b, t).
        places: which are predicted, bool (b, t); m of them.
        words: the row in `Corpus.draws` of each predicted one, (m,).
        released: the token that each was released as, (m,).
        follows: whether the second of a pair follows the first, (b,); None: no pairs.
        vectors: what is released of the words that are shown, float32 (r, d); None: tokens are.
    """

    tokens: Tensor
    attention: Tensor
    types: Tensor
    places: Tensor
    words: Tensor
    released: Tensor
    follows: Tensor | None
    vectors: Tensor | None


class Corpus:
    """Public texts, their noise and their masks.

    Attributes:
        texts: of each its units, int64: from 0 a word with noise, a row of `draws`; below 0 a token
            that stays, as -1 - token.
        own: the token of each word with noise, int64 (n,); IGNORED if it is of several.
        draws: the tokens that each word with noise was released as, int64 (n, draws).
    """

    def __init__(
        self,
        splits: Sequence[Iterable[PreparedText]],
        privatizer: Privatizer,
        folder: Path,
        how: Pretraining,
        seed: int,
    ) -> None:
        """Draw what each distinct word is released as.

        Args:
            splits: texts to read, and texts that are held out.
            privatizer: of the users' method at its η; at inf a word of several tokens stays.
            folder: the backbone's.
            how: the pretraining.
            seed: of all draws.

        Raises:
            RaptError: there are no words with noise, or the backbone has no mask token.
        """
        self.privatizer, self.how, self.seed = privatizer, how, seed
        self.tokenizer = load_tokenizer(folder)
        if self.tokenizer.mask_token_id is None:
            raise RaptError("the backbone's tokenizer: got no mask token, expected one.")
        self._known: dict[str, list[int]] = {}
        places: dict[tuple[str, int], int] = {}
        self.texts, self.held_out = (
            [units for text in split if (units := self._units(text, places)).size]
            for split in splits
        )
        if not (places and self.texts and self.held_out):
            raise RaptError("pretrained.corpus: got no words that get noise, expected some.")
        if how.next_sentence and min(len(self.texts), len(self.held_out)) < 3:
            raise RaptError(
                "pretrained.next_sentence: got true with fewer than 3 texts in a split of the "
                "corpus, expected more."
            )
        self.own = np.array([self._token(word) for word, _ in places], np.int64)
        drawn = privatizer.release(
            PreparedText(
                [word] * how.draws,
                [group] * how.draws,
                partial(stream, seed, "pretrain", word, group),
            )
            for word, group in places
        )
        self.draws = np.array([[*map(self._token, text.words)] for text in drawn], np.int64)
        self.vectors: NDArray[np.float32] | None = None
        if privatizer.releases.has_vectors and math.isfinite(privatizer.eta):
            self.vectors = privatizer.table.embed([word for word, _ in places])

    def _token(self, word: str) -> int:
        """The token of a word; IGNORED if it is of several."""
        ids = self._tokens(word)
        return ids[0] if len(ids) == 1 else IGNORED

    def _tokens(self, word: str) -> list[int]:
        if word not in self._known:
            form = self.privatizer.table.form(word)
            self._known[word] = self.tokenizer(form, add_special_tokens=False)["input_ids"]
        return self._known[word]

    def _units(self, text: PreparedText, places: dict[tuple[str, int], int]) -> Ids:
        units: list[int] = []
        for word, group in zip(text.words, text.groups, strict=True):
            is_clean = math.isinf(self.privatizer.eta) and self._token(word) == IGNORED
            if group == VERBATIM or is_clean:
                units += [-1 - token for token in self._tokens(word)]
            else:
                units.append(places.setdefault((word, group), len(places)))
        return np.array(units, np.int64)

    def batch(self, step: int, *, held_out: bool = False, clean: bool = False) -> Masked:
        """Draw the texts of a step, their masks and then their noise, from streams of their own.

        So neither η nor the objective changes texts and masks, and no step depends on another.
        """
        how, texts = self.how, self.held_out if held_out else self.texts
        names = ("pretrain", "held out" if held_out else "read")
        chosen, masks, noise = (
            stream(self.seed, *names, what, step) for what in ("texts", "masks", "noise")
        )
        rows = chosen.integers(len(texts), size=how.batch_size)
        pairs, follows = [[texts[row]] for row in rows], None
        if how.next_sentence:
            follows = chosen.integers(2, size=len(rows))
            other = (rows + 2 + chosen.integers(len(texts) - 2, size=len(rows))) % len(texts)
            second = np.where(follows, (rows + 1) % len(texts), other)
            pairs = [[texts[one], texts[two]] for one, two in zip(rows, second, strict=True)]
        units, types = self._laid_out(pairs)
        noisy = units >= 0
        words = np.where(noisy, units, 0)
        drawn = self.draws[words, noise.integers(how.draws, size=units.shape)]
        if clean:
            drawn = self.own[words]
        tokens = np.where(noisy, drawn, -1 - units)
        tokens[tokens == IGNORED] = self.tokenizer.unk_token_id
        order = np.where(noisy, masks.random(units.shape), np.inf).argsort(1).argsort(1)
        most = np.clip(np.rint(how.masked * noisy.sum(axis=1)), 1, MOST_MASKED)
        places = noisy & (order < most[:, None])
        vectors = None
        shown = masks.random(units.shape)
        if self.vectors is not None and not clean:
            at = noisy & ~(places & (shown < SHOWN_AS_MASK + SHOWN_AS_ANY))
            exact = self.vectors[words[at]]
            mechanism, eta = self.privatizer.mechanism, self.privatizer.eta
            vectors = mechanism.release(exact, noise, eta).astype(np.float32)
            kept = places[at]  # a shown one is asked as what it is nearest to
            assert isinstance(self.privatizer, WordVectorPrivatizer)
            drawn[at & places] = [*map(self._token, self.privatizer.nearest(vectors[kept]))]
            tokens[at] = -1 - np.arange(len(vectors))
        tokens[places & (shown < SHOWN_AS_MASK)] = self.tokenizer.mask_token_id
        is_any = places & (shown >= SHOWN_AS_MASK) & (shown < SHOWN_AS_MASK + SHOWN_AS_ANY)
        anything = self.own[masks.integers(len(self.own), size=units.shape)]
        anything[anything == IGNORED] = self.tokenizer.unk_token_id
        tokens[is_any] = anything[is_any]
        of = torch.from_numpy
        return Masked(
            *(of(tokens), of(types >= 0), of(np.maximum(types, 0)), of(places)),
            *(of(words[places]), of(drawn[places])),
            follows=None if follows is None else of(follows),
            vectors=None if vectors is None else of(vectors),
        )

    def _laid_out(self, pairs: Sequence[Sequence[Ids]]) -> tuple[Ids, Ids]:
        """Return units with special tokens, and segments, (b, t); a segment of -1 is padding."""
        cls, sep, pad = (
            -1 - int(token)
            for token in (
                self.tokenizer.cls_token_id,
                self.tokenizer.sep_token_id,
                self.tokenizer.pad_token_id,
            )
        )
        built = []
        for parts in pairs:
            room = (self.how.max_tokens - 1) // len(parts) - 1
            units, types = [np.array([cls])], [np.zeros(1, np.int64)]
            for segment, part in enumerate(parts):
                units += [part[:room], np.array([sep])]
                types.append(np.full(len(part[:room]) + 1, segment))
            built.append((np.concatenate(units), np.concatenate(types)))
        longest = max(len(units) for units, _ in built)
        laid = [np.full((len(built), longest), pad), np.full((len(built), longest), -1)]
        for row, own in enumerate(built):
            for whole, values in zip(laid, own, strict=True):
                whole[row, : len(values)] = values
        return laid[0], laid[1]


class Pretrainer:
    """A masked language model whose input embeddings are frozen, in training on a corpus."""

    def __init__(self, corpus: Corpus, folder: Path) -> None:
        """Load the backbone; a head that it lacks is fresh.

        Raises:
            RaptError: it has no masked language model of this kind in Transformers, or is asked for
                next sentences and cannot.
        """
        self.corpus, self.how, self.device = corpus, corpus.how, device()
        torch.manual_seed(corpus.seed)
        fresh = ("cls.", "lm_head.", "bert.pooler.") if self.how.head_steps else ()
        auto = AutoModelForPreTraining if self.how.next_sentence else AutoModelForMaskedLM
        loaded: Any = models.load(auto, folder, fresh=fresh)
        model: Any = loaded.to(self.device).train()
        heads = getattr(model, "cls", None)
        self.head: Any = getattr(heads, "predictions", getattr(model, "lm_head", None))
        self.relation: Any = getattr(heads, "seq_relationship", None)
        kind = model.config.model_type
        if self.head is None or model.config.is_encoder_decoder:
            raise RaptError(f"the backbone: got {kind}, expected a masked language model.")
        if self.how.next_sentence and self.relation is None:
            raise RaptError(
                f"pretrained.next_sentence: got true with {kind}, expected false: its model of "
                "Transformers has no such head."
            )
        self.model = model
        self.bare: Any = self.model.base_model
        self.model.get_input_embeddings().weight.requires_grad_(False)
        self.draws = torch.from_numpy(corpus.draws)
        self.own = torch.from_numpy(corpus.own)

    def losses(self, batch: Masked) -> dict[str, Tensor]:
        """Compute the mean loss of the masked words, and of next sentences if there are pairs."""
        states = self._states(batch)
        logits = self.head(states[batch.places.to(self.device)]).float()
        found = {"masked": self._masked(logits, batch)}
        if batch.follows is not None:
            pooled = self.bare.pooler(states) if self.bare.pooler else states[:, 0]
            found["next"] = cross_entropy(self.relation(pooled), 1 - batch.follows.to(self.device))
        return found

    def _masked(self, logits: Tensor, batch: Masked) -> Tensor:
        if self.how.objective == "prob":
            # The mean over the draws of -log q: the cross entropy from the channel as drawn.
            targets = self.draws[batch.words].to(self.device)
            logs = logits.log_softmax(-1).gather(1, targets.clamp(min=0))
            return -(logs * (targets >= 0)).sum() / max(1, int((targets >= 0).sum()))
        wanted = batch.released if self.how.objective == "vanilla" else self.own[batch.words]
        total = cross_entropy(logits, wanted.to(self.device), ignore_index=IGNORED, reduction="sum")
        return total / max(1, int((wanted != IGNORED).sum()))

    def _states(self, batch: Masked) -> Tensor:
        tokens = batch.tokens.to(self.device)
        embedded = self.model.get_input_embeddings()(tokens.clamp(min=0))
        if batch.vectors is not None:
            embedded[tokens < 0] = batch.vectors.to(embedded)
        types = {"token_type_ids": batch.types.to(self.device)}
        if getattr(self.model.config, "type_vocab_size", 0) < 2:
            types = {}
        mask = batch.attention.long().to(self.device)
        width, lengths = mask.shape[1], batch.attention.sum(1)
        order, states = lengths.argsort(), []
        for rows in order.chunk(PARTS):  # each as long as its longest text: little is padding
            until = int(lengths[rows[-1]])
            read: Any = self.bare(
                inputs_embeds=embedded[rows, :until],
                attention_mask=mask[rows, :until],
                **{name: of[rows, :until] for name, of in types.items()},
            )
            states.append(pad(read.last_hidden_state, (0, 0, 0, width - until)))
        return torch.cat(states)[order.argsort()]

    @torch.no_grad()
    def score(self, batches: int = 8) -> float:
        """How many masked words of clean texts held out it names."""
        self.model.eval()
        right = asked = 0
        for number in range(batches):
            batch = self.corpus.batch(number, held_out=True, clean=True)
            wanted = self.own[batch.words].to(self.device)
            guesses = self.head(self._states(batch)[batch.places.to(self.device)]).argmax(-1)
            right += int((guesses == wanted).sum())
            asked += int((wanted != IGNORED).sum())
        self.model.train()
        return right / max(1, asked)

    def take_steps(self, checkpoint: Saved) -> list[dict[str, float]]:
        """Train, from the checkpoint on if there is one; keep the weights that scored best.

        Returns:
            what was measured at each of the checks: step, losses and score.
        """
        how = self.how
        learning = {n: w for n, w in self.model.named_parameters() if w.requires_grad}
        optimizer = torch.optim.AdamW(learning.values(), lr=how.learning_rate, weight_decay=0.01)
        schedule = get_scheduler("linear", optimizer, int(how.warmup * how.steps), how.steps)
        best: dict[str, Tensor] = {}
        checks: list[dict[str, float]] = []
        start, every = 0, max(1, how.steps // how.checks)
        if saved := checkpoint.load():
            tensors, facts = saved
            resume(saved, learning, optimizer, schedule, self.device)
            best = {n: tensors[f"best.{n}"] for n in learning if f"best.{n}" in tensors}
            start, checks = facts["at"]["step"], facts["checks"]
        with counter("pretraining", how.steps, "step") as progress:
            progress.update(start)
            for step in range(start, how.steps):
                losses = self.losses(self.corpus.batch(step))
                optimizer.zero_grad()
                total: Tensor = sum(losses.values(), torch.zeros((), device=self.device))
                total.backward()
                torch.nn.utils.clip_grad_norm_(learning.values(), 1.0)
                optimizer.step()
                schedule.step()
                progress.update()
                if (step + 1) % every == 0 or step + 1 == how.steps:
                    found = {name: float(loss.detach()) for name, loss in losses.items()}
                    if not all(map(math.isfinite, found.values())):
                        raise RaptError(
                            f"pretrained: got a loss that is not a number at step {step + 1}, "
                            f"expected a finite one. Lower learning_rate ({how.learning_rate})."
                        )
                    score = self.score()
                    if score >= max((check["score"] for check in checks), default=0.0):
                        best = {n: w.detach().cpu().clone() for n, w in learning.items()}
                    checks.append({"step": step + 1, "score": score} | found)
                elif not checkpoint.due():
                    continue
                tensors, facts = state_of(learning, optimizer, schedule, self.device)
                tensors |= {f"best.{name}": weight for name, weight in best.items()}
                checkpoint.save(tensors, facts | {"at": {"step": step + 1}, "checks": checks})
        give(learning, best)
        return checks

    def fit_head(self) -> None:
        """Fit a fresh head to clean text, while the model below it stays as it is."""
        weights = [weight for weight in self.head.parameters() if weight.requires_grad]
        optimizer = torch.optim.AdamW(weights, lr=self.how.head_learning_rate)
        for step in bar(range(self.how.head_steps), "head", self.how.head_steps):
            batch = self.corpus.batch(step, clean=True)
            with torch.no_grad():
                states = self._states(batch)[batch.places.to(self.device)]
            wanted = self.own[batch.words].to(self.device)
            loss = cross_entropy(self.head(states).float(), wanted, ignore_index=IGNORED)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def pretrain(corpus: Corpus, folder: Path, out: Path, checkpoint: Saved) -> dict[str, Any]:
    """Pretrain a backbone on a corpus and write it; returns what was measured on the way."""
    torch.set_num_threads(1)
    trainer = Pretrainer(corpus, folder)
    if not checkpoint.path.exists():
        trainer.fit_head()
    checks = trainer.take_steps(checkpoint)
    trainer.bare.save_pretrained(out)
    corpus.tokenizer.save_pretrained(out)
    return {"checks": checks, "texts": len(corpus.texts), "held_out": len(corpus.held_out)}
