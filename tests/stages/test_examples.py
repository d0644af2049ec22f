"""Examples of releases."""

from __future__ import annotations

import json
from pathlib import Path

from ruamel.yaml import YAML

from stages import examples
from tests.stages.releases import workspace as workspace
from tests.stages.test_vectors import release
from tests.tuning.conftest import backbone as backbone


def test_examples_are_words(workspace: Path) -> None:
    release("2")
    yaml = YAML(typ="safe")
    content = yaml.load(Path("params.yaml"))
    content["sweep"] |= {"methods": ["t2t", "vectors"], "attacked": ["t2t"]}
    content["sweep"] |= {"channels": [], "channel_inversions": []}
    yaml.dump(content, Path("params.yaml"))
    examples.main()
    for sentence in json.loads(Path("reports/examples.json").read_text())["sentences"]:
        shown = {(r["method"], r["eta"]): r["words"] for r in sentence["releases"]}
        assert shown["t2t", "75"] == shown["vectors", "75"]
