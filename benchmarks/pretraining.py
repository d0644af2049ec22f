"""Pretraining against Transformers' Trainer with its collator for masked words, one thread.

A random BERT of MiniLM's shape, clean texts as long as SST-2's sentences, whose words are as
frequent as in Zipf's law. Both start from the same weights, freeze the embeddings, and are asked
about the same masked words afterwards.
"""

from __future__ import annotations

import math
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    BertConfig,
    BertForMaskedLM,
    DataCollatorForLanguageModeling,
    PreTrainedTokenizerFast,
    PrinterCallback,
    TrainingArguments,
)
from transformers import Trainer as PlainTrainer

from benchmarks.measure import Figure, figure, interleaved, ratio
from benchmarks.tables import write_table
from benchmarks.training import GPU, LENGTH, MINILM_SHAPE, SPREAD
from rapt.privacy.mechanisms import mechanism
from rapt.privacy.privatizer import Privatizer, of_words
from rapt.privacy.streams import stream
from rapt.text.table import EmbeddingTable
from rapt.tuning.checkpoints import Saved
from rapt.tuning.config import Pretraining
from rapt.tuning.pretraining import Corpus, Pretrainer

WORDS, TEXTS, HELD_OUT, ROUNDS, ASKED = 8192, 4096, 512, 3, 16
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
HOW = Pretraining(
    corpus=["benchmark"],
    method="t2t",
    eta=None,
    draws=1,
    steps=20,
    head_steps=0,
    checks=1,
    learning_rate=1e-3,
)


def run(tables: Path) -> list[Figure]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    table = EmbeddingTable(write_table(tables / f"{WORDS}x8", WORDS, 8))
    privatizer = of_words(mechanism(HOW.method).privatizer(table=table, eta=math.inf))
    with TemporaryDirectory() as scratch:
        folder = _backbone(Path(scratch), table)
        corpus = _corpus(privatizer, folder)
        trained: dict[str, Any] = {}
        taken = interleaved(
            {
                "plain": lambda: trained.update(plain=_plain(corpus, folder, Path(scratch))),
                "ours": lambda: trained.update(ours=_ours(corpus, folder)),
            },
            ROUNDS,
        )
        losses = {name: _loss(corpus, folder, model) for name, model in trained.items()}
        before = _loss(corpus, folder, Pretrainer(corpus, folder).model)
    torch.set_num_threads(threads)
    rate = HOW.steps / float(np.median(taken["ours"]))
    speedup = ratio(taken["plain"], taken["ours"])
    return [
        figure("pretraining / Transformers Trainer, one thread", speedup, "times", least=1.3),
        figure("pretraining, one thread", rate, "steps/s"),
        figure(f"loss of masked words after {HOW.steps} steps", losses["ours"], "nats"),
        figure("the same after Transformers Trainer", losses["plain"], "nats"),
        figure("the same before both", before, "nats"),
    ]


def _backbone(folder: Path, table: EmbeddingTable) -> Path:
    vocabulary = {word: row for row, word in enumerate([*SPECIAL, *table.words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = {f"{name.strip('[]').lower()}_token": name for name in SPECIAL}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)
    torch.manual_seed(0)
    shape = BertConfig(**MINILM_SHAPE)  # of as many tokens as MiniLM
    BertForMaskedLM(shape).save_pretrained(folder)
    return folder


def _corpus(privatizer: Privatizer, folder: Path) -> Corpus:
    rng = stream(0, "benchmark", "pretraining")
    shares = 1 / np.arange(1, WORDS + 1)
    lengths = np.clip(rng.lognormal(np.log(LENGTH), SPREAD, TEXTS + HELD_OUT), 2, 60).astype(int)
    words = rng.choice(WORDS, int(lengths.sum()), p=shares / shares.sum())
    every = [
        privatizer.text([f"w{row}" for row in rows], ["NOUN"] * len(rows))
        for rows in np.split(words, np.cumsum(lengths)[:-1])
    ]
    return Corpus([every[:TEXTS], every[TEXTS:]], privatizer, folder, HOW, 0)


def _ours(corpus: Corpus, folder: Path) -> Any:
    pretrainer, checkpoint = Pretrainer(corpus, folder), Saved({}, "benchmark")
    checkpoint.path.unlink(missing_ok=True)
    pretrainer.take_steps(checkpoint)
    checkpoint.path.unlink()
    return pretrainer.model


def _plain(corpus: Corpus, folder: Path, out: Path) -> Any:
    model = Pretrainer(corpus, folder).model
    cls, sep = corpus.tokenizer.cls_token_id, corpus.tokenizer.sep_token_id
    rows: list[Any] = [{"input_ids": [cls, *corpus.own[text], sep]} for text in corpus.texts]
    arguments = TrainingArguments(
        str(out / "trainer"),
        per_device_train_batch_size=HOW.batch_size,
        max_steps=HOW.steps,
        learning_rate=HOW.learning_rate,
        warmup_steps=HOW.warmup,
        weight_decay=0.01,
        max_grad_norm=1.0,
        use_cpu=not GPU,
        report_to=[],
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        log_level="error",
    )
    collator = DataCollatorForLanguageModeling(corpus.tokenizer, mlm_probability=HOW.masked)
    trainer = PlainTrainer(model, arguments, train_dataset=rows, data_collator=collator)
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    return model


@torch.no_grad()
def _loss(corpus: Corpus, folder: Path, model: Any) -> float:
    """The mean loss of masked words of texts held out."""
    asked = Pretrainer(corpus, folder)
    asked.model.load_state_dict(model.state_dict())
    asked.model.eval()
    batches = (corpus.batch(number, held_out=True, clean=True) for number in range(ASKED))
    return float(np.mean([asked.losses(batch)["masked"].item() for batch in batches]))
