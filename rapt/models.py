"""Models: inside a Python package, in a folder, or on the hub at a revision; loaded whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rapt.utils import files
from rapt.utils.errors import RaptError, described

SOURCE = "source.json"

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase


def folder(model: str, sha256: str | None, *, static: bool = False) -> Path:
    """The local folder of a model, its weights checked.

    Args:
        model: `package:NAME/FOLDER`, a folder (from the main workspace), or `owner/name@REVISION`.
        sha256: of its model.safetensors, or of the file of static vectors; None: not checked.
        static: whether it may be static vectors, and so also a file: see rapt.text.static.

    Raises:
        RaptError: there is no such model, or its weights are others than expected.
    """
    path = _located(model)
    if not (path.is_dir() or (static and path.is_file())):
        raise RaptError(f"model: got {model!r}, expected a folder that is there.")
    if not static and not (any(path.glob("*.safetensors")) or any(path.glob("*.npy"))):
        raise RaptError(
            f"model {model!r}: got no weights in safetensors, expected some. Pickled ones are "
            "never read."
        )
    if sha256 is not None:
        named = next(path.glob("*.npy"), path / "model.safetensors")
        weights = path if path.is_file() else named
        found = files.sha256(weights) if weights.is_file() else "no such file"
        if found != sha256:
            raise RaptError(
                f"model {model!r}, {weights.name}: got sha256 {found}, expected {sha256}."
            )
    return path


def source(model: str, folder: Path) -> dict[str, Any]:
    """Describe where a model lies, and what: its name, and the sha256 of each file of weights."""
    weights = {path.name: files.sha256(path) for path in sorted(folder.glob("*.safetensors"))}
    return {"model": model, "weights": weights}


def note_source(model: str, sha256: str | None, out: Path) -> None:
    """Write a folder that says where a model lies, which `of_source` reads.

    Raises:
        RaptError: as `folder`.
    """
    found = source(model, folder(model, sha256))
    with files.atomic(out) as scratch:
        files.write_json(scratch / SOURCE, found)


def of_source(out: Path) -> Path:
    """The local folder of a model, by what `source` wrote to a folder.

    Raises:
        RaptError: there is no such model, or its weights are others than those described.
    """
    if not (out / SOURCE).is_file():
        raise RaptError(
            f"{out / SOURCE}: got no such file, expected where the backbone comes from. Try: "
            f"dvc repro backbone@{out.name}"
        )
    told = files.read_json(out / SOURCE)
    if (out / "config.json").is_file():  # it was pretrained here
        return out
    path = folder(told["model"], None)
    if source(told["model"], path) != told:
        raise RaptError(
            f"model {told['model']!r}: got other weights than those in {out / SOURCE}, expected "
            "the same. Run the stage `backbone` again: dvc repro -f backbone"
        )
    return path


def here(model: str) -> Path | None:
    """The local folder of a model, None where it is not on this machine; fetches nothing."""
    try:
        path = _located(model, fetch=False)
    except RaptError:
        return None
    return path if (path / "config.json").is_file() else None


def load(auto: Any, folder: Path, *, fresh: Sequence[str] = (), **how: Any) -> PreTrainedModel:
    """A model from its own class and safetensors alone, with every weight that it has.

    Transformers draws what a file lacks at random. Here only weights may be missing whose names
    begin as one of `fresh`. `auto` is the class of Transformers that loads the model.

    Raises:
        RaptError: weights are missing, or it has code of its own.
    """
    quiet()
    with _no_code(folder):
        model, found = auto.from_pretrained(
            folder, use_safetensors=True, trust_remote_code=False, output_loading_info=True, **how
        )
    # A pooler is not used; RoBERTa has none.
    may_lack = ("pooler.", *fresh)
    if missing := sorted(name for name in found["missing_keys"] if not name.startswith(may_lack)):
        raise RaptError(
            f"model {folder}: got files without {len(missing)} of its weights, as {missing[0]}, "
            "expected a whole model."
        )
    loaded: PreTrainedModel = model
    return loaded


def config(folder: Path) -> PretrainedConfig:
    """A model's configuration.

    Raises:
        RaptError: Transformers does not know such models, or it has code of its own.
    """
    from transformers import AutoConfig

    quiet()
    try:
        with _no_code(folder):
            found: PretrainedConfig = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    except ValueError:
        kind = files.read_json(folder / "config.json").get("model_type")
        raise RaptError(
            f"model {folder}: got one of type {kind!r}, expected one that Transformers knows."
        ) from None
    return found


def tokenizer(folder: Path, **how: Any) -> PreTrainedTokenizerBase:
    """A model's tokenizer.

    Raises:
        RaptError: it needs code of its own, or its files do not fit each other.
    """
    from transformers import AutoTokenizer

    quiet()
    try:
        with _no_code(folder):
            found: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
                folder, trust_remote_code=False, **how
            )
    except RaptError:
        raise
    except Exception as error:  # Tokenizers raises a bare Exception, each class something else
        raise RaptError(
            f"model {folder}: got a tokenizer that cannot be loaded ({described(error)}), expected "
            "a tokenizer.json that fits its tokenizer_config.json and the model_type of "
            "config.json. Copy the tokenizer's files of the same model."
        ) from error
    return found


def input_embeddings(folder: Path) -> NDArray[np.float32]:
    """The vector of each token of a model, float32 (tokens, d).

    Raises:
        RaptError: weights are missing, or the model has code of its own.
    """
    from transformers import AutoModel

    # Of T5 that is both halves, and some have the encoder alone.
    backbone: Any = load(AutoModel, folder, fresh=("decoder.",))
    vectors: NDArray[np.float32] = backbone.get_input_embeddings().weight.detach().float().numpy()
    return vectors


@contextmanager
def _no_code(folder: Path) -> Iterator[None]:
    """Not even on a yes at the terminal, for which Transformers would ask."""
    try:
        yield
    except ValueError as error:
        if "trust_remote_code" not in str(error):
            raise
        raise RaptError(
            f"model {folder}: got one that needs code of its own, expected one that Transformers "
            "knows."
        ) from None


def quiet() -> None:
    """Keep transformers from reporting on weights that a model has and we do not use."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    logging.set_verbosity_error()


def _located(model: str, *, fetch: bool = True) -> Path:
    if model.startswith("package:"):
        package, _, inside = model.removeprefix("package:").partition("/")
        spec = find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise RaptError(
                f"model {model!r}: got no Python package {package!r}, expected it installed."
            )
        return Path(spec.submodule_search_locations[0]) / inside
    if "@" in model:
        from huggingface_hub import snapshot_download

        name, _, revision = model.partition("@")
        # Safetensors only: a pickled checkpoint is never fetched.
        wanted = ["*.json", "*.safetensors", "*.txt", "*.model"]
        try:
            found = snapshot_download(
                name, revision=revision, allow_patterns=wanted, local_files_only=not fetch
            )
        except Exception as error:  # the hub's client raises a dozen kinds, of three packages
            line = " ".join(str(error).split())
            raise RaptError(
                f"model {model!r}: got {type(error).__name__} ({line}), expected one of the hub."
            ) from None
        return Path(found)
    return files.home() / model
