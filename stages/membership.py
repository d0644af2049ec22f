"""Infer membership: `python -m stages.membership loss movies minilm lora t2t 75`."""

from dataclasses import asdict
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from numpy.typing import NDArray

from rapt import params, paths
from rapt.attacks.base import Membership
from rapt.attacks.candidates import answers, shadow_answers
from rapt.attacks.membership_scores import RATES, Ranking, intervals
from rapt.grid import CLEAN, released
from rapt.kinds import kind_of
from rapt.privacy import seeded
from rapt.results import cells
from rapt.serving.model import Adapted
from rapt.serving.protocol import contract_of
from rapt.utils import files
from rapt.utils.device import device_name
from rapt.utils.progress import bar
from stages import run
from stages.tuning import run_of


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
    contract = contract_of(paths.seed(adapters, 0))
    statement = contract.statement
    factors |= {"attack": attack, "embedding": statement.embedding}
    cell = cells.Cell("membership", f"{attack}-{adapters.name}", factors)
    members, others = (
        files.read_parquet(paths.tagged(task) / f"{split}.parquet") for split in ("train", "test")
    )
    held_out = np.array(p.train.holds_out(len(members)))
    members = members.filter(~held_out)
    if "author" in others.column_names:  # each split numbers its authors from 0 on
        beyond = pc.add(others["author"], pc.add(pc.max(members["author"]), 1))
        others = others.set_column(others.column_names.index("author"), "author", beyond)
    candidates = pa.concat_tables([members, others])

    def tune(tuned_on: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Tune shadows as `stages.train` did, from noise and beginnings of their own."""
        plain, labels = p.method(method).plain_tokens, p.randomized_labels(task, method)
        kept = p.tasks[task].clean_columns if method == CLEAN else p.tasks[task].kept_columns
        privatizer = seeded.privatizer_of(asdict(statement), eta)
        facts = asdict(contract) | asdict(statement) | seeded.plain_facts(privatizer, plain)
        copies = [
            seeded.SeededCopy(privatizer, task, p.seed, p.seeds + k, plain, kept, labels)
            for k in range(len(tuned_on))
        ]
        run = partial(run_of, p, cell.name, factors, kind_of(facts))
        return shadow_answers(tuned_on, candidates, copies, run, facts)

    scores = how.fit(candidates["label"].to_numpy(), tune, p.seed)
    rankings = []
    for k in bar(range(p.seeds), attack, p.seeds):
        found = scores(answers(Adapted(paths.seed(adapters, k)), candidates))
        rankings.append(Ranking.of(found[: len(members)], found[len(members) :]))
    cell.write(
        protection=statement.protection,
        seeds=[
            cells.SeedResult(seed=k, metrics=ranking.metrics(), curves=ranking.curve())
            for k, ranking in enumerate(rankings)
        ],
        intervals=intervals(rankings),
        baselines={"auc": 0.5, **RATES},
        counts={"members": len(members), "others": len(others)},
        device=device_name(),
    )


if __name__ == "__main__":
    run(main)
