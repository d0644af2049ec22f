"""Fetch a task's data: `python -m stages.download movies`."""

from rapt import params, paths
from rapt.data.prepare import prepare
from rapt.utils import files
from rapt.utils.errors import RaptError, not_allowed
from stages import run


def main(task: str) -> None:
    """Read TASK's source and write its examples to data/raw/TASK."""
    p = params.load()
    if task not in p.tasks:
        raise RaptError(not_allowed("task", task, p.tasks))
    prepared = prepare(task, p.tasks[task], p.seed)
    with files.atomic(paths.raw(task)) as folder:
        folder.mkdir()
        prepared.write(folder)


if __name__ == "__main__":
    run(main)
