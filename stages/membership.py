"""Infer membership: `python -m stages.membership loss movies minilm lora t2t 75`."""

import numpy as np
import torch

from rapt import params, paths
from rapt.attacks.base import Membership
from rapt.attacks.membership_scores import Ranking, intervals, scores
from rapt.grid import released
from rapt.results import cells
from rapt.serving.model import Adapted
from rapt.serving.protocol import contract_of
from rapt.utils import files
from rapt.utils.device import device_name
from rapt.utils.progress import bar
from stages import run


def main(attack: str, task: str, backbone: str, tuner: str, method: str, eta: str) -> None:
    """Tell the train split of TASK from its test split by an adapter that was tuned on the first.

    The attacker has the original texts. The secret is whether they were in the training data.
    """
    # As in training: with more threads the sums depend on how many there are.
    torch.set_num_threads(1)
    p = params.load()
    how = p.attacks[attack]
    assert isinstance(how, Membership)
    factors = {"task": task, "backbone": backbone, "tuner": tuner, "method": method, "eta": eta}
    adapters = paths.adapter(f"{task}-{backbone}-{tuner}-{released(method, eta)}")
    statement = contract_of(adapters / "seed-0").statement
    factors = {"attack": attack, **factors, "embedding": statement.embedding}
    cell = cells.Cell("membership", f"{attack}-{adapters.name}", factors)
    members, others = (
        files.read_parquet(paths.tagged(task) / f"{split}.parquet") for split in ("train", "test")
    )
    held_out = np.array(p.train.holds_out(len(members)))
    members = members.filter(~held_out)
    rankings = []
    for k in bar(range(p.seeds), attack, p.seeds):
        model = Adapted(adapters / f"seed-{k}")
        rankings.append(Ranking.of(scores(how, model, members), scores(how, model, others)))
    cell.write(
        protection=statement.protection,
        seeds=[
            cells.SeedResult(seed=k, metrics=found.metrics()) for k, found in enumerate(rankings)
        ],
        intervals=intervals(rankings),
        baselines={"auc": 0.5, "tpr_at_1": 0.01},
        counts={"members": len(members), "others": len(others)},
        device=device_name(),
    )


if __name__ == "__main__":
    run(main)
