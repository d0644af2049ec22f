import numpy as np

from rapt.attacks.membership import MembershipLoss


def test_the_smaller_the_loss_the_more_a_text_looks_like_a_member() -> None:
    rng = np.random.default_rng(0)
    probabilities, labels = rng.dirichlet((1, 1, 1), 50), rng.integers(3, size=50)
    loss = -np.log([row[label] for row, label in zip(probabilities, labels, strict=True)])
    scores = MembershipLoss(type="membership-loss").scores(probabilities, labels)
    assert scores.argsort().tolist() == (-loss).argsort().tolist()
