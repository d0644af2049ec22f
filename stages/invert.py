"""Invert a release: `python -m stages.invert nearest movies t2t 75`."""

from rapt import grid, paths
from rapt.attacks import victims as attacked_texts
from rapt.attacks.base import Inversion, Pairs, Public
from rapt.privacy import seeded
from rapt.privacy.channel import Channel
from stages import run
from stages.attacked import Attacked


def main(attack: str, task: str, method: str, eta: str) -> None:
    """Guess every word of the test split of TASK from its release by METHOD at ETA."""
    on = Attacked.release("invert", attack, task, method, eta)
    how, seed = on.attack, on.params.seed
    assert isinstance(how, Inversion)
    privatizer = seeded.privatizer_of(on.statement, eta)
    own, attacked = on.tagged("train"), on.tagged("test")
    texts = {
        name: attacked_texts.public(privatizer, on.tagged("train", name), attacked)
        for name in how.reads
    }
    channel = None
    if how.reads_channel:
        path = paths.channel(on.statement["embedding"], grid.released(method, eta))
        channel = Channel.load(path, len(privatizer.table.words))
    public = Public.of(privatizer, channel, [text for some in texts.values() for text in some])
    words = attacked_texts.spelled(privatizer, own)
    mine = list(seeded.prepared(privatizer, own))
    theirs = list(seeded.prepared(privatizer, attacked))
    victims = attacked_texts.victims_of(privatizer, attacked)
    scores, baselines, inverter = {}, {"majority": victims.majority()}, None
    # Of an attack that takes several copies a seed is the first of them; none is taken twice.
    for k in on.seeds(how.takes):
        if inverter is None or how.reads_pairs:
            known = on.copy(k, "train").by_word(privatizer, mine)
            inverter = how.fit(public, Pairs(words, known), seed + k)
        copies = (on.copy(k + i, "test") for i in range(how.takes))
        released = [copy.by_word(privatizer, theirs) for copy in copies]
        errors = None
        if inverter.vectors and victims.protected.any():
            errors = victims.squared_errors(inverter.vectors, released[0], privatizer.table)
            baselines["squared_error"] = victims.spread(privatizer.table)
        scores[k] = victims.score(inverter.words(released), errors)
    on.write(
        scores,
        attacked["example_id"].to_pylist(),
        baselines=baselines,
        upper_bounds=how.upper_bounds(public, victims.protected_words),
        counts={name: int(getattr(victims, name).sum()) for name in ("words", "protected")}
        | {f"texts of {name}": len(some) for name, some in texts.items()},
    )


if __name__ == "__main__":
    run(main)
