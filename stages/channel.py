"""Estimate P(y|w) of a method on its table: `python -m stages.channel minilm t2t 75`."""

from rapt import params, paths
from rapt.privacy import channel, posterior, seeded
from rapt.privacy.privatizer import of_words
from rapt.utils import files
from stages import run


def main(embedding: str, method: str, eta: str) -> None:
    """Draw what METHOD at ETA makes of words of EMBEDDING's table, many times each."""
    p = params.load()
    how, size = p.methods[method], p.channel
    privatizer = of_words(seeded.privatizer(embedding, how.mechanism, how.categories, eta))
    table = privatizer.table
    choice = channel.choose(table, privatizer.candidates, size.frequent, size.sampled, p.seed)
    found = channel.estimate(privatizer, choice.rows, size.draws, p.seed)
    files.write_json(
        paths.channel_statistics(embedding, f"{method}-{eta}"),
        {
            "embedding": embedding,
            "method": method,
            "eta": eta,
            "draws": size.draws,
            "sampled": found.of(choice.sampled).statistics(),
            "frequent": found.of(choice.frequent).statistics(),
        },
    )
    if size.by_frequency:  # not for the statistics, which compare words by equally many draws
        draws = posterior.draws(table.frequency, choice.rows, size.by_frequency)
        more = channel.estimate(privatizer, choice.rows, draws, p.seed, after=size.draws)
        found = found.extended(more)
    with files.atomic(paths.channel(embedding, f"{method}-{eta}")) as folder:
        found.save(folder, choice)


if __name__ == "__main__":
    run(main)
