"""The locks are complete and hold nothing else: pip resolves nothing."""

import tomllib
from functools import cache
from importlib.metadata import PackageNotFoundError, requires

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
PRODUCT = PROJECT["dependencies"] + EXTRAS["pipeline"]
# The Pythons that pyproject.toml names; what a library needs changes within 3.11 and with 3.13.
PYTHONS = ("3.11.0", "3.11.7", "3.12.0", "3.13.0")
# What `make qlora` installs in a folder of its own.
APART = {"qlora"}


def pinned(name: str) -> set[str]:
    lines = (ROOT / name).read_text().splitlines()
    pins = [Requirement(line) for line in lines if line and not line.startswith("#")]
    assert all(str(pin.specifier).startswith("==") for pin in pins)
    return {canonicalize_name(pin.name) for pin in pins}


def closure(dependencies: list[str]) -> set[str]:
    """The packages that these need on this system under any of PYTHONS, and all those need."""
    return set[str]().union(*(_closure(dependencies, python) for python in PYTHONS))


def _closure(dependencies: list[str], python: str) -> set[str]:
    extras: dict[str, set[str]] = {}
    minor = python.rpartition(".")[0]
    environment = {"python_full_version": python, "python_version": minor}
    todo = [Requirement(line) for line in dependencies]
    while todo:
        wanted = todo.pop()
        name = canonicalize_name(wanted.name)
        if name in extras and wanted.extras <= extras[name]:
            continue
        known = extras.setdefault(name, {""})
        known |= wanted.extras
        for needed in _requires(name):
            if not needed.marker or any(
                needed.marker.evaluate(environment | {"extra": extra}) for extra in known
            ):
                todo.append(needed)
    return set(extras) - {"rapt"}


@cache
def _requires(name: str) -> list[Requirement]:
    try:
        return [Requirement(line) for line in requires(name) or []]
    except PackageNotFoundError:  # only another Python needs it: its lock has been installed there
        return []


def test_the_lock_is_the_product_and_all_that_it_needs() -> None:
    wanted = closure(PRODUCT)
    # A CUDA build of torch brings its own, which `make setup` leaves to pip.
    assert pinned("requirements.lock") == {
        name for name in wanted if not name.startswith(("nvidia-", "cuda-")) and name != "triton"
    }


def test_the_second_lock_is_what_development_needs_beside_it() -> None:
    extra = [line for name in EXTRAS.keys() - APART for line in EXTRAS[name]]
    assert pinned("requirements-dev.lock") == closure(PRODUCT + extra) - closure(PRODUCT)


def test_flower_s_lock_has_what_the_product_s_has_not() -> None:
    """`make flower` installs it apart: a package of the same version there would be a copy."""
    product, flower = (
        {line for line in (ROOT / name).read_text().splitlines() if not line.startswith("#")}
        for name in ("requirements.lock", "requirements-flower.lock")
    )
    assert "flwr==1.42.0" in flower and not flower & product
    assert pinned("requirements-flower.lock")
