"""Where a model's files are: inside a Python package, in a folder, or on the hub at a revision."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from rapt import files
from rapt.errors import RaptError


def folder(model: str, sha256: str | None) -> Path:
    """The local folder of a model, its weights checked.

    Args:
        model: `package:NAME/FOLDER`, a folder (from the main workspace), or `owner/name@REVISION`.
        sha256: of its model.safetensors, or of the `.npy` file of static vectors; None: not
            checked.

    Raises:
        RaptError: there is no such model, or its weights are others than expected.
    """
    path = _located(model)
    if not path.is_dir():
        raise RaptError(f"model {model!r}: no such folder")
    if not (any(path.glob("*.safetensors")) or any(path.glob("*.npy"))):
        raise RaptError(f"model {model!r}: no weights in safetensors; pickled ones are never read")
    if sha256 is not None:
        weights = next(path.glob("*.npy"), path / "model.safetensors")
        found = files.sha256(weights) if weights.is_file() else "no such file"
        if found != sha256:
            raise RaptError(f"model {model!r}, {weights.name}: sha256 {found}, expected {sha256}")
    return path


def here(model: str) -> Path | None:
    """The local folder of a model, None where it is not on this machine; fetches nothing."""
    try:
        path = _located(model, fetch=False)
    except RaptError:
        return None
    return path if (path / "config.json").is_file() else None


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
            raise RaptError(f"model {model!r}: the Python package {package!r} is not installed")
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
            raise RaptError(f"model {model!r}: {type(error).__name__}: {line}") from None
        return Path(found)
    return files.home() / model
