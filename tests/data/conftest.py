"""Tasks to prepare, without a params.yaml around them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from rapt.data.prepare import Prepared
from rapt.tasks import AnyTask
from rapt.tasks.base import Task

MakeTask = Callable[..., Any]
TASK: TypeAdapter[Task] = TypeAdapter(AnyTask)


@pytest.fixture(autouse=True)
def workspace(empty: Path) -> Path:
    return empty


def make_task(files: dict[str, str], type: str = "csv", **changes: Any) -> Any:
    """A task of local files; `names`, `skip_rows` and `quoted` go to its format."""
    format = {"type": type, "names": None, "skip_rows": 0, "quoted": type == "csv"}
    format |= {key: changes.pop(key) for key in list(changes) if key in format}
    content: dict[str, Any] = {
        "source": {"type": "files", "files": files, "sha256": changes.pop("sha256", None)},
        "format": format,
        "text": "text",
        "text_pair": None,
        "entities": None,
        "label": None,
        "attributes": None,
        "authors": None,
        "exclude": None,
        "rows": {"train": None, "test": 1 if "all" in files else None},
    }
    return TASK.validate_python({**content, **changes})


def label(column: str, *names: str, threshold: float | None = None) -> dict[str, Any]:
    return {"column": column, "names": list(names), "threshold": threshold}


EVALUATION = "training text also in the evaluation split"


def age_bins(count: int) -> dict[str, Any]:
    return {
        "age": {
            "type": "bins",
            "column": "age",
            "least": 10,
            "most": 110,
            "count": count,
            "edges": None,
        }
    }


def write(path: str, lines: list[str]) -> str:
    Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def texts(prepared: Prepared, split: str) -> list[str]:
    return prepared.tables[split]["text"].to_pylist()
