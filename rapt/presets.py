"""Presets: params files to start from. Most hold only what differs from another.

A preset is a file presets/NAME.yaml. The demo is complete; any other `extends` one, and is laid
over it key by key: mappings are merged, lists and values replaced. `extends` inside an entry
(`methods.rapt-20`) starts from another entry beside it. Tasks, embeddings, backbones, methods and
tuners that neither the sweep nor a study names are left out. A study presets/studies/NAME.yaml
comes at two scales: study-NAME lies over presets/study.yaml, paper-study-NAME over
presets/paper-study.yaml.

Text is laid over text: a key brings the comments above it, and what comes out reads as if it had
been written by hand. So presets keep to block style, as params.yaml does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from rapt import files
from rapt.errors import RaptError, not_allowed

FOLDER = Path("presets")
SCALES = ("study", "paper-study")
PARAMS = Path("params.yaml")
KEY = re.compile(r"(?P<indent> *)(?P<key>[^\s#-][^:]*):(?: (?P<value>.*))?")
# The lists of the sweep, and the factors of a study, that name entries of a section.
NAMED_BY = {
    "tasks": (("tasks",), "task"),
    "embeddings": (("embeddings",), "embedding"),
    "backbones": (("backbones",), "backbone"),
    "methods": (("methods", "channels"), "method"),
    "tuners": (("tuners",), "tuner"),
}


@dataclass(frozen=True)
class Block:
    """A key of a params file with all that belongs to it.

    Attributes:
        above: the comment and blank lines over it.
        value: what stands behind the key in its line, empty where lines follow.
        items: the lines of a list.
        children: the keys of a mapping.
    """

    above: list[str] = field(default_factory=list)
    value: str = ""
    items: list[str] = field(default_factory=list)
    children: dict[str, Block] = field(default_factory=dict)


def names() -> list[str]:
    """Every preset, the demo first."""
    studies = sorted(path.stem for path in (FOLDER / "studies").glob("*.yaml"))
    given = {path.stem for path in FOLDER.glob("*.yaml")} - {"demo", *SCALES}
    if not given:
        raise RaptError(f"{FOLDER}: no presets there; run in the project's folder")
    return ["demo", *sorted(given), *(f"{scale}-{name}" for scale in SCALES for name in studies)]


def summary(name: str) -> str:
    """The first line of a preset's own comment."""
    return _read(_sources(name)[-1])[0].removeprefix("# ")


def text(name: str) -> str:
    """A preset as a complete, commented params file.

    Raises:
        RaptError: there is no preset of this name.
    """
    if name not in (known := names()):
        raise RaptError(not_allowed("preset", name, known))
    first, *others = _sources(name)
    if not others:
        return first.read_text(encoding="utf-8")
    root = Block(children=_parse(_read(first)))
    for path in others:
        root = _over(root, Block(children=_parse(_read(path))))
    header, about = (_header(_read(path)) for path in (first, others[-1]))
    # The demo's own first line says what the demo is.
    lines = [*about, "#", f"# `rapt preset {name}` wrote this.", *header[1:]]
    return "\n".join([*lines, *_lines(_used(root))]) + "\n"


def write(name: str, *, overwrite: bool) -> None:
    """Make a preset params.yaml.

    Args:
        name: of the preset.
        overwrite: also where params.yaml was edited and is no preset any more.

    Raises:
        RaptError: there is no such preset, or params.yaml was edited.
    """
    new = text(name)
    if PARAMS.exists() and not overwrite:
        old = PARAMS.read_text(encoding="utf-8")
        if old not in map(text, names()):
            raise RaptError(
                "params.yaml: edited, and a preset would replace it; keep a copy, then give "
                "--overwrite"
            )
    files.write_bytes(PARAMS, [new.encode()])


def _sources(name: str) -> list[Path]:
    """The files that a preset is laid together from, the complete one first."""
    path = FOLDER / f"{name}.yaml"
    for scale in SCALES:
        study = FOLDER / "studies" / f"{name.removeprefix(f'{scale}-')}.yaml"
        if name.startswith(f"{scale}-") and not path.exists():
            return [*_sources(scale), study]
    base = _parse(_read(path)).get("extends")
    return [*(_sources(base.value) if base else []), path]


def _read(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def _header(lines: list[str]) -> list[str]:
    """The comment that a file begins with, up to its first blank line."""
    return lines[: lines.index("")]


def _parse(lines: list[str]) -> dict[str, Block]:
    """The blocks of a file in block style, without its header."""
    root = Block()
    # The blocks that a line may belong to, with their indents.
    around = [(-1, root)]
    above: list[str] = []
    for line in lines[len(_header(lines)) :]:
        if not line.strip() or line.lstrip().startswith("#"):
            above.append(line)
            continue
        if found := KEY.fullmatch(line):
            indent = len(found["indent"])
            while around[-1][0] >= indent:
                around.pop()
            block = Block(above, found["value"] or "")
            around[-1][1].children[found["key"]] = block
            around.append((indent, block))
        else:
            around[-1][1].items.extend([*above, line])
        above = []
    return root.children


def _over(base: Block, over: Block) -> Block:
    """A block laid over another, with its comment where it has one."""
    above = over.above if any(line.strip() for line in over.above) else base.above
    if not (base.children and over.children):
        return replace(over, above=above)
    children = dict(base.children)
    for key, block in over.children.items():
        if key == "extends":
            continue
        if like := block.children.get("extends"):
            start = _bare(children[like.value])
        else:
            start = children.get(key, Block())
        children[key] = _over(start, block)
    return replace(base, above=above, children=children)


def _bare(block: Block) -> Block:
    """A block without comments: they stand where it is taken from."""
    items = [line for line in block.items if not line.lstrip().startswith("#")]
    children = {key: _bare(child) for key, child in block.children.items()}
    return Block([], block.value, items, children)


def _used(root: Block) -> Block:
    """The whole without the entries that nothing names."""
    sweep, studies = root.children["sweep"].children, root.children["studies"].children
    children = dict(root.children)
    for section, (lists, factor) in NAMED_BY.items():
        named = {line.strip().removeprefix("- ") for name in lists for line in sweep[name].items}
        named |= {study.children[factor].value for study in studies.values()}
        block = children[section]
        kept = {name: entry for name, entry in block.children.items() if name in named}
        children[section] = replace(block, children=kept)
    return replace(root, children=children)


def _lines(block: Block, indent: str = "") -> Iterator[str]:
    for key, child in block.children.items():
        yield from child.above
        yield f"{indent}{key}: {child.value}".rstrip()
        yield from child.items
        yield from _lines(child, f"{indent}  ")
