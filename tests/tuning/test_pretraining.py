"""Pretraining on public text with the users' noise, by a tiny BERT over the tiny table."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import binomtest
from transformers import BertConfig, BertModel

from rapt.privacy.mechanisms import mechanism
from rapt.text.table import EmbeddingTable
from rapt.tuning.checkpoints import Saved
from rapt.tuning.config import Pretraining
from rapt.tuning.pretraining import IGNORED, Corpus, Masked, Pretrainer, disjoint, pretrain
from rapt.utils import files
from rapt.utils.errors import RaptError
from tests.tuning.tokenizers import of_words

FALSE_ALARM = 1e-6
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un", "##known"]
HOW: dict[str, Any] = {
    "corpus": ["any"], "method": "t2t", "eta": 3, "draws": 12, "steps": 8, "head_steps": 3,
    "batch_size": 16, "max_tokens": 16, "checks": 2, "learning_rate": 1e-3,
}  # fmt: skip


@pytest.fixture(scope="module")
def encoder(table: EmbeddingTable, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT as wide as the table, of its words; it has no head."""
    folder = tmp_path_factory.mktemp("models") / "encoder"
    vocabulary = [*SPECIAL, *table.words]
    of_words(vocabulary).save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = BertConfig(
        vocab_size=len(vocabulary), intermediate_size=16, max_position_embeddings=32, **sizes
    )
    BertModel(config, add_pooling_layer=False).save_pretrained(folder)
    return folder


def corpus(
    table: EmbeddingTable, encoder: Path, type: str = "t2t", eta: float = 3, **how: Any
) -> Corpus:
    """60 texts of 3 to 10 words, and 30 that are held out."""
    privatizer = mechanism(type=type).privatizer(table=table, eta=eta)
    rng, words = np.random.default_rng(0), [*table.words, "unknown"]
    texts = [rng.choice(words, rng.integers(3, 11)).tolist() for _ in range(90)]
    prepared: Any = [privatizer.text(text, ["NOUN"] * len(text)) for text in texts]
    given = Pretraining(**(HOW | how))
    return Corpus([prepared[:60], prepared[60:]], privatizer, encoder, given, 0)


def shown(batch: Masked, token: int) -> int:
    return int((batch.tokens[batch.places] == token).sum())


def test_masks_depend_on_neither_eta_nor_objective(table: EmbeddingTable, encoder: Path) -> None:
    made = [corpus(table, encoder, eta=eta) for eta in (1, 3)]
    made.append(corpus(table, encoder, objective="prob"))
    made.append(corpus(table, encoder, "token-representation"))
    first, *others = [one.batch(5) for one in made]
    for other in others:
        assert torch.equal(first.places, other.places) and torch.equal(first.words, other.words)
        assert torch.equal(first.attention, other.attention)
    assert not torch.equal(first.tokens, others[0].tokens)
    assert not torch.equal(first.tokens, made[0].batch(6).tokens)


def test_of_a_text_15_in_100_words_are_masked_four_fifths_of_them_by_the_mask(
    table: EmbeddingTable, encoder: Path
) -> None:
    """At least one a text. Tested exactly: the other fifth is any word, or the word as released."""
    made = corpus(table, encoder, batch_size=64)
    batches = [made.batch(step) for step in range(30)]
    for batch in batches[:3]:
        sizes = (batch.attention.sum(1) - 2).numpy()
        expected = np.maximum(1, np.rint(0.15 * sizes))
        np.testing.assert_array_equal(batch.places.sum(1), expected)
        assert (batch.tokens[:, 0] == 2).all() and not batch.places[:, 0].any()
        seen = batch.tokens[batch.attention & ~batch.places]
        assert set(seen.tolist()) <= {2, 3, *range(len(SPECIAL), 25)}  # words of the table
    masked = sum(int(batch.places.sum()) for batch in batches)
    hidden = sum(shown(batch, 4) for batch in batches)
    assert binomtest(hidden, masked, 0.8).pvalue > FALSE_ALARM
    kept = sum(int((b.tokens[b.places] == b.released).sum()) for b in batches)
    assert kept > 0.1 * 0.8 * masked


def test_a_batch_read_in_parts_has_the_states_of_one_read_whole(
    table: EmbeddingTable, encoder: Path
) -> None:
    made = corpus(table, encoder)
    trainer, batch = Pretrainer(made, encoder), made.batch(0)
    assert len({*batch.attention.sum(1).tolist()}) > 4
    trainer.model.eval()
    whole = trainer.bare(
        input_ids=batch.tokens, attention_mask=batch.attention, token_type_ids=batch.types
    ).last_hidden_state
    seen = trainer._states(batch)[batch.attention]
    torch.testing.assert_close(seen, whole[batch.attention], atol=1e-5, rtol=1e-4)


def test_prob_is_the_mean_of_vanilla_over_all_draws(table: EmbeddingTable, encoder: Path) -> None:
    """Equal mean gradients (METHOD: prob is vanilla with less variance)."""
    made = corpus(table, encoder, objective="prob")
    trainer, batch = Pretrainer(made, encoder), made.batch(0)
    trainer.model.eval()

    def gradient(how: str, released: torch.Tensor) -> torch.Tensor:
        trainer.how = made.how.model_copy(update={"objective": how})
        trainer.model.zero_grad()
        trainer.losses(batch._replace(released=released))["masked"].backward()
        return torch.cat(
            [w.grad.flatten() for w in trainer.head.parameters() if w.grad is not None]
        )

    draws = trainer.draws[batch.words]
    each = [gradient("vanilla", draws[:, k]) for k in range(made.how.draws)]
    torch.testing.assert_close(torch.stack(each).mean(0), gradient("prob", batch.released))


def test_without_noise_the_three_objectives_are_one(table: EmbeddingTable, encoder: Path) -> None:
    """And that of a masked language model: a word of two tokens stays, and is not asked."""
    losses = []
    for objective in ("vanilla", "prob", "denoising"):
        made = corpus(table, encoder, eta=np.inf, objective=objective)
        trainer = Pretrainer(made, encoder)
        trainer.model.eval()
        losses.append(float(trainer.losses(made.batch(0))["masked"].detach()))
    assert losses[0] == pytest.approx(losses[1], abs=1e-6) and losses[0] == losses[2]
    assert (made.own != IGNORED).all() and any((text < 0).any() for text in made.texts)


def test_without_context_prob_is_least_at_the_marginal_of_what_is_released(
    table: EmbeddingTable, encoder: Path
) -> None:
    """Σ_w π(w)·P(·|w): there the gradient of equal logits at every place vanishes."""
    made = corpus(table, encoder, objective="prob", batch_size=64)
    trainer, batch = Pretrainer(made, encoder), made.batch(0)
    size = len(SPECIAL) + len(table.words)
    marginal = np.bincount(trainer.draws[batch.words].flatten().numpy(), minlength=size) + 1e-9
    logits = torch.tensor(np.log(marginal / marginal.sum()), dtype=torch.float32)
    logits = logits.requires_grad_()
    trainer._masked(logits.expand(len(batch.words), -1), batch).backward()
    assert logits.grad is not None and logits.grad.abs().max() < 1e-6


def test_vectors_are_shown_and_what_they_are_nearest_to_is_asked(
    table: EmbeddingTable, encoder: Path
) -> None:
    made = corpus(table, encoder, "token-representation", eta=2)
    batch = made.batch(0)
    assert batch.vectors is not None
    rows = -1 - batch.tokens[batch.tokens < 0]
    assert rows.tolist() == list(range(len(batch.vectors)))
    kept = batch.tokens[batch.places] < 0
    nearest = table.vectors @ batch.vectors[-1 - batch.tokens[batch.places][kept]].numpy().T
    nearest = (nearest - (table.vectors**2).sum(1)[:, None] / 2).argmax(0)
    assert (batch.released[kept].numpy() - len(SPECIAL) == nearest).all() and kept.any()
    assert torch.isfinite(Pretrainer(made, encoder).losses(batch)["masked"])


def saved(name: str) -> Saved:
    return Saved({"test": name}, "backbones.mine.pretrained")


@pytest.mark.parametrize("next_sentence", [False, True])
def test_a_killed_pretraining_goes_on_to_equal_bytes(
    table: EmbeddingTable,
    encoder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    next_sentence: bool,
) -> None:
    """Killed after the first check; the embeddings, and so the output's, stay where they were."""
    monkeypatch.chdir(tmp_path)
    made = corpus(table, encoder, next_sentence=next_sentence)
    told = pretrain(made, encoder, Path("whole"), saved("whole"))
    losses, calls = Pretrainer.losses, []

    def killed(self: Pretrainer, batch: Masked) -> Any:
        calls.append(1)
        if len(calls) == 7:
            raise KeyboardInterrupt
        return losses(self, batch)

    monkeypatch.setattr(Pretrainer, "losses", killed)
    with pytest.raises(KeyboardInterrupt):
        pretrain(made, encoder, Path("again"), saved("again"))
    assert saved("again").step() == "step 4"
    again = pretrain(made, encoder, Path("again"), saved("again"))
    assert again == told and [check["step"] for check in told["checks"]] == [4, 8]
    assert all(0 <= check["score"] <= 1 for check in told["checks"])
    assert ("next" in told["checks"][0]) == next_sentence
    weights = [Path(folder) / "model.safetensors" for folder in ("whole", "again")]
    assert files.sha256(weights[0]) == files.sha256(weights[1])
    before, after = (
        BertModel.from_pretrained(f, add_pooling_layer=False) for f in (encoder, "whole")
    )
    assert torch.equal(before.get_input_embeddings().weight, after.get_input_embeddings().weight)
    changed = [
        name
        for name, weight in after.named_parameters()
        if not torch.equal(weight, before.get_parameter(name))
    ]
    assert len(changed) > 20


def test_what_shares_eight_words_with_another_task_is_left_out() -> None:
    text = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    others = [[*text[1:], "ten"], ["a", "short", "one"]]
    found = disjoint([text, text[:8], ["A", "short", "one"], ["short", "one"], []], others)
    assert found == [False, True, False, False, True]
    assert disjoint([["is", "very", "good"]], [["it", "is", "very", "good", "so"]]) == [False]


def test_a_backbone_that_cannot_and_a_corpus_without_noise_are_one_line(
    table: EmbeddingTable, encoder: Path, tmp_path: Path
) -> None:
    privatizer = mechanism(type="pct2t").privatizer(table=table, eta=3.0, categories=["noun"])
    texts: Any = [privatizer.text(["the"], ["DET"])]
    with pytest.raises(RaptError, match=r"^pretrained\.corpus: got no words that get noise"):
        Corpus([texts, texts], privatizer, encoder, Pretraining(**HOW), 0)
    with pytest.raises(RaptError, match=r"got files without .* of its weights, as cls\."):
        Pretrainer(corpus(table, encoder, head_steps=0), encoder)
