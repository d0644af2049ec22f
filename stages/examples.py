"""Privatize the public example sentences at every η: `python -m stages.examples`."""

import json
from functools import partial
from importlib import resources

from rapt import params, paths
from rapt.privacy import seeded
from rapt.privacy.privatizer import of_words
from rapt.privacy.streams import stream
from rapt.text.tagging import Tagger
from rapt.utils import files
from stages import run


def main() -> None:
    """Show each sentence as it reads after each method of the sweep, at each η."""
    p = params.load()
    # They ship with the package, and are never rows of a data set.
    public = json.loads(resources.files("rapt.reporting").joinpath("sentences.json").read_text())
    tagged = list(Tagger(p.tagger).texts(sentence["text"] for sentence in public))
    streams = [partial(stream, p.seed, "examples", number) for number in range(len(public))]
    releases: list[list[dict[str, object]]] = [[] for _ in public]
    for method in p.sweep.methods:
        how = p.methods[method]
        for eta in p.sweep.etas:
            if not how.releases.aligned:
                continue  # no word becomes another that could stand in its place
            privatizer = of_words(
                seeded.privatizer(p.embedding, how.mechanism, how.categories, eta)
            )
            texts = (
                privatizer.text(text.words, text.pos, text.identifiers, stream=noise)
                for text, noise in zip(tagged, streams, strict=True)
            )
            after = privatizer.privatize(texts)
            for shown, text, words in zip(releases, tagged, after, strict=True):
                changed = privatizer.replaced(text.words, words)
                shown.append({"method": method, "eta": eta, "words": words, "changed": changed})
    files.write_json(
        paths.EXAMPLES,
        {"sentences": [s | {"releases": r} for s, r in zip(public, releases, strict=True)]},
    )


if __name__ == "__main__":
    run(main)
