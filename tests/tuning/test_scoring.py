import pytest
import torch

from rapt.tuning.config import Run
from rapt.tuning.inputs import Batch, read_split
from rapt.tuning.model import Classifier, adapt, load_backbone
from rapt.tuning.scoring import logits


def test_scoring_takes_what_memory_there_is(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    backbone, tokenizer = load_backbone(run.backbone)
    model = Classifier(adapt(backbone, run.tuner), 2)
    split = read_split(run.release / "seed-0/test.parquet", tokenizer, run.train.max_tokens)
    expected = logits(model, split, 0, 7)
    activations = Classifier.activations

    def small(self: Classifier, batch: Batch) -> torch.Tensor:
        if len(batch.labels) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return activations(self, batch)

    monkeypatch.setattr(Classifier, "activations", small)
    torch.testing.assert_close(logits(model, split, 0, 7), expected)
