"""Classes of other packages, in folders that look like installed ones."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest

from rapt.attacks import ATTACKS
from rapt.privacy.mechanisms import MECHANISMS, T2T, mechanism
from rapt.tuning.tuners import TUNERS
from rapt.utils import registry
from rapt.utils.errors import RaptError

UNCACHED = registry.entry_points.__wrapped__
GOOD = """
from rapt.privacy.mechanisms import T2T
class Own(T2T):
    name = "{name}"
"""


def install(
    folder: Path,
    name: str,
    groups: Mapping[str, Mapping[str, str]],
    modules: Mapping[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Make a package that importlib.metadata finds, until the test ends."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [
        line
        for group, entries in groups.items()
        for line in (f"[{group}]", *(f"{key} = {value}" for key, value in entries.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    for path, text in modules.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(registry, "entry_points", cache(UNCACHED))  # read anew: now, and after it


def added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entries: dict[str, str], module: str = ""
) -> None:
    where = f"acme_{tmp_path.name.replace('-', '_')}"  # no module of another test
    at = {name: f"{where}:{kind}" for name, kind in entries.items()}
    install(tmp_path, "acme", {"rapt.mechanisms": at}, {f"{where}.py": module}, monkeypatch)


def test_each_kind_has_its_group() -> None:
    assert MECHANISMS["t2t"] is T2T
    assert "bayesian" in ATTACKS and "lora" in TUNERS
    for kinds in (MECHANISMS, ATTACKS, TUNERS):
        assert len(kinds) == len(list(kinds)) >= 6
        assert "nothing" not in kinds


def test_a_class_of_another_package_is_one_of_the_registry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    added(tmp_path, monkeypatch, {"acme-own": "Own"}, GOOD.format(name="acme-own"))
    assert list(MECHANISMS)[-1] == "acme-own"
    assert len(MECHANISMS) == len(MECHANISMS.data) + 1
    assert isinstance(mechanism("acme-own"), T2T)


@pytest.mark.parametrize(
    ("module", "why"),
    [
        ("import nothing_of_this_name", "No module named 'nothing_of_this_name'"),
        ("raise ValueError('two\\nlines')", "two lines"),
        ("", "has no attribute 'Own'"),
        ("class Own: name = 'acme-own'", "it is no Mechanism of this name"),
        ("Own = 3", "issubclass() arg 1 must be a class"),
        (GOOD.format(name="other"), "it is no Mechanism of this name"),
        (
            "from rapt.privacy.mechanisms.base import WordMechanism\n"
            "class Own(WordMechanism):\n    name = 'acme-own'",
            "it lacks sampler",
        ),
    ],
)
def test_what_is_broken_is_one_line_with_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, why: str
) -> None:
    added(tmp_path, monkeypatch, {"acme-own": "Own"}, module)
    with pytest.raises(RaptError) as error:
        mechanism("acme-own")
    line = str(error.value)
    assert line.startswith("package acme: got 'acme-own' in rapt.mechanisms, expected one that can")
    assert why in line and "\n" not in line
    assert line.endswith("Repair or uninstall it.")
    assert mechanism("t2t")  # stops nothing else


def test_a_name_that_is_taken_is_one_line_and_takes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    added(tmp_path, monkeypatch, {"t2t": "Own"}, GOOD.format(name="t2t"))
    assert type(mechanism("t2t")) is T2T
    with pytest.raises(
        RaptError,
        match=r"^package acme: got 't2t' in rapt\.mechanisms, expected a name that no other has\.",
    ):
        list(MECHANISMS)


def test_two_packages_with_one_name_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("acme", "bolt"):
        where = {"rapt.mechanisms": {"own": "nowhere:Own"}}
        install(tmp_path / package, package, where, {}, monkeypatch)
    with pytest.raises(RaptError, match=r"^package (acme|bolt): got 'own' in rapt\.mechanisms"):
        mechanism("own")
