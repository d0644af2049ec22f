"""Invert a release: `python -m stages.invert nearest movies t2t 75`."""

from rapt import cells, files, params
from rapt.attacks.inversion import Victims, nearest_neighbour
from rapt.privacy.categories import Scheme
from rapt.text.table import EmbeddingTable
from stages import run


def main(attack: str, task: str, method: str, eta: str) -> None:
    """Guess every word of the test split of TASK from its release by METHOD at ETA."""
    release = f"data/private/{task}/{method}-{eta}"
    statement = files.read_json(f"{release}/statement.json")
    embedding = statement["embedding"]
    factors = {"attack": attack, "task": task, "method": method, "eta": eta, "embedding": embedding}
    cell = cells.Cell("invert", f"{attack}-{task}-{method}-{eta}", factors)
    table = EmbeddingTable(f"models/tables/{embedding}")
    tagged = files.read_parquet(f"data/tagged/{task}/test.parquet")
    victims = Victims(
        tagged["words"].to_pylist(),
        tagged["pos"].to_pylist(),
        Scheme(statement["categories"] and tuple(statement["categories"])),
        table.form,
    )
    seeds = []
    for k in range(params.load().seeds):
        released = files.read_parquet(f"{release}/seed-{k}/test.parquet")["words"].to_pylist()
        recovered = victims.score([nearest_neighbour(words) for words in released])
        seeds.append({"seed": k, "metrics": recovered.accuracies(), "curves": {}})
    cell.write(
        protection=statement["protection"],
        seeds=seeds,
        floors={"majority": victims.majority()},
        counts={"words": recovered.words, "protected": recovered.protected},
    )


if __name__ == "__main__":
    run(main)
