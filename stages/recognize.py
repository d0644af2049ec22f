"""Recognize entities in a release: `python -m stages.recognize ner movies t2t 75`."""

from rapt import params, paths
from rapt.attacks.base import Release
from rapt.attacks.entities import blind, entities_named, entity_scores
from rapt.attacks.ner import Ner
from rapt.attacks.recognizer import Recognizer
from rapt.attacks.scores import intervals, successes
from rapt.grid import released
from rapt.results import cells, predictions
from rapt.text.entities import entities
from rapt.utils import files
from rapt.utils.progress import bar
from stages import run


def main(attack: str, task: str, method: str, eta: str) -> None:
    """Read the entities of the test split of TASK off its release by METHOD at ETA."""
    p = params.load()
    how = p.attacks[attack]
    assert isinstance(how, Ner)
    name = released(method, eta)
    release = paths.release(task, name)
    statement = files.read_json(paths.statement(release))
    factors = {"attack": attack, "task": task, "method": method, "eta": eta}
    factors["embedding"] = statement["embedding"]
    cell = cells.Cell("recognize", f"{attack}-{task}-{name}", factors)
    victims = files.read_parquet(paths.tagged(task) / "test.parquet")
    truth = entities(victims, p.tagger)
    recognizer = Recognizer.load(paths.attacker(attack, task), how.max_tokens)
    scores = [
        entity_scores(
            truth, recognizer.tags(Release.read(paths.seed(release, k) / "test.parquet").words)
        )
        for k in bar(range(p.seeds), attack, p.seeds)
    ]
    examples = victims["example_id"].to_pylist()
    predictions.write(paths.predictions("recognize", cell.name), successes(scores, examples))
    cell.write(
        protection=statement["protection"],
        seeds=[cells.SeedResult(seed=k, metrics=seed.metrics()) for k, seed in enumerate(scores)],
        baselines={"majority": blind(truth)},
        intervals=intervals(scores),
        counts={"texts": len(truth), "entities": entities_named(truth)},
    )


if __name__ == "__main__":
    run(main)
