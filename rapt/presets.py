"""Presets: whole params files to start from, presets/NAME.yaml; the demo is the shipped params."""

from __future__ import annotations

from pathlib import Path

from rapt.paths import PARAMS
from rapt.utils import files
from rapt.utils.errors import RaptError, not_allowed

FOLDER = Path("presets")
DEMO = "demo"


def names() -> list[str]:
    """Every preset, the demo first."""
    given = {path.stem for path in FOLDER.glob("*.yaml")} - {DEMO}
    if not given:
        raise RaptError(f"{FOLDER}: got no presets, expected a project's. Run in its folder.")
    return [DEMO, *sorted(given)]


def summary(name: str) -> str:
    """Return a preset's purpose: its second comment line, after the one that names the schema."""
    return text(name).splitlines()[1].removeprefix("# ")


def text(name: str) -> str:
    """Return the text of a preset's file."""
    if name not in (known := names()):
        raise RaptError(not_allowed("preset", name, known))
    return (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")


def write(name: str, *, overwrite: bool) -> None:
    """Write a preset to params.yaml, also over an edited one if `overwrite` is set."""
    new = text(name)
    if PARAMS.exists() and not overwrite:
        old = PARAMS.read_text(encoding="utf-8")
        if old not in map(text, names()):
            raise RaptError(
                "params.yaml: got one that was edited, expected a preset, as it is replaced. Keep "
                "a copy, then give --overwrite."
            )
    files.write_bytes(PARAMS, [new.encode()])
