import numpy as np
import pytest

from rapt.attacks.membership import MembershipLoss
from rapt.attacks.membership_scores import Ranking


def score(probabilities: np.ndarray, labels: np.ndarray) -> np.ndarray:
    attack = MembershipLoss(type="membership-loss")
    return attack.fit(labels, lambda tuned_on: pytest.fail("it needs no models"), 0)(probabilities)


def test_the_smaller_the_loss_the_more_a_text_looks_like_a_member() -> None:
    rng = np.random.default_rng(0)
    probabilities, labels = rng.dirichlet((1, 1, 1), 50), rng.integers(3, size=50)
    loss = -np.log([row[label] for row, label in zip(probabilities, labels, strict=True)])
    scores = score(probabilities, labels)
    assert scores.argsort().tolist() == (-loss).argsort().tolist()


def scored(n: int, loss: float, seed: int) -> np.ndarray:
    """Of n texts whose losses have an exponential distribution of this mean."""
    rng = np.random.default_rng(seed)
    labels, p = rng.integers(3, size=n), np.exp(-loss * rng.exponential(size=n))
    rest = (1 - p) * rng.random(n)
    probabilities = np.stack([rest, 1 - p - rest, p], axis=1)
    for row, label in zip(probabilities, labels, strict=True):
        row[[label, 2]] = row[[2, label]]
    return score(probabilities, labels)


@pytest.mark.parametrize("loss", [0.0, 0.5, 1.0], ids=["told", "in between", "null"])
def test_of_two_known_losses_it_reaches_their_auc(loss: float) -> None:
    """P(X < Y) = 1 / (1 + loss) of exponential X, of mean `loss`, and Y, of mean 1.

    At 1e-6, by the variance that Hanley and McNeil (1982) give for these very distributions.
    """
    members, others = 2000, 3000
    auc = 1 / (1 + loss)
    both, each = 2 * auc**2 / (1 + auc), auc / (2 - auc)  # P(X, X' < Y) and P(X < Y, Y')
    variance = (
        auc * (1 - auc) + (members - 1) * (both - auc**2) + (others - 1) * (each - auc**2)
    ) / (members * others)
    found = Ranking.of(scored(members, loss, 0), scored(others, 1.0, 1)).metrics()
    assert found["auc"] == pytest.approx(auc, abs=4.9 * np.sqrt(variance) + 1e-9)
    assert found["empirical_privacy"] == 1 - found["auc"]
