"""The budget of private prediction: what was spent stays spent, whatever happens."""

import fcntl
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from rapt.serving.budget import Budget, BudgetSpent
from rapt.utils.errors import RaptError


def of(path: Path, cost: float = 0.1, most: float = 1.0, teachers: str = "a") -> Budget:
    return Budget(path, teachers, cost, most)


def test_it_is_spent_to_the_last_query_and_no_further(tmp_path: Path) -> None:
    """Ten times 0.1 is 1, which floating-point numbers miss."""
    path = tmp_path / "budget"
    assert of(path).left() == 10
    for left in range(9, -1, -1):
        of(path).spend(1)
        assert of(path).left() == left
    with pytest.raises(BudgetSpent, match=r"^budget: got 1 queries with 0 left, expected no more"):
        of(path).spend(1)
    assert path.stat().st_mode & 0o077 == 0


def test_of_too_many_queries_none_is_spent(tmp_path: Path) -> None:
    budget = of(tmp_path / "budget")
    budget.spend(7)
    with pytest.raises(BudgetSpent, match="got 4 queries with 3 left"):
        budget.spend(4)
    assert budget.left() == 3


def test_costs_add_up_whatever_the_law(tmp_path: Path) -> None:
    """Half of it is spent: other noise, or a larger ε, goes on from there."""
    path = tmp_path / "budget"
    of(path).spend(5)
    assert of(path, cost=0.01).left() == 50
    assert of(path, most=2.0).left() == 15
    assert of(path, most=0.3).left() == 0


@pytest.mark.parametrize("torn", ["{", '{"cost": 0', "\x00\x00", '{"cost": 0.1}'])
def test_a_torn_line_is_a_query_that_was_paid_for(tmp_path: Path, torn: str) -> None:
    path = tmp_path / "budget"
    of(path).spend(2)
    with path.open("a") as file:
        file.write(torn)
    assert of(path).left() == 7
    of(path).spend(3)
    assert of(path).left() == 4


def test_what_is_no_budget_of_these_teachers_is_one_line(tmp_path: Path) -> None:
    of(tmp_path / "budget").spend(1)
    (tmp_path / "torn").write_text('{"teach')
    (tmp_path / "text").write_bytes(b"\xff\n")
    for name, teachers in (("budget", "b"), ("torn", "a"), ("text", "a")):
        before = (tmp_path / name).read_bytes()
        with pytest.raises(RaptError, match=r"^ledger: got '.*', which is not the budget of these"):
            of(tmp_path / name, teachers=teachers)
        assert (tmp_path / name).read_bytes() == before
    with pytest.raises(RaptError, match=r"^ledger: got Is a directory at '.*', expected a file"):
        of(tmp_path)


def test_two_servers_take_turns(tmp_path: Path) -> None:
    """A lock is of an opened file, so one of this process stands for another server's."""
    path = tmp_path / "budget"
    budget = of(path, most=0.1)
    with path.open("a") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with ThreadPoolExecutor() as pool:
            waits = pool.submit(budget.spend, 1)
            with pytest.raises(TimeoutError):
                waits.result(timeout=0.2)
            other.write('{"cost": 0.1}\n')
            other.flush()
            fcntl.flock(other, fcntl.LOCK_UN)
            with pytest.raises(BudgetSpent, match="got 1 queries with 0 left"):
                waits.result(timeout=60)
    assert path.read_text().count("cost") == 1
