"""Recognize entities in a release: `python -m stages.recognize ner movies t2t 75`."""

from rapt import params, paths
from rapt.attacks.base import Release
from rapt.attacks.entities import Found, blind, intervals
from rapt.attacks.ner import Ner
from rapt.grid import released
from rapt.results import cells
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
    statement = files.read_json(release / "statement.json")
    factors = {"attack": attack, "task": task, "method": method, "eta": eta}
    factors["embedding"] = statement["embedding"]
    cell = cells.Cell("recognize", f"{attack}-{task}-{name}", factors)
    victims = files.read_parquet(paths.tagged(task) / "test.parquet")
    truth = entities(victims, p.tagger)
    recognizer = how.load(paths.attacker(attack, task))
    found = [
        Found.of(truth, recognizer.tags(Release.read(f"{release}/seed-{k}/test.parquet").words))
        for k in bar(range(p.seeds), attack, p.seeds)
    ]
    cell.write(
        protection=statement["protection"],
        seeds=[
            {"seed": k, "metrics": seed.metrics(), "curves": {}} for k, seed in enumerate(found)
        ],
        floors={"majority": blind(truth)},
        intervals=intervals(found),
        counts={"texts": len(truth), "entities": int(found[0].named.sum())},
    )


if __name__ == "__main__":
    run(main)
