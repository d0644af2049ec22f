"""Infer an author's attribute from releases: `python -m stages.infer mlp tweets t2t 75`."""

from dataclasses import replace
from functools import cache
from typing import Any

from rapt import paths
from rapt.attacks.base import Inference, Release
from rapt.attacks.scores import attribute_scores, majority
from rapt.attacks.victims import with_values
from rapt.privacy import seeded
from rapt.privacy.base import AnyPrivatizer
from rapt.text.table import EmbeddingTable
from rapt.utils.errors import RaptError
from stages import run
from stages.attacked import Attacked


def main(attack: str, task: str, method: str, eta: str) -> None:
    """Attack the test split of TASK with what the attacker's own texts, the train split, teach."""
    on = Attacked.release("infer", attack, task, method, eta)
    how = on.attack
    assert isinstance(how, Inference)
    table = EmbeddingTable(paths.table(on.statement["embedding"]))
    tagged = {split: on.tagged(split) for split in ("train", "test")}
    names = list(on.params.tasks[task].inferred)
    valued = {split: with_values(rows, names) for split, rows in tagged.items()}
    tagged = {split: rows.take(valued[split]) for split, rows in tagged.items()}
    known, truth = (
        {name: rows[f"attribute_{name}"].to_pylist() for name in names} for rows in tagged.values()
    )
    for name, values in known.items():
        if len(set(values)) < 2:
            where = f"tasks.{task}.attributes.{name}"
            raise RaptError(f"{where}: got one value in the training split, expected two at least.")

    @cache
    def privatizer() -> AnyPrivatizer[Any]:
        return seeded.privatizer_of(on.statement, eta)

    def anew(seed: int, number: int) -> Release:
        names = ("attacker", number)
        return Release.of(seeded.release(privatizer(), tagged["train"], *names, seed=seed))

    # What varies is the author, where authors are known, as in the intervals.
    authors, units = None, tagged["test"]["example_id"].to_pylist()
    if "author" in tagged["test"].column_names:
        authors = tagged["test"]["author"].to_numpy()
        units = [f"author-{author}" for author in range(authors.max() + 1)]
    scores = {}
    for k in on.seeds():
        own, victims = (on.copy(k, split).only(rows) for split, rows in valued.items())
        own = replace(own, anew=anew)
        guesses = how.guesses(table, own, known, victims, on.params.seed + k)
        scores[k] = attribute_scores(truth, guesses, authors)
    on.write(
        scores,
        units,
        baselines={f"majority_{name}": majority(values) for name, values in truth.items()},
        counts={split: len(rows) for split, rows in tagged.items()},
    )


if __name__ == "__main__":
    run(main)
