"""The prose of the pages and of the code: docs/prose.py."""

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
        (" ".join(["word"] * 40) + ".", []),
        (" ".join(["word"] * 41) + ".", ["41 words"]),
        (" ".join(["word"] * 30) + ".\n" + " ".join(["word"] * 30) + ".", []),  # two sentences
        (" ".join(["word"] * 30) + "\n" + " ".join(["word"] * 30), ["60 words"]),  # two lines
        ("- " + " ".join(["word"] * 20) + "\n- " + " ".join(["word"] * 20), []),
        ("| " + " ".join(["word"] * 20) + " | " + " ".join(["word"] * 20) + " |", []),
        ("`" + " ".join(["word"] * 41) + "` is code.", []),
        ("```\n" + " ".join(["word"] * 41) + "\n```", []),
        ("    " + " ".join(["word"] * 41), []),
        ("[word](" + "/".join(["word"] * 41) + ")", []),
        ("We use XQZ here.", ["XQZ"]),
        ("We use PCT2T here.", []),  # in the glossary
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
        ("dvc.yaml", "stages:\n  a:\n    desc: " + "word " * 41 + "\n"),
        (
            "page.html",
            "<p title=x>{% if a %}<b>We</b>" + " word" * 41 + " {{ it }}{% endif %}.</p>",
        ),
        ("page.html", "<p>" + "word " * 39 + "{{ a }} {{ b }}.</p>"),
    ],
)
def test_a_fault_elsewhere_is_found(name: str, content: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(content)
    assert len(PROSE["check"](tmp_path / name)) == 1


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        (
            'def f(x):\n    """Do it.\n\n    Args:\n        x: ' + "a " * 41 + '\n    """\n',
            "42 words",
        ),
        ('help = "a b c d e' + " f" * 37 + '"\n', "42 words"),
        ('sha256 = "' + "a" * 64 + '"\n', None),
        ("# " + "a " * 30 + "\n    # " + "b " * 11 + "\n", "41 words"),
        ("a = 1  # " + "a " * 41 + "\n", "41 words"),
        ("#   " + "a " * 41 + "\n", None),  # code
    ],
)
def test_faults_of_code_are_found(code: str, fault: str | None, tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text(code)
    found = [finding.fault for finding in PROSE["check"](tmp_path / "code.py")]
    assert found[0].startswith(fault) if fault else not found
