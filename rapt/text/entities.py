"""The entities that tagged words name: by the task's own tags, or by spaCy."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from spacy.tokens import Doc, Token

from rapt.text.tagging import load
from rapt.utils.errors import RaptError


def entities(tagged: pa.Table, package: str) -> list[list[str]]:
    """The BIO tags of tagged texts: those that the task has, else those of a spaCy model.

    Args:
        tagged: words, the space after each and, where the task has them, entities.
        package: as in `bio_tags`.

    Raises:
        RaptError: as in `bio_tags`.
    """
    if "entities" in tagged.column_names:
        gold: list[list[str]] = tagged["entities"].to_pylist()
        return gold
    return bio_tags(package, tagged["words"].to_pylist(), tagged["space_after"].to_pylist())


def bio_tags(
    package: str, words: Sequence[Sequence[str]], space_after: Sequence[Sequence[bool]]
) -> list[list[str]]:
    """Tag named entities: `B-TYPE` begins one, `I-TYPE` is inside, `O` is none.

    Ramshaw and Marcus (1995), IOB2. The types are those of the model.

    Args:
        package: name of the package that holds the spaCy model.
        words: of each text.
        space_after: whether white space follows each.

    Returns:
        a tag for each word.

    Raises:
        RaptError: the package is no installed spaCy model, or one that knows no entities.
    """
    nlp = load(package, exclude=["tagger", "parser", "attribute_ruler", "lemmatizer"])
    if "ner" not in nlp.pipe_names:
        raise RaptError(f"tagger: got {package!r}, expected a spaCy model that names entities.")
    with nlp.memory_zone():
        docs = (
            Doc(nlp.vocab, words=list(text), spaces=list(spaces))
            for text, spaces in zip(words, space_after, strict=True)
        )
        return [[_tag(token) for token in doc] for doc in nlp.pipe(docs)]


def _tag(token: Token) -> str:
    return f"{token.ent_iob_}-{token.ent_type_}" if token.ent_type_ else "O"
