"""Check the prose of pages and of Python files: `python docs/prose.py README.md docs rapt`.

A sentence has at most 40 words. A page's abbreviations are in docs/glossary.md, or among those of
docs/prose.yaml that everybody knows. Code counts as one word, a link's address as none. Of Python
files
the docstrings, all strings of five words and more, and the comments are checked. Of YAML files and
the Makefile it is the comments and `desc`; of HTML templates the text between tags.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ruamel.yaml import YAML

ROOT = Path(__file__).parents[1]
MOST_WORDS = 40
SUFFIXES = {".md", ".py", ".yaml", ".html"}

RULES = YAML(typ="safe").load(ROOT / "docs/prose.yaml")
KNOWN = set(RULES["abbreviations"].split())
ABBREVIATION = re.compile(r"(?<![\w/.-])[A-Z][A-Z0-9]*[A-Z][A-Z0-9]*(?![\w/])")
# Adjacent lines of comments, or a comment after code. More spaces begin a line of code.
COMMENT = re.compile(r"(?:^[ \t]*# (?! |yaml-).*\n?)+|(?<=\S)[ \t]+# .*", re.MULTILINE)
DESC = re.compile(r"^ *desc: (.+)", re.MULTILINE)  # what a stage of DVC is for
# Of a template: no text, a value, the text between tags.
NO_TEXT = re.compile(r"<!--.*?-->|<(script|style)\b.*?</\1>|{%.*?%}", re.DOTALL)
VALUE = re.compile(r"{{.*?}}", re.DOTALL)
BETWEEN_TAGS = re.compile(r"(?:^|>)([^<>]*\w[^<>]*)")
# A stop, then a space and the start of another sentence; not after an initial or a shortened word.
END = re.compile(r"(?<!\be\.g)(?<!\bi\.e)(?<!\bal)(?<!\bcf)(?<!\bvs)[.!?][”\")]*\s+(?=\S)")


class Finding(NamedTuple):
    """A place and its fault."""

    path: str
    line: int
    fault: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.fault}"


def check(path: Path) -> list[Finding]:
    """Check one file."""
    source = path.read_text(encoding="utf-8")
    passages = list({".md": markdown, ".html": template}.get(path.suffix, comments)(source))
    if path.suffix == ".py":
        passages += python(source)
    name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else str(path)
    found = [Finding(name, line, fault) for line, text in passages for fault in faults(text)]
    if path.suffix == ".md":
        found += [
            Finding(name, line, f"{word}: expand it, or explain it in docs/glossary.md")
            for line, text in markdown(source)
            for word in unexplained(text)
        ]
    return found


def faults(text: str) -> Iterator[str]:
    """Say what is wrong with a passage: a paragraph, an item of a list, a cell of a table."""
    text = re.sub(r"``.+?``|`[^`]*`", "`x`", text)
    for sentence in END.split(text):
        words = [word for word in sentence.split() if any(map(str.isalnum, word))]
        if len(words) > MOST_WORDS:
            yield f"{len(words)} words, at most {MOST_WORDS}: {' '.join(words[:9])} …"


def unexplained(text: str) -> Iterator[str]:
    """The abbreviations of a passage that few know and the glossary lacks."""
    for found in ABBREVIATION.findall(re.sub(r"`[^`]*`|\(arXiv[^)]*\)", "", text)):
        if found not in KNOWN | glossary():
            yield found


def glossary() -> set[str]:
    """The abbreviations that the glossary explains: the words of its first column."""
    page = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
    terms = re.findall(r"^\| ([^|]+) \|", page, re.MULTILINE)
    return {part for term in terms for part in re.split(r"[^A-Za-z0-9]+", term)}


def markdown(source: str) -> Iterator[tuple[int, str]]:
    """The passages of a page, with their lines; code is left out."""
    source = re.sub(r"<!--.*?-->", lambda m: "\n" * m[0].count("\n"), source, flags=re.DOTALL)
    paragraph: list[str] = []
    start = 0
    fenced = False
    for number, line in enumerate([*source.splitlines(), ""], start=1):
        fence = line.lstrip().startswith("```")
        fenced ^= fence
        alone = line.startswith(("|", "#")) or not line.strip() or fence or fenced
        starts = re.match(r"\s*([-*]|\d+\.) ", line)
        if (alone or starts or line.startswith("    ")) and paragraph:
            yield start, " ".join(paragraph)
            paragraph = []
        if line.startswith("|") and not fenced:
            for cell in re.split(r"(?<!\\)\|", line):
                for part in cell.split(" · "):
                    yield number, _plain(part)
        elif not alone and (starts or not line.startswith("    ")):
            start = start if paragraph else number
            paragraph.append(_plain(re.sub(r"^\s*([-*]|\d+\.) ", "", line)))


def _plain(text: str) -> str:
    return re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text).replace("**", "")


def comments(source: str) -> Iterator[tuple[int, str]]:
    """The comments and descriptions, with their lines."""
    for found in COMMENT.finditer(source):
        text = re.sub(r"^[ \t]*# ", "", found[0], flags=re.MULTILINE)
        yield source.count("\n", 0, found.start()) + 1, " ".join(text.split())
    for found in DESC.finditer(source):
        yield source.count("\n", 0, found.start()) + 1, found[1]


def template(source: str) -> Iterator[tuple[int, str]]:
    """The text between a template's tags, with its lines; a value is a word."""
    source = NO_TEXT.sub(lambda m: "<>" + "\n" * m[0].count("\n"), source)
    source = VALUE.sub(lambda m: "`x`" + "\n" * m[0].count("\n"), source)
    for found in BETWEEN_TAGS.finditer(source):
        yield source.count("\n", 0, found.start(1)) + 1, " ".join(found[1].split())


def python(source: str) -> Iterator[tuple[int, str]]:
    """The docstrings' passages, and the strings that read as sentences, with their lines."""
    tree = ast.parse(source)
    seen: set[ast.AST] = set()  # docstrings, and the parts of formatted strings
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text is None:
                continue
            first = node.body[0]
            seen.update(ast.walk(first))
            for part in re.split(r"\n\s*\n|\n(?=\s+\w+(?: \(.*\))?: )|\n(?=\s*- )", text):
                if not part.startswith("    ") or re.match(r"\s+\w+(?: \(.*\))?: ", part):
                    yield first.lineno, " ".join(part.split())
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str() as text):
                pass
            case ast.JoinedStr(values=values):
                parts = [v for v in values if isinstance(v, ast.Constant)]
                text = "".join(str(v.value) if v in parts else "`x`" for v in values)
                seen.update(parts)
            case _:
                continue
        sentence = text.count(" ") >= 4 and not text.startswith("<")  # markup
        if sentence and node not in seen:
            yield node.lineno, text


def files(names: list[str]) -> Iterator[Path]:
    """The pages, modules and YAML files under these folders."""
    for name in names:
        top = ROOT / name
        found = [top] if top.is_file() else top.rglob("*")
        yield from sorted(path for path in found if path == top or path.suffix in SUFFIXES)


if __name__ == "__main__":
    found = [finding for path in files(sys.argv[1:]) for finding in check(path)]
    print(*found, sep="\n")
    sys.exit(bool(found))
