"""Invert a release: `python -m stages.invert nearest movies t2t 75`."""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rapt import grid, params, paths
from rapt.attacks.base import Inversion, Pairs, Public, Release
from rapt.attacks.inversion_scores import Victims
from rapt.attacks.scores import intervals, successes
from rapt.privacy import seeded
from rapt.privacy.channel import Channel
from rapt.privacy.privatizer import Privatizer, Words
from rapt.results import cells, predictions
from rapt.text.mentions import entities
from rapt.text.tagged import Tagged
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
    statement = files.read_json(folder / "statement.json")
    factors = {"attack": attack, "task": task, "method": method, "eta": eta}
    factors["embedding"] = embedding = statement["embedding"]
    cell = cells.Cell("invert", f"{attack}-{task}-{name}", factors)
    privatizer = seeded.privatizer_of(statement, eta)
    table = privatizer.table
    channel = paths.channel(embedding, name)
    tagged = {s: files.read_parquet(paths.tagged(task) / f"{s}.parquet") for s in ("train", "test")}
    texts = {of: _public_text(privatizer, of, tagged["test"]) for of in how.reads}
    public = Public.of(
        privatizer,
        Channel.load(channel, len(table.words)) if how.reads_channel else None,
        [text for of in texts.values() for text in of],
    )
    own = [[table.form(word) for word in text] for text in tagged["train"]["words"].to_pylist()]
    victims = Victims(
        tagged["test"]["words"].to_pylist(),
        [text.groups for text in _texts(privatizer, tagged["test"])],
        table.form,
        list(_entities(tagged["test"])),
    )

    def copy(k: int, split: str) -> Release:
        def noise(released: pa.Table) -> Iterator[NDArray[np.float64]]:
            return seeded.noise(privatizer, released, k, task, seed=p.seed)

        return Release.read(folder / f"seed-{k}/{split}.parquet", noise)

    scores, seeds, baselines = [], [], {"majority": victims.majority()}
    inverter = None
    # Of an attack that takes several copies a seed is the first of them; none is taken twice.
    for k in bar(range(0, p.seeds - how.takes + 1, how.takes), attack, p.seeds // how.takes):
        if inverter is None or how.reads_pairs:
            inverter = how.fit(public, Pairs(own, copy(k, "train")), p.seed + k)
        released = [copy(k + i, "test") for i in range(how.takes)]
        errors = None
        if inverter.vectors and victims.protected.any():
            errors = victims.squared_errors(inverter.vectors, released[0], table)
            baselines["squared_error"] = victims.spread(table)
        scores.append(victims.score(inverter.words(released), errors))
        seeds.append(cells.SeedResult(seed=k, metrics=scores[-1].metrics()))
    examples = tagged["test"]["example_id"].to_pylist()
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


def _texts(privatizer: Privatizer, tagged: pa.Table) -> Iterator[Words]:
    return (privatizer.text(*row) for row in seeded.rows_of(tagged, *seeded.told(tagged)))


def _entities(tagged: pa.Table) -> Iterator[list[range]]:
    """Yield the places of the entities of each source of triples, where they are protected."""
    if seeded.MENTIONS in tagged.column_names:
        columns = ("words", "pos", "space_after", "identifier")
        yield from (entities(Tagged(*row)) for row in seeded.rows_of(tagged, *columns))


def _public_text(privatizer: Privatizer, task: str, victims: pa.Table) -> list[Words]:
    """Return a task's training texts without those of the victims."""
    form = privatizer.table.form

    def key(words: Iterable[str]) -> tuple[str, ...]:
        return tuple(map(form, words))

    theirs = set(map(key, victims["words"].to_pylist()))
    own = files.read_parquet(paths.tagged(task) / "train.parquet")
    is_new = [key(words) not in theirs for words in own["words"].to_pylist()]
    return list(_texts(privatizer, own.filter(pa.array(is_new))))


if __name__ == "__main__":
    run(main)
