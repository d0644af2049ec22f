"""A spaCy component: `nlp.add_pipe("rapt_privatizer", config={"table": …, "eta": …})`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from spacy.language import Language
from spacy.tokens import Doc, Token

from rapt.release.text import TextPrivatizer, joined
from rapt.utils.errors import RaptError

NAME = "rapt_privatizer"


class PrivatizerComponent:
    """Sets `doc._.privatized` and, word by word, `token._.privatized`; the text itself stays.

    White space has no word: `token._.privatized` is None there.
    """

    def __init__(self, privatizer: TextPrivatizer) -> None:
        """Privatize with the tags that the components before this one set."""
        self._privatizer = privatizer
        for kind in (Doc, Token):
            if not kind.has_extension("privatized"):
                kind.set_extension("privatized", default=None)

    def __call__(self, doc: Doc) -> Doc:
        """Privatize one document.

        Raises:
            RaptError: no component before this one set the parts of speech that it needs.
        """
        return self._privatized([doc])[0]

    def pipe(self, docs: Iterable[Doc], *, batch_size: int) -> Iterator[Doc]:
        """Privatize documents, several at a time."""
        docs = iter(docs)
        while batch := list(islice(docs, batch_size)):
            yield from self._privatized(batch)

    def _privatized(self, docs: list[Doc]) -> list[Doc]:
        if self._privatizer.needs_tags:
            for doc in docs:
                _check_tags(doc)
        for doc, released in zip(docs, self._privatizer.release_docs(docs), strict=True):
            doc._.privatized = joined(released, self._privatizer.keep_spacing)
            tokens = (token for token in doc if not token.is_space)
            for token, word in zip(tokens, released, strict=True):
                token._.privatized = word.released
        return docs


def _check_tags(doc: Doc) -> None:
    if any(not token.is_space and not token.pos for token in doc):
        raise RaptError(
            f"{NAME}: got a word without a part of speech, expected one for each, as categories "
            "and names need it. Add a tagger and an attribute_ruler, or a morphologizer, before it."
        )


@Language.factory(
    NAME,
    assigns=["doc._.privatized", "token._.privatized"],
    default_config={
        "table": None,
        "mechanism": None,
        "parameters": {},
        "categories": None,
        "language": None,
        "allow_weak": False,
        "budget": None,
        "keep_identifiers": False,
        "names": "noise",
        "detectors": [],
        "keep_spacing": False,
    },
)
def make_privatizer(
    nlp: Language,
    name: str,
    table: str | None,
    eta: float,
    mechanism: str | None,
    parameters: dict[str, float],
    categories: list[str] | None,
    language: str | None,
    allow_weak: bool,
    budget: float | str | None,
    keep_identifiers: bool,
    names: str,
    detectors: list[str],
    keep_spacing: bool,
) -> Callable[[Doc], Doc]:
    """Make the component; what each setting means stands at TextPrivatizer."""
    return PrivatizerComponent(
        TextPrivatizer(
            table=table,
            eta=eta,
            mechanism=mechanism,
            parameters=parameters,
            categories=categories,
            language=language,
            allow_weak=allow_weak,
            budget=budget,
            keep_identifiers=keep_identifiers,
            names=names,
            detectors=detectors,
            keep_spacing=keep_spacing,
        )
    )
