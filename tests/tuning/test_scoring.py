import pytest
import torch

from rapt.tuning.config import Run
from rapt.tuning.inputs import Batch
from rapt.tuning.model import Classifier
from rapt.tuning.scoring import logits
from tests.tuning.conftest import texts, trainer_of


def test_scoring_takes_what_memory_there_is(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    model, split = trainer_of(run).model, texts(run, "test")
    expected = logits(model, split, 0, 7)
    activations = Classifier.activations

    def small(self: Classifier, batch: Batch) -> torch.Tensor:
        if len(batch.labels) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return activations(self, batch)

    monkeypatch.setattr(Classifier, "activations", small)
    torch.testing.assert_close(logits(model, split, 0, 7), expected)
