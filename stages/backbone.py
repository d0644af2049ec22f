"""Locate a backbone, or pretrain it: `python -m stages.backbone minilm`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from rapt import models, params, paths
from rapt.privacy import seeded
from rapt.privacy.base import PreparedText
from rapt.privacy.privatizer import Privatizer, of_words
from rapt.utils import files
from stages import run


def main(name: str) -> None:
    """Write where backbone NAME comes from, and the digests of its weights; its files stay there.

    What tunes or reads it depends on this, and not on how it came about. One that is pretrained is
    written whole.
    """
    p = params.load()
    backbone, out = p.backbones[name], paths.backbone(name)
    if backbone.pretrained is None:
        models.note_source(backbone.model, backbone.sha256, out)
        return
    with files.atomic(out) as scratch:
        scratch.mkdir()
        files.write_json(scratch / models.SOURCE, pretrained(p, name, scratch))


def pretrained(p: params.Params, name: str, out: Path) -> dict[str, Any]:
    """Write the model after its pretraining; returns where it comes from, and how it went."""
    from rapt.tuning.checkpoints import Saved
    from rapt.tuning.pretraining import Corpus, disjoint, pretrain

    backbone = p.backbones[name]
    how, folder = backbone.pretrained, models.folder(backbone.model, backbone.sha256)
    assert how
    method, eta = p.methods[how.method], "inf" if how.eta is None else str(how.eta)
    privatizer = of_words(seeded.privatizer(p.embedding, method.mechanism, method.categories, eta))
    others = [task for task in p.sweep.tasks if task not in how.corpus]
    splits, left_out = {}, {}
    for split in ("train", "test"):
        corpus = pa.concat_tables([_tagged(task, split) for task in how.corpus])
        theirs = chain.from_iterable(
            _tagged(task, other)["words"].to_pylist()
            for task in others
            for other in ("train", "test")
        )
        own = disjoint(corpus["words"].to_pylist(), theirs)
        left_out[split] = own.count(False)
        splits[split] = corpus.filter(pa.array(own))
    texts = [_texts(privatizer, corpus) for corpus in splits.values()]
    read = Corpus(texts, privatizer, folder, how, p.seed)
    inputs = {
        "name": name,
        "how": how.model_dump(),
        "seed": p.seed,
        "backbone": files.sha256(folder),
        "table": files.sha256(paths.table(p.embedding)),
        "method": method.model_dump(mode="json"),
        "texts": [files.sha256(paths.tagged(task)) for task in (*how.corpus, *others)],
    }
    saved = Saved(inputs, f"backbones.{name}.pretrained")
    found = pretrain(read, folder, out, saved)
    saved.path.unlink(missing_ok=True)
    told = models.source(backbone.model, folder)
    return told | {"pretrained": how.model_dump() | found | {"left_out": left_out}}


def _tagged(task: str, split: str) -> pa.Table:
    return files.read_parquet(paths.tagged(task) / f"{split}.parquet", list(seeded.TAGGED))


def _texts(privatizer: Privatizer, tagged: pa.Table) -> Iterator[PreparedText]:
    return (privatizer.text(*row) for row in seeded.rows_of(tagged, *seeded.TAGGED))


if __name__ == "__main__":
    run(main)
