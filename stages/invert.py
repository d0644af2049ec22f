"""Invert a release: `python -m stages.invert nearest movies t2t 75`."""

from rapt import grid, params, paths
from rapt.attacks import tagged_texts
from rapt.attacks.base import Inversion, Pairs, Public, Release
from rapt.attacks.scores import intervals, successes
from rapt.privacy import seeded
from rapt.privacy.channel import Channel
from rapt.results import cells, predictions
from rapt.utils import files
from rapt.utils.progress import bar
from stages import run


def main(attack: str, task: str, method: str, eta: str) -> None:
    """Guess every word of the test split of TASK from its release by METHOD at ETA."""
    p = params.load()
    how = p.attacks[attack]
    assert isinstance(how, Inversion)
    name = grid.released(method, eta)
    folder = paths.release(task, name)
    statement = files.read_json(paths.statement(folder))
    factors = {"attack": attack, "task": task, "method": method, "eta": eta}
    factors["embedding"] = embedding = statement["embedding"]
    cell = cells.Cell("invert", f"{attack}-{task}-{name}", factors)
    privatizer = seeded.privatizer_of(statement, eta)
    channel = paths.channel(embedding, name)
    own, attacked = (
        files.read_parquet(paths.tagged(task) / f"{split}.parquet") for split in ("train", "test")
    )
    texts = {
        of: tagged_texts.public(
            privatizer, files.read_parquet(paths.tagged(of) / "train.parquet"), attacked
        )
        for of in how.reads
    }
    public = Public.of(
        privatizer,
        Channel.load(channel, len(privatizer.table.words)) if how.reads_channel else None,
        [text for of in texts.values() for text in of],
    )
    words = tagged_texts.spelled(privatizer, own)
    victims = tagged_texts.victims(privatizer, attacked)

    def copy(k: int, split: str) -> Release:
        return Release.read(paths.seed(folder, k) / f"{split}.parquet")

    scores, seeds, baselines = [], [], {"majority": victims.majority()}
    inverter = None
    # Of an attack that takes several copies a seed is the first of them; none is taken twice.
    for k in bar(range(0, p.seeds - how.takes + 1, how.takes), attack, p.seeds // how.takes):
        if inverter is None or how.reads_pairs:
            inverter = how.fit(public, Pairs(words, copy(k, "train")), p.seed + k)
        released = [copy(k + i, "test") for i in range(how.takes)]
        errors = None
        if inverter.vectors and victims.protected.any():
            errors = victims.squared_errors(inverter.vectors, released[0], privatizer.table)
            baselines["squared_error"] = victims.spread(privatizer.table)
        scores.append(victims.score(inverter.words(released), errors))
        seeds.append(cells.SeedResult(seed=k, metrics=scores[-1].metrics()))
    examples = attacked["example_id"].to_pylist()
    predictions.write(paths.predictions("invert", cell.name), successes(scores, examples))
    cell.write(
        protection=statement["protection"],
        seeds=seeds,
        baselines=baselines,
        upper_bounds=how.upper_bounds(public, victims.protected_words),
        intervals=intervals(scores),
        counts={name: int(getattr(victims, name).sum()) for name in ("words", "protected")}
        | {f"texts of {of}": len(some) for of, some in texts.items()},
    )


if __name__ == "__main__":
    run(main)
