"""Release a task: `python -m stages.privatize movies t2t 75 minilm data/private/movies/t2t-75`.

`clean inf` in the place of method and η is the baseline, the words as they are.
"""

from pathlib import Path

import numpy as np

from rapt import params, paths, project
from rapt.grid import CLEAN
from rapt.measures import strength
from rapt.measures.statement import plain_words, statement
from rapt.privacy import levels, seeded
from rapt.privacy.privatizer import Privatizer, of_words
from rapt.utils import files
from rapt.utils.errors import RaptError
from stages import run

# One stream for each text, so that methods and etas are compared on the same noise.
GENERATOR = (
    "Philox, seeded by params.yaml, for experiments: whoever knows the seed can undo it. "
    "Releases of one text by several methods or at several etas share its noise"
)


def main(task: str, method: str, eta: str, embedding: str, out: Path) -> None:
    """Privatize both splits of TASK by METHOD at ETA into OUT, one copy for each seed."""
    p = params.load()
    how, of_task = p.method(method), p.tasks[task]
    # Plain tokens serve the tuning alone.
    plain_tokens = how.plain_tokens if of_task.is_tuned else None
    privatizer = seeded.privatizer(embedding, how.mechanism, how.categories, eta)
    if privatizer.releases.aligned and np.isfinite(privatizer.eta):
        refuse_weak(of_words(privatizer), p.allow_weak)
    labels = p.randomized_labels(task, method)
    untouched = () if labels else of_task.targets
    kept = of_task.clean_columns if method == CLEAN else of_task.kept_columns
    splits = {s: files.read_parquet(paths.tagged(task) / f"{s}.parquet") for s in ("train", "test")}
    with files.atomic(out) as folder:
        folder.mkdir()
        for k in range(p.seeds):
            copy = seeded.SeededCopy(*(privatizer, task, p.seed, k, plain_tokens, kept, labels))
            copy.write(splits, paths.seed(folder, k))
        counts = copy.counts
        counts.most *= p.seeds  # each copy spends anew
        mentions = seeded.mentions(splits)
        facts = statement(
            privatizer,
            counts,
            **levels.facts(eta, privatizer.eta),
            columns=["example_id", *privatizer.releases.copied, *untouched],
            labels_drawn=labels,
            spacing="as in the texts" if "space_after" in kept else "none is released",
            gaps=of_task.gaps(mentions),
            generator=GENERATOR,
            task=task,
            method=method,
            embedding=embedding,
            seeds=p.seeds,
            **seeded.plain_facts(privatizer, plain_tokens),
            **of_task.facts(),
            mentions=mentions,
        )
        files.write_json(paths.statement(folder), facts)
    files.write_bytes(out.with_name(f"{out.name}.txt"), [plain_words(facts).encode()])


def refuse_weak(privatizer: Privatizer, allowed: bool) -> None:
    """Stop before a weak release is written, if none is allowed or if it could be pushed."""
    try:
        strength.check(privatizer, "allow_weak: true")
    except RaptError:
        if not allowed:
            raise
        for remote in project.remotes(files.home()):
            raise RaptError(
                f"allow_weak: got true beside the DVC remote {remote!r}, expected no remote: "
                "a weak release is never pushed, and DVC cannot keep back one cell alone. Take "
                f"smaller etas, or run dvc remote remove {remote}."
            ) from None


if __name__ == "__main__":
    run(main)
