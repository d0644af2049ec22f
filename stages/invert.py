"""Invert a release: `python -m stages.invert nearest movies t2t 75`."""

from rapt import cells, files, params
from rapt.attacks.base import Inversion, Public
from rapt.attacks.victims import Victims, intervals
from rapt.privacy.categories import Scheme
from stages import run


def main(attack: str, task: str, method: str, eta: str) -> None:
    """Guess every word of the test split of TASK from its release by METHOD at ETA."""
    p = params.load()
    how = p.attacks[attack]
    assert isinstance(how, Inversion)
    release = f"data/private/{task}/{method}-{eta}"
    statement = files.read_json(f"{release}/statement.json")
    factors = {"attack": attack, "task": task, "method": method, "eta": eta}
    factors["embedding"] = statement["embedding"]
    cell = cells.Cell("invert", f"{attack}-{task}-{method}-{eta}", factors)
    public = Public.of(statement, method, channel=how.reads_channel)
    tagged = files.read_parquet(f"data/tagged/{task}/test.parquet")
    victims = Victims(
        tagged["words"].to_pylist(),
        tagged["pos"].to_pylist(),
        Scheme(statement["categories"] and tuple(statement["categories"])),
        public.table.form,
    )
    invert = how.fit(public)
    copies = [
        files.read_parquet(f"{release}/seed-{k}/test.parquet", ["words"])["words"].to_pylist()
        for k in range(p.seeds)
    ]
    recovered = [
        victims.score(invert([copies[(k + i) % p.seeds] for i in range(how.takes)]))
        for k in range(p.seeds)
    ]
    cell.write(
        protection=statement["protection"],
        seeds=[
            {"seed": k, "metrics": found.accuracies(), "curves": {}}
            for k, found in enumerate(recovered)
        ],
        floors={"majority": victims.majority()},
        ceilings=how.ceilings(public, *victims.counts(public)),
        intervals=intervals(recovered),
        counts={name: int(getattr(recovered[0], name).sum()) for name in ("words", "protected")},
    )


if __name__ == "__main__":
    run(main)
