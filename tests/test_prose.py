"""The prose of the pages and of the code: docs/prose.py."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT

PROSE: dict[str, Any] = runpy.run_path(str(ROOT / "docs/prose.py"))
PAGES = [
    ROOT / "README.md",
    *sorted(ROOT.glob("docs/**/*.md")),
    *sorted(ROOT.glob("evidence/*.md")),
]
# Folders whose Python files are checked, too. Add one that `python docs/prose.py FOLDER` accepts.
CLEAN = ["benchmarks", "docs", "evidence", "pipelines", "rapt", "stages"]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_page_is_plain(path: Path) -> None:
    assert not [str(finding) for finding in PROSE["check"](path)]


@pytest.mark.parametrize("folder", CLEAN)
def test_the_code_of_a_folder_is_plain(folder: str) -> None:
    paths = sorted((ROOT / folder).rglob("*.py"))
    assert paths
    assert not [str(finding) for path in paths for finding in PROSE["check"](path)]


def test_all_docstrings_begin_with_what_they_document() -> None:
    paths = [path for top in ("rapt", "stages", "pipelines") for path in (ROOT / top).rglob("*.py")]
    found = [str(finding) for path in paths for finding in PROSE["check"](path)]
    assert len(paths) > 50
    assert not [line for line in found if "begins with “What”" in line]


@pytest.mark.parametrize(
    ("page", "faults"),
    [
        (" ".join(["word"] * 25) + ".", []),
        (" ".join(["word"] * 26) + ".", ["26 words"]),
        (" ".join(["word"] * 20) + ".\n" + " ".join(["word"] * 20) + ".", []),  # two sentences
        (" ".join(["word"] * 20) + "\n" + " ".join(["word"] * 20), ["40 words"]),  # two lines
        ("- " + " ".join(["word"] * 20) + "\n- " + " ".join(["word"] * 20), []),
        ("| " + " ".join(["word"] * 20) + " | " + " ".join(["word"] * 20) + " |", []),
        ("`" + " ".join(["word"] * 26) + "` is code.", []),
        ("```\n" + " ".join(["word"] * 26) + "\n```", []),
        ("    " + " ".join(["word"] * 26), []),
        ("[word](" + "/".join(["word"] * 26) + ")", []),
        ("We use XQZ here.", ["XQZ"]),
        ("We use PCT2T here.", []),  # in the glossary
        ("A flow is under way.", ["“is under way”"]),
    ],
)
def test_faults_of_a_page_are_found(page: str, faults: list[str], tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(page + "\n")
    found = [finding.fault for finding in PROSE["check"](tmp_path / "page.md")]
    assert len(found) == len(faults)
    assert all(fault.startswith(wanted) for fault, wanted in zip(found, faults, strict=True))


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ('def f():\n    """What it does."""\n', "a docstring begins"),
        ('raise ValueError("x: got y, given, allowed: lower-case letters")\n', "“given, allowed”"),
        (
            'def f(x):\n    """Do it.\n\n    Args:\n        x: ' + "a " * 26 + '\n    """\n',
            "27 words",
        ),
        ('help = "a b c d e' + " f" * 22 + '"\n', "27 words"),
        ('sha256 = "' + "a" * 64 + '"\n', None),
    ],
)
def test_faults_of_code_are_found(code: str, fault: str | None, tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text(code)
    found = [finding.fault for finding in PROSE["check"](tmp_path / "code.py")]
    assert found[0].startswith(fault) if fault else not found
