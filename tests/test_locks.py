"""The locks are complete and hold nothing else: pip resolves nothing."""

from __future__ import annotations

import tomllib
from importlib.metadata import requires

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
PRODUCT = PROJECT["dependencies"] + EXTRAS["pipeline"]
# What `make qlora` installs in a folder of its own.
APART = {"qlora"}


def pinned(name: str) -> set[str]:
    lines = (ROOT / name).read_text().splitlines()
    pins = [line.split("==") for line in lines if line and not line.startswith("#")]
    assert all(len(pin) == 2 for pin in pins)
    return {canonicalize_name(name) for name, _ in pins}


def closure(dependencies: list[str]) -> set[str]:
    """The packages that these need on this machine, and all that those need."""
    extras: dict[str, set[str]] = {}
    todo = [Requirement(line) for line in dependencies]
    while todo:
        wanted = todo.pop()
        name = canonicalize_name(wanted.name)
        if name in extras and wanted.extras <= extras[name]:
            continue
        known = extras.setdefault(name, {""})
        known |= wanted.extras
        for needed in map(Requirement, requires(name) or []):
            if not needed.marker or any(needed.marker.evaluate({"extra": e}) for e in known):
                todo.append(needed)
    return set(extras) - {"rapt"}


def test_the_lock_is_the_product_and_all_that_it_needs() -> None:
    wanted = closure(PRODUCT)
    # A CUDA build of torch brings its own, which `make setup` leaves to pip.
    assert pinned("requirements.lock") == {
        name for name in wanted if not name.startswith(("nvidia-", "cuda-")) and name != "triton"
    }


def test_the_second_lock_is_what_development_needs_beside_it() -> None:
    extra = [line for name in EXTRAS.keys() - APART for line in EXTRAS[name]]
    assert pinned("requirements-dev.lock") == closure(PRODUCT + extra) - closure(PRODUCT)
