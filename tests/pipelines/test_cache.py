"""What is not what its name says does not stay in the cache."""

from __future__ import annotations

import hashlib
from pathlib import Path

from pipelines.cache import remove_damaged


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


def test_an_empty_project_has_no_cache(tmp_path: Path) -> None:
    assert remove_damaged(tmp_path / "none", tmp_path / "seen.json") == 0
