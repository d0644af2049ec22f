"""Fit an attacker's recognizer of entities: `python -m stages.recognizer ner movies`."""

from rapt import params, paths
from rapt.attacks.entities import Ner
from rapt.attacks.recognizer import Recognizer
from rapt.text.entities import entities
from rapt.utils import files
from stages import run


def main(attack: str, task: str) -> None:
    """Fine-tune on the attacker's own texts, the clean train split of TASK."""
    p = params.load()
    how = p.attacks[attack]
    assert isinstance(how, Ner)
    own = files.read_parquet(paths.tagged(task) / "train.parquet")
    recognizer = Recognizer.fitted(how, own["words"].to_pylist(), entities(own, p.tagger), p.seed)
    with files.atomic(paths.attacker(attack, task)) as folder:
        recognizer.save(folder)


if __name__ == "__main__":
    run(main)
