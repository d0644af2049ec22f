"""Infer an author's attribute from releases: `python -m stages.infer mlp tweets t2t 75`."""

from dataclasses import replace
from functools import cache

from rapt import params, paths
from rapt.attacks.base import Inference, Release
from rapt.attacks.scores import attribute_scores, intervals, majority, successes
from rapt.attacks.tagged_texts import with_values
from rapt.grid import released
from rapt.privacy import seeded
from rapt.privacy.privatizer import Privatizer
from rapt.results import cells, predictions
from rapt.text.table import EmbeddingTable
from rapt.utils import files
from rapt.utils.errors import RaptError
from rapt.utils.progress import bar
from stages import run


def main(attack: str, task: str, method: str, eta: str) -> None:
    """Attack the test split of TASK with what the attacker's own texts, the train split, teach."""
    p = params.load()
    name = released(method, eta)
    release = paths.release(task, name)
    statement = files.read_json(paths.statement(release))
    embedding = statement["embedding"]
    factors = {"attack": attack, "task": task, "method": method, "eta": eta, "embedding": embedding}
    cell = cells.Cell("infer", f"{attack}-{task}-{name}", factors)
    table = EmbeddingTable(paths.table(embedding))
    tagged = {s: files.read_parquet(paths.tagged(task) / f"{s}.parquet") for s in ("train", "test")}
    names = list(p.tasks[task].attributes or {})
    valued = {split: with_values(rows, names) for split, rows in tagged.items()}
    tagged = {split: rows.take(valued[split]) for split, rows in tagged.items()}
    known, truth = (
        {name: rows[f"attribute_{name}"].to_pylist() for name in names} for rows in tagged.values()
    )
    columns = tagged["test"].column_names
    authors = tagged["test"]["author"].to_numpy() if "author" in columns else None
    for name, values in known.items():
        if len(set(values)) < 2:
            where = f"tasks.{task}.attributes.{name}"
            raise RaptError(f"{where}: got one value in the training split, expected two at least.")
    how = p.attacks[attack]
    assert isinstance(how, Inference)

    @cache
    def privatizer() -> Privatizer:
        return seeded.privatizer_of(statement, eta)

    def anew(seed: int, number: int) -> Release:
        names = ("attacker", number)
        return Release.of(seeded.release(privatizer(), tagged["train"], *names, seed=seed))

    scores = []
    for k in bar(range(p.seeds), attack, p.seeds):
        own, victims = (
            Release.read(paths.seed(release, k) / f"{split}.parquet").only(rows)
            for split, rows in valued.items()
        )
        guesses = how.guesses(table, replace(own, anew=anew), known, victims, p.seed + k)
        scores.append(attribute_scores(truth, guesses, authors))
    # What varies is the author, where authors are known, as in the intervals.
    units = tagged["test"]["example_id"].to_pylist()
    if authors is not None:
        units = [f"author-{author}" for author in range(authors.max() + 1)]
    predictions.write(paths.predictions("infer", cell.name), successes(scores, units))
    cell.write(
        protection=statement["protection"],
        seeds=[cells.SeedResult(seed=k, metrics=found.metrics()) for k, found in enumerate(scores)],
        intervals=intervals(scores),
        baselines={f"majority_{name}": majority(values) for name, values in truth.items()},
        counts={split: len(rows) for split, rows in tagged.items()},
    )


if __name__ == "__main__":
    run(main)
