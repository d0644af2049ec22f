"""Recognize entities in a release: `python -m stages.recognize ner movies t2t 75`."""

from rapt import paths
from rapt.attacks.entities import Ner
from rapt.attacks.recognizer import Recognizer
from rapt.attacks.scores import blind, entities_named, entity_scores
from rapt.text.entities import entities
from stages import run
from stages.attacked import Attacked


def main(attack: str, task: str, method: str, eta: str) -> None:
    """Read the entities of the test split of TASK off its release by METHOD at ETA."""
    on = Attacked.release("recognize", attack, task, method, eta)
    how = on.attack
    assert isinstance(how, Ner)
    victims = on.tagged("test")
    truth = entities(victims, on.params.tagger)
    recognizer = Recognizer.load(paths.attacker(attack, task), how.max_tokens)
    on.write(
        {k: entity_scores(truth, recognizer.tags(on.copy(k, "test").words)) for k in on.seeds()},
        victims["example_id"].to_pylist(),
        baselines={"majority": blind(truth)},
        counts={"texts": len(truth), "entities": entities_named(truth)},
    )


if __name__ == "__main__":
    run(main)
