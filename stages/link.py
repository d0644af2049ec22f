"""Link releases to their originals: `python -m stages.link density movies vmf 100`."""

from rapt.attacks import victims as attacked_texts
from rapt.attacks.base import Linkage, Pairs
from rapt.attacks.linkage import by_length
from rapt.attacks.scores import linkage_scores
from rapt.privacy import seeded
from stages import run
from stages.attacked import Attacked


def main(attack: str, task: str, method: str, eta: str) -> None:
    """Find the original of each released text of the test split of TASK among all of them."""
    on = Attacked.release("link", attack, task, method, eta)
    how, seed = on.attack, on.params.seed
    assert isinstance(how, Linkage)
    privatizer = seeded.privatizer_of(on.statement, eta)
    own, candidates = on.tagged("train"), on.tagged("test").slice(0, how.candidates)
    texts = list(seeded.prepared(privatizer, candidates))
    words = attacked_texts.spelled(privatizer, own)
    scores, baselines = {}, dict[str, float]()
    for k in on.seeds():
        match = how.fit(privatizer, Pairs(words, on.copy(k, "train")), seed + k)
        victims = on.copy(k, "test").only(range(len(texts)))
        scores[k] = linkage_scores(match(victims, texts), seed + k)
        lengths = by_length(privatizer, victims, texts)
        baselines = linkage_scores(lengths, seed).metrics()
    on.write(
        scores,
        candidates["example_id"].to_pylist(),
        baselines=baselines,
        counts={"candidates": len(texts), "own": len(own)},
    )


if __name__ == "__main__":
    run(main)
