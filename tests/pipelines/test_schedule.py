"""The schedule: which stage starts next, and how long the rest takes."""

import random
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from pipelines.graph import Plan, Stage
from pipelines.progress import remaining_text
from pipelines.schedule import EXPECTED, Durations, Lease, Remaining, Schedule
from tests.conftest import ROOT


def plan(upstream: Mapping[str, str], gpu: str = "") -> Plan:
    """Build a plan from stage names and the names, of one letter each, that they wait for."""
    return {n: Stage(n, tuple(up), gpu=n in gpu) for n, up in upstream.items()}


def durations(folder: Path, **seconds: float) -> Durations:
    known = Durations(folder)
    for name, value in seconds.items():
        known.add(Stage(name, ()), value)
    return known


def started(schedule: Schedule) -> str:
    names = ""
    while lease := schedule.next():
        names += lease.stage.name
    return names


def test_longest_first_and_after_what_it_waits_for(tmp_path: Path) -> None:
    known = durations(tmp_path, a=1, b=9, c=5, d=7)
    schedule = Schedule(plan({"a": "", "b": "a", "c": "a", "d": "a"}), 2, [], known)
    assert started(schedule) == "a"
    schedule.end("a", success=True)
    assert started(schedule) == "bd"
    schedule.end("d", success=True)
    assert started(schedule) == "c"


def test_what_never_ran_goes_first(tmp_path: Path) -> None:
    schedule = Schedule(plan({"a": "", "n": ""}), 1, [], durations(tmp_path, a=100))
    assert started(schedule) == "n"


def test_a_gpu_is_one_stages_at_a_time(tmp_path: Path) -> None:
    stages = plan(dict.fromkeys("abcdx", ""), gpu="abcd")
    schedule = Schedule(stages, 4, ["g0", "g1"], durations(tmp_path, a=4, b=3, c=2, d=1, x=0))
    leases = [schedule.next() for _ in range(4)]
    held = [(lease.stage.name, lease.gpu) for lease in leases if lease]
    assert held == [("a", "g0"), ("b", "g1"), ("x", None)]  # c and d wait, and hold no slot
    schedule.end("b", success=False)
    lease = schedule.next()
    assert lease is not None
    assert (lease.stage.name, lease.gpu) == ("c", "g1")


def held_by(schedule: Schedule) -> dict[str, str | None]:
    return {name: lease.gpu for name, (lease, _) in schedule.running.items()}


def test_several_stages_share_a_gpu_the_emptiest_first(tmp_path: Path) -> None:
    stages = plan(dict.fromkeys("abcdefx", ""), gpu="abcdef")
    known = durations(tmp_path, a=6, b=5, c=4, d=3, e=2, f=1, x=0)
    schedule = Schedule(stages, 6, ["g0", "g1"], known, per_gpu=2)
    assert started(schedule) == "abcdx"  # e and f wait, and hold no slot
    assert held_by(schedule) == {"a": "g0", "b": "g1", "c": "g0", "d": "g1", "x": None}
    assert all(lease.sharing > 1 for lease, _ in schedule.running.values())
    schedule.end("d", success=True)
    assert started(schedule) == "e"
    assert held_by(schedule)["e"] == "g1"


def test_what_a_shared_gpu_has_too_little_memory_for_gets_a_whole_one(tmp_path: Path) -> None:
    stages = plan(dict.fromkeys("abcde", ""), gpu="abcde")
    known = durations(tmp_path, a=5, b=4, c=3, d=2, e=1)
    schedule = Schedule(stages, 5, ["g0", "g1"], known, per_gpu=2)
    assert started(schedule) == "abcd"
    schedule.give_whole("d")
    assert started(schedule) == ""  # nor e, which would share one again
    schedule.end("c", success=True)
    assert started(schedule) == ""
    schedule.end("b", success=True)
    lease = schedule.next()
    assert lease == Lease(stages["d"], "g1", sharing=1)
    assert started(schedule) == "e"
    assert held_by(schedule) == {"a": "g0", "d": "g1", "e": "g0"}
    for name in "dae":
        schedule.end(name, success=True)
    assert schedule.done == set("abcde")


@given(st.integers(1, 3), st.integers(1, 3), st.sets(st.sampled_from("abcdefgh")), st.randoms())
def test_no_gpu_is_held_by_more_stages_than_may_share_it(
    gpus: int, per_gpu: int, large: set[str], rng: random.Random
) -> None:
    """Also where some have too little memory beside others; and all end."""
    stages = plan(dict.fromkeys("abcdefgh", ""), gpu="abcdefgh")
    names = [f"g{n}" for n in range(gpus)]
    schedule = Schedule(stages, 5, names, Durations(Path("nowhere")), per_gpu=per_gpu)
    while len(schedule.done) < len(stages):
        started(schedule)
        on = Counter(held_by(schedule).values())
        assert max(on.values()) <= per_gpu
        name = rng.choice(sorted(schedule.running))
        lease, _ = schedule.running[name]
        if lease.sharing == 1:
            assert on[lease.gpu] == 1
        if name in large and lease.sharing > 1:
            schedule.give_whole(name)
        else:
            schedule.end(name, success=True)


def test_the_providers_stages_take_no_slot_and_no_gpu_here(tmp_path: Path) -> None:
    stages = {n: Stage(n, (), gpu=True, side="provider") for n in "abc"} | plan({"x": "", "y": ""})
    known = durations(tmp_path, a=4, b=3, c=2, x=1, y=0)
    schedule = Schedule(stages, 1, ["g0"], known, elsewhere=2)
    leases = [schedule.next() for _ in range(4)]
    held = [(lease.stage.name, lease.gpu) for lease in leases if lease]
    assert held == [("a", None), ("b", None), ("x", None)]
    assert schedule.remaining() == Remaining(pytest.approx(4, abs=0.5), at_least=True)


def test_what_may_not_leave_waits_for_its_turn_here(tmp_path: Path) -> None:
    """It then gets a GPU of this machine, and another stage takes its place on the pool."""
    stages = {n: Stage(n, (), gpu=True, side="provider") for n in "abc"} | plan({"x": ""})
    known = durations(tmp_path, a=4, b=3, c=2, x=9)
    schedule = Schedule(stages, 1, ["g0"], known, elsewhere=2)
    assert started(schedule) == "xab"
    schedule.keep("a")
    assert started(schedule) == "c"
    schedule.end("x", success=True)
    assert schedule.next() == Lease(stages["a"], "g0")
    assert schedule.next() is None
    for name in "bc":
        schedule.end(name, success=True)
    assert schedule.remaining() == Remaining(pytest.approx(4, abs=0.5), at_least=False)
    schedule.end("a", success=True)
    assert schedule.done == set(stages)


def test_without_gpus_every_stage_runs_anywhere(tmp_path: Path) -> None:
    schedule = Schedule(plan(dict.fromkeys("ab", ""), gpu="ab"), 2, [], durations(tmp_path))
    assert started(schedule) == "ab"


def test_what_depends_on_a_failed_stage_is_skipped(tmp_path: Path) -> None:
    stages = plan({"a": "", "b": "a", "c": "b", "d": ""})
    schedule = Schedule(stages, 1, [], durations(tmp_path, a=2, d=1))
    assert started(schedule) == "a"
    schedule.end("a", success=False)
    assert (schedule.failed, schedule.skipped) == (["a"], {"b", "c"})
    assert started(schedule) == "d"


def test_a_stopped_schedule_starts_nothing(tmp_path: Path) -> None:
    schedule = Schedule(plan({"a": ""}), 1, [], durations(tmp_path))
    schedule.stop()
    assert schedule.next() is None
    assert not schedule.running


@pytest.mark.parametrize(
    ("upstream", "slots", "gpus", "seconds"),
    [
        ({"a": "", "b": "", "c": "", "d": ""}, 2, [], 20),  # all together on two slots
        ({"a": "", "b": "a", "c": "b", "d": ""}, 4, [], 30),  # the longest chain
        ({"a": "", "b": "", "c": "", "d": ""}, 4, ["g"], 40),  # all together on one GPU
        ({"a": "", "b": "", "c": "", "d": ""}, 4, ["g", "h"], 20),
    ],
)
def test_what_remains(
    tmp_path: Path, upstream: dict[str, str], slots: int, gpus: list[str], seconds: int
) -> None:
    known = durations(tmp_path, a=10, b=10, c=10, d=10)
    schedule = Schedule(plan(upstream, gpu="abcd"), slots, gpus, known)
    assert schedule.remaining() == Remaining(seconds, at_least=False)


def test_others_of_its_kind_stand_for_a_stage(tmp_path: Path) -> None:
    known = durations(tmp_path, **{"cell@1": 2, "cell@2": 4, "cell@3": 9, "cells@1": 100})
    assert known.of(Stage("cell@4", ())) == 4
    assert known.of(Stage("other@4", ())) is None
    stages = {name: Stage(name, ()) for name in ("cell@4", "other")}
    remaining = Schedule(stages, 2, [], known).remaining()
    assert remaining == Remaining(4, at_least=True)
    assert remaining_text(remaining) == "at least 4 s left"


def test_what_never_ran_here_is_expected_as_the_demo_took(tmp_path: Path) -> None:
    known, stage = durations(tmp_path), Stage("train@new", ())
    assert known.of(stage) == EXPECTED["train"]
    known.add(Stage("train@old", ()), 4000)
    assert known.of(stage) == pytest.approx(4000)
    assert EXPECTED.keys() <= YAML(typ="safe").load(ROOT / "dvc.yaml")["stages"].keys()


def test_the_rest_goes_at_the_pace_of_what_ran(tmp_path: Path) -> None:
    """Longer texts than the demo's, or than those of the last flow, take every stage longer."""
    durations(tmp_path, **{"train@a": 10, "train@b": 20, "tag@a": 5}).save()
    known = Durations(tmp_path)
    known.add(Stage("tag@a", ()), 15)
    assert known.of(Stage("train@b", ())) == 60
    known.add(Stage("train@a", ()), 40)
    assert known.of(Stage("train@b", ())) == 80
    assert known.of(Stage("privatize@a", ())) == pytest.approx(EXPECTED["privatize"] * 55 / 15)


def test_a_stage_that_overran_its_estimate_makes_it_a_lower_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule = Schedule(plan({"a": "", "b": "a"}), 1, [], durations(tmp_path, a=10, b=77))
    assert started(schedule) == "a"
    (started_at,) = (at for _, at in schedule.running.values())
    for later, expected in ((5, Remaining(82, at_least=False)), (300, Remaining(77, True))):
        monkeypatch.setattr("time.monotonic", lambda at=started_at + later: at)
        assert schedule.remaining() == expected


def test_durations_are_kept(tmp_path: Path) -> None:
    durations(tmp_path, a=3).save()
    assert Durations(tmp_path).of(Stage("a", ())) == 3


@given(st.lists(st.floats(0.1, 100), min_size=1, max_size=8), st.integers(1, 4))
def test_every_stage_runs_once_in_any_order(seconds: list[float], slots: int) -> None:
    stages = {f"s@{i}": Stage(f"s@{i}", tuple(f"s@{j}" for j in range(i // 2))) for i in range(8)}
    known = Durations(Path("nowhere"))
    for name, value in zip(stages, seconds, strict=False):
        known.add(stages[name], value)
    schedule, ended = Schedule(stages, slots, [], known), list[str]()
    while len(ended) < len(stages):
        while lease := schedule.next():
            assert set(lease.stage.upstream) <= set(ended)
        assert len(schedule.running) <= slots
        ended.append(min(schedule.running))
        schedule.end(ended[-1], success=True)
    assert sorted(ended) == sorted(stages)
    assert schedule.remaining().seconds == 0
