"""Replacement statistics of an embedding table by η: `python -m stages.calibrate minilm`."""

from dataclasses import asdict

from rapt import files, params
from rapt.privacy import experiment
from rapt.privacy.statistics import replacement
from rapt.progress import bar
from stages import run


def main(embedding: str) -> None:
    """Show which share of EMBEDDING's words each mechanism replaces at each η."""
    p = params.load()
    how = p.calibrate
    curves = {
        name: [
            {"eta": eta}
            | asdict(
                replacement(
                    experiment.privatizer(embedding, {"type": name}, categories, eta),
                    how.words,
                    how.draws,
                    p.seed,
                )
            )
            for eta in bar(how.etas, name, len(how.etas))
        ]
        for name, categories in (("t2t", None), ("pct2t", how.categories))
    }
    files.write_json(
        f"reports/calibration/{embedding}.json",
        {"embedding": embedding, "words": how.words, "draws": how.draws, "curves": curves},
    )


if __name__ == "__main__":
    run(main)
