"""RAPT: privacy-preserving fine-tuning on text (arXiv 2305.06212).

Texts in, privatized texts out; the embedding table is made on first use:

    >>> from rapt import TextPrivatizer
    >>> privatize = TextPrivatizer(eta=50, categories=["noun", "verb"])
    >>> (private,) = privatize(["The story was slow."])
    >>> len(private.split())
    5

The fate of each word, and how likely a Bayesian attacker finds the original:

    >>> from rapt import tried
    >>> trial = tried(privatize, "The story was slow.")
    >>> [one.word.fate for one in trial.words][:2]
    ['verbatim other', 'noise']
    >>> all(0 <= one.sure <= 1 for one in trial.words)
    True

The same in parts, for words with their part-of-speech tags:

    >>> from rapt import PCT2T, EmbeddingTable, Privatizer, cached_table
    >>> table = EmbeddingTable(cached_table())
    >>> privatizer = Privatizer(table=table, mechanism=PCT2T(), eta=50, categories=["noun"])
    >>> text = privatizer.text(["The", "story"], pos=["DET", "NOUN"])
    >>> ((the, noun),) = privatizer.privatize([text])
    >>> the, noun in table.words
    ('The', True)

The eta at which T2T replaces half of the words of public texts, with its interval:

    >>> from rapt import T2T, calibration_curve
    >>> curve = calibration_curve(table, T2T(), None, words=120, draws=20, seed=0)
    >>> half = curve.eta_for(0.5)
    >>> half.low <= half.eta <= half.high
    True

An error that the user can fix is a RaptError:

    >>> from rapt import RaptError, load_params
    >>> try:
    ...     load_params("missing.yaml")
    ... except RaptError as error:
    ...     print(error)  # doctest: +ELLIPSIS
    missing.yaml: ...
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rapt.measures.replacement import text_curve as calibration_curve  # noqa: F401
    from rapt.params import load as load_params  # noqa: F401
    from rapt.privacy.base import PreparedText as PreparedText
    from rapt.privacy.mechanisms import PCT2T as PCT2T
    from rapt.privacy.mechanisms import T2T as T2T
    from rapt.privacy.privatizer import Privatizer as Privatizer
    from rapt.release.text import TextPrivatizer as TextPrivatizer
    from rapt.release.trial import at_level as at_level
    from rapt.release.trial import tried as tried
    from rapt.table_cache import cached_table as cached_table
    from rapt.text.table import EmbeddingTable as EmbeddingTable
    from rapt.utils.errors import RaptError as RaptError

__version__ = "0.1.0"
# What people need, imported when first asked for: `import rapt` itself takes no time.
_PUBLIC = {
    "EmbeddingTable": "rapt.text.table:EmbeddingTable",
    "PCT2T": "rapt.privacy.mechanisms:PCT2T",
    "PreparedText": "rapt.privacy.base:PreparedText",
    "Privatizer": "rapt.privacy.privatizer:Privatizer",
    "RaptError": "rapt.utils.errors:RaptError",
    "T2T": "rapt.privacy.mechanisms:T2T",
    "TextPrivatizer": "rapt.release.text:TextPrivatizer",
    "at_level": "rapt.release.trial:at_level",
    "cached_table": "rapt.table_cache:cached_table",
    "calibration_curve": "rapt.measures.replacement:text_curve",
    "load_params": "rapt.params:load",
    "tried": "rapt.release.trial:tried",
}
__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> object:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'rapt' has no attribute {name!r}")
    module, _, attribute = _PUBLIC[name].partition(":")
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
