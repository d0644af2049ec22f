"""Registries: the classes of this package by name, and those that other packages add."""

from __future__ import annotations

import inspect
from collections import UserDict
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from rapt.utils.errors import RaptError, described

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Kind = TypeVar("Kind", bound=type)


class Registry(UserDict[str, Kind]):
    """Classes by name: `data` has the package's own, entry points of a group name the others.

    Entry points are read when a name is not the package's own, and when all names are listed. A
    class is imported when it is asked for: what another package breaks stops nothing else.
    """

    def __init__(
        self, group: str, base: type, name: Callable[[Any], str], own: Iterable[Kind]
    ) -> None:
        """Register the package's own classes. `name` tells a class's; others derive from `base`."""
        super().__init__({name(kind): kind for kind in own})
        self._group, self._base, self._name = group, base, name

    def __missing__(self, name: str) -> Kind:
        """Import another package's class.

        Raises:
            RaptError: it cannot be imported, or is not what its group asks for.
        """
        entry = self._others()[name]
        try:
            kind = entry.load()
            if not (issubclass(kind, self._base) and self._name(kind) == name):
                raise TypeError(f"it is no {self._base.__name__} of this name")
            if inspect.isabstract(kind):
                raise TypeError(f"it lacks {', '.join(sorted(kind.__abstractmethods__))}")
        except Exception as error:
            line = f"one that can be used ({described(error)})"
            raise self._refused(entry, line) from error
        return kind

    def __contains__(self, name: object) -> bool:
        return name in self.data or name in self._others()

    def __iter__(self) -> Iterator[str]:
        return iter([*self.data, *sorted(self._others())])

    def __len__(self) -> int:
        return len(self.data) + len(self._others())

    def _others(self) -> dict[str, EntryPoint]:
        """The entry points by name.

        Raises:
            RaptError: two classes have one name.
        """
        found: dict[str, EntryPoint] = {}
        for entry in entry_points(self._group):
            if entry.name in self.data or entry.name in found:
                raise self._refused(entry, "a name that no other has")
            found[entry.name] = entry
        return found

    def _refused(self, entry: EntryPoint, expected: str) -> RaptError:
        package = entry.dist.name if entry.dist else entry.value
        return RaptError(
            f"package {package}: got {entry.name!r} in {self._group}, expected {expected}. Repair "
            "or uninstall it."
        )


@cache
def entry_points(group: str) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group, of all installed packages."""
    from importlib import metadata  # most commands need none

    return tuple(metadata.entry_points(group=group))
