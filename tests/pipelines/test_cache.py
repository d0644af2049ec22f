"""Objects whose content does not match their name are removed from the cache."""

import hashlib
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from pipelines.cache import forget_lost, remove_damaged, remove_partial, same_inputs


def put(cache: Path, content: bytes, suffix: str = "") -> Path:
    name = hashlib.md5(content).hexdigest() + suffix
    path = cache / "files/md5" / name[:2] / name[2:]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(0o444)
    return path


def damage(path: Path, content: bytes) -> None:
    path.chmod(0o644)
    path.write_bytes(content)
    path.chmod(0o444)


def test_what_dvc_was_copying_goes(tmp_path: Path) -> None:
    folder = tmp_path / "reports/cells"
    folder.mkdir(parents=True)
    for name in (".6ZrR0dPDkYcOXVgQUHqTYg.tmp", ".mine.tmp", "cell.json"):
        (folder / name).touch()
    remove_partial(tmp_path)
    assert sorted(path.name for path in folder.iterdir()) == [".mine.tmp", "cell.json"]


def test_damaged_objects_go_and_whole_ones_stay(tmp_path: Path) -> None:
    seen = tmp_path / "seen.json"
    whole, folder = put(tmp_path, b"whole"), put(tmp_path, b"[]", ".dir")
    changed, cut = put(tmp_path, b"changed"), put(tmp_path, b"cut off")
    assert remove_damaged(tmp_path, seen) == 0
    damage(changed, b"chanced")
    damage(cut, b"cut")
    assert remove_damaged(tmp_path, seen) == 2
    assert whole.exists()
    assert folder.exists()
    assert not changed.exists()
    assert not cut.exists()
    assert remove_damaged(tmp_path, seen) == 0


def test_what_another_dvc_does_meanwhile_is_left_alone(tmp_path: Path) -> None:
    whole = put(tmp_path, b"whole")
    unfinished = whole.with_name(".9yMbxDBKKmMPJPYnFbHTpD.tmp")
    unfinished.write_bytes(b"who")
    whole.with_name("0" * 30).symlink_to("gone")  # like an object that vanishes after it was listed
    assert remove_damaged(tmp_path, tmp_path / "seen.json") == 0
    assert whole.exists()
    assert unfinished.exists()


def test_an_empty_project_has_no_cache(tmp_path: Path) -> None:
    assert remove_damaged(tmp_path / "none", tmp_path / "seen.json") == 0


def test_only_the_command_of_what_is_lost_stays_in_the_lock(tmp_path: Path) -> None:
    cache, lock = tmp_path / "cache", tmp_path / "dvc.lock"
    there = put(cache, b"there")
    (tmp_path / "uncached").touch()
    folder = put(cache, b'[{"md5": "2", "relpath": "lost"}]', ".dir")
    outs = {"uncached": "0" * 32, "lost": "1" * 32}
    outs |= {path.name: path.parent.name + path.name for path in (there, folder)}
    stages: dict[str, dict[str, Any]] = {
        name: {"cmd": "make", "deps": [], "outs": [{"path": name, "md5": md5}]}
        for name, md5 in outs.items()
    }
    yaml = YAML(typ="safe")
    yaml.dump({"schema": "2.0", "stages": stages}, lock)
    forget_lost(lock, cache)
    lost = {"cmd": "make"}
    stages |= {"lost": lost, folder.name: lost}  # this names what is lost
    assert yaml.load(lock) == {"schema": "2.0", "stages": stages}
    (tmp_path / "none").mkdir()
    forget_lost(tmp_path / "none/dvc.lock", cache)
    assert not list((tmp_path / "none").iterdir())


LOCK = """\
schema: '2.0'
stages:
  cell:
    cmd: exec python -m stages.cell
    deps:
    - {path: stages/cell.py, md5: CODE}
    - {path: data/raw/part, md5: MADE}
    params: {params.yaml: {eta: 1}}
    outs:
    - {path: reports/cells/a.json, md5: MADE}
  report:
    cmd: exec python -m stages.report
    deps:
    - {path: reports/cells, md5: MADE}
  download:
    cmd: exec python -m stages.download
    outs:
    - {path: data/raw, md5: MADE}
"""


def test_other_outs_of_the_same_inputs_are_told_from_those_of_others() -> None:
    assert same_inputs(LOCK, LOCK.replace("MADE", "made on another processor"))
    for part, another in (("CODE", "x"), ("eta: 1", "eta: 2"), ("stages.report", "stages.other")):
        assert not same_inputs(LOCK, LOCK.replace(part, another))
    assert not same_inputs(LOCK, "")
