"""The prose of the pages and of the code: docs/prose.py."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT

PROSE: dict[str, Any] = runpy.run_path(str(ROOT / "docs/prose.py"))
# Files, and folders whose pages, modules and YAML files are checked.
FOLDERS = ["benchmarks", "docs", "evidence", "pipelines", "presets", "rapt", "stages"]
FILES = ["README.md", "Makefile", "dvc.yaml", "mkdocs.yml", "params.yaml", "prefect.yaml"]


@pytest.mark.parametrize("name", FOLDERS + FILES)
def test_a_file_or_folder_is_plain(name: str) -> None:
    paths = list(PROSE["files"]([name]))
    assert paths
    assert not [str(finding) for path in paths for finding in PROSE["check"](path)]


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
    ("name", "content"),
    [
        ("dvc.yaml", "stages:\n  a:\n    desc: We utilise it\n"),
        ("page.html", "<p title=x>{% if a %}<b>We</b> utilise {{ it }}{% endif %}.</p>"),
        ("page.html", "<p>" + "word " * 24 + "{{ a }} {{ b }}.</p>"),
    ],
)
def test_a_fault_elsewhere_is_found(name: str, content: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    assert len(PROSE["check"](tmp_path / name)) == 1


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
        ("# " + "a " * 20 + "\n    # " + "b " * 6 + "\n", "26 words"),
        ("a = 1  # We utilise it.\n", "“utilise”"),
        ("#   " + "a " * 26 + "\n", None),  # code
    ],
)
def test_faults_of_code_are_found(code: str, fault: str | None, tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text(code)
    found = [finding.fault for finding in PROSE["check"](tmp_path / "code.py")]
    assert found[0].startswith(fault) if fault else not found
