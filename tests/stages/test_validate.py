"""The params that the other stages depend on."""

from pathlib import Path

import pytest

from rapt import params, paths
from rapt.utils import files
from rapt.utils.errors import RaptError
from stages import validate
from tests.stages.conftest import Workspace


def test_defaults_are_filled_in_and_problems_leave_nothing(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workspace())
    validate.main()
    written = files.read_json(paths.EFFECTIVE)
    assert written == params.load().model_dump(mode="json")
    assert written["tasks"]["mine"]["rows"] == {"train": None, "test": 10}
    paths.EFFECTIVE.unlink()
    text = Path("params.yaml").read_text()
    Path("params.yaml").write_text(text.replace("seeds:", "seed_count:"))
    with pytest.raises(RaptError, match="seed_count"):
        validate.main()
    assert not paths.EFFECTIVE.exists()
