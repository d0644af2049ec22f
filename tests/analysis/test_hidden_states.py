"""Hidden states by layer, of every family of backbones, and what is computed of them."""

import pytest
import torch
from torch import Tensor

from rapt.analysis.hidden_states import distances, hidden_states, plane, spreads
from rapt.tuning.inputs import Split, collate, pooled, tokenized
from rapt.tuning.model import Classifier, adapt, load_backbone
from tests.tuning.families import FAMILIES, PLAIN, QUICK, TUNERS, make

TEXTS = [["good", "film"], ["bad", "unlikely", "plot", "so"], ["very", "bad", "film"]]


@pytest.fixture(scope="module", params=FAMILIES)
def tuned(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Classifier, Split, int]:
    """A family's backbone with a fresh adapter, and texts with plain words before them."""
    folder = make(request.param, tmp_path_factory.mktemp("family") / request.param)
    torch.manual_seed(0)
    backbone, tokenizer = load_backbone(folder)
    model = Classifier(adapt(backbone, TUNERS[QUICK[request.param]]), 2)
    columns = {
        "words": TEXTS,
        "segment": [[0] * len(words) for words in TEXTS],
        "plain": [PLAIN] * len(TEXTS),
        "label": [0, 1, 0],
    }
    return model, tokenized(columns, tokenizer, 16), tokenizer.pad_token_id


def test_the_last_layer_is_what_the_head_pools(tuned: tuple[Classifier, Split, int]) -> None:
    model, split, pad = tuned
    found = hidden_states(model, split, pad)
    assert found.shape == (3, 3, 32)  # two layers, and what the first is given
    batch = collate(split, range(3), pad)
    with torch.no_grad():
        last = pooled(model.activations(batch), batch.text)
    torch.testing.assert_close(found[-1], last, rtol=1e-4, atol=1e-5)
    assert (found[0] - found[-1]).norm() > 1e-3


def test_the_model_is_left_as_it_was(tuned: tuple[Classifier, Split, int]) -> None:
    model, split, pad = tuned
    before = hidden_states(model, split, pad)
    torch.testing.assert_close(hidden_states(model, split, pad), before)
    bare = (
        model.backbone.get_base_model() if hasattr(model.backbone, "peft_type") else model.backbone
    )
    assert not bare._forward_hooks and not bare._forward_pre_hooks


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape)))


def test_distances_are_those_of_the_same_text() -> None:
    clean = random(2, 5, 8)
    assert distances(clean, clean) == [0.0, 0.0]
    moved = clean.clone()
    moved[1, :, 0] += 3
    assert distances(clean, moved) == pytest.approx([0.0, 3.0], abs=1e-5)
    moved = clean.clone()
    moved[0, 0, 1] += 10  # one of five texts
    assert distances(clean, moved) == pytest.approx([2.0, 0.0], abs=1e-5)


def test_the_spread_is_the_mean_over_pairs_of_texts() -> None:
    square = torch.tensor([[[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]]])
    assert spreads(square) == pytest.approx([(3 + 4 + 5) / 3])


def test_the_plane_shows_what_varies_most_in_the_clean_states() -> None:
    """Two directions that vary, in any rotation: the plane keeps their distances."""
    flat = torch.cat([random(30, 2) * torch.tensor([5.0, 2.0]), torch.zeros(30, 6)], 1)
    rotation = torch.linalg.qr(random(8, 8, 1)[..., 0]).Q
    clean = (flat @ rotation)[None] + 7
    points = plane(clean, clean + rotation[0], 10)
    assert len(points) == 1 and len(points[0]["clean"]) == len(points[0]["own"]) == 10
    drawn = torch.tensor(points[0]["clean"])
    torch.testing.assert_close(torch.pdist(drawn), torch.pdist(clean[0, :10]), atol=1e-3, rtol=0)
    step = torch.tensor(points[0]["own"]) - drawn
    # All moved by one, along the same way of the plane.
    torch.testing.assert_close(step, step[:1].expand(10, 2), atol=1e-3, rtol=0)
    assert step[0].norm() == pytest.approx(1, abs=1e-3)


def test_axes_do_not_depend_on_what_is_set_against_the_clean_model() -> None:
    clean = random(1, 20, 8)
    one, other = (plane(clean, clean + shift, 20)[0] for shift in (1.0, -50.0))
    assert one["clean"] == other["clean"] and one["own"] != other["own"]
