"""Invert a release: `python -m stages.invert nearest movies t2t 75`."""

from rapt import cells, files, params
from rapt.attacks.base import Inversion, Pairs, Public, Texts
from rapt.attacks.victims import Victims, intervals
from rapt.privacy.categories import Scheme
from rapt.progress import bar
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
    tagged = {s: files.read_parquet(f"data/tagged/{task}/{s}.parquet") for s in ("train", "test")}
    own = [[public.table.form(w) for w in text] for text in tagged["train"]["words"].to_pylist()]
    victims = Victims(
        tagged["test"]["words"].to_pylist(),
        tagged["test"]["pos"].to_pylist(),
        Scheme(statement["categories"] and tuple(statement["categories"])),
        public.table.form,
    )

    def copy(k: int, split: str) -> Texts:
        path = f"{release}/seed-{k}/{split}.parquet"
        return files.read_parquet(path, ["words"])["words"].to_pylist()

    recovered, seeds, floors = [], [], {"majority": victims.majority()}
    # Of an attack that takes several copies a seed is the first of them; none is taken twice.
    for k in bar(range(0, p.seeds - how.takes + 1, how.takes), attack, p.seeds // how.takes):
        inverter = how.fit(public, Pairs(own, copy(k, "train")), p.seed + k)
        released = [copy(k + i, "test") for i in range(how.takes)]
        found = victims.score(inverter.words(released))
        metrics = found.accuracies()
        if inverter.vectors:
            error = victims.squared_error(inverter.vectors, released[0], public.table)
            metrics["squared_error"] = error
            floors["squared_error"] = victims.spread(public.table)
        recovered.append(found)
        seeds.append({"seed": k, "metrics": metrics, "curves": {}})
    cell.write(
        protection=statement["protection"],
        seeds=seeds,
        floors=floors,
        ceilings=how.ceilings(public, *victims.counts(public)),
        intervals=intervals(recovered),
        counts={name: int(getattr(recovered[0], name).sum()) for name in ("words", "protected")},
    )


if __name__ == "__main__":
    run(main)
