"""Made-up hotel reviews for docs/tutorial.md: `python docs/hotels.py > hotels.csv`."""

from __future__ import annotations

import csv
import random
import sys

TOPICS = [
    "The room",
    "The breakfast",
    "The staff at the desk",
    "The view",
    "The bed",
    "The pool",
    "The shower",
    "The bar",
    "The street outside",
    "The check-in",
    "Our waiter Paolo",
    "The manager, Ms Lindgren,",
]
OPINIONS = {
    "good": [
        "was clean and quiet",
        "was kind and quick to help",
        "made our stay in Lisbon a pleasure",
        "was better than we had hoped",
        "was worth every euro",
        "left us rested and happy",
    ],
    "bad": [
        "was dirty and loud",
        "was rude and slow to help",
        "ruined our stay in Lisbon",
        "was worse than we had feared",
        "was not worth a euro",
        "left us tired and angry",
    ],
}
DETAILS = [
    "We came with two children in May.",
    "My sister Clara would agree.",
    "We stayed three nights.",
    "I travel for a bank and see many hotels.",
    "It was our tenth anniversary.",
    "My knee hurts, so I care about stairs.",
    "I wrote to the owner about it.",
]


def reviews(n: int) -> list[tuple[str, str]]:
    """Return n different reviews with their ratings, the same ones in every run."""
    rng = random.Random(1)
    found: set[tuple[str, str]] = set()
    while len(found) < n:
        rating = rng.choice(list(OPINIONS))
        first, second = rng.sample(TOPICS, 2)
        one, other = rng.choices(OPINIONS[rating], k=2)
        found.add((f"{first} {one}. {second} {other}. {rng.choice(DETAILS)}", rating))
    return sorted(found)


if __name__ == "__main__":
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerows([("review", "rating"), *reviews(900)])
