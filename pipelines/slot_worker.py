"""A slot's process: runs DVC's commands one after the other, as DVC takes seconds to import.

Each line of its input is a JSON object with `arguments` for `dvc`, the path of a `log` for all that
they print, and an `environment` for the stages. Its answer is the exit code, one line each. It runs
in a slot, beside that slot's code, and so needs nothing but DVC.
"""

import json
import os
import sys
from pathlib import Path

import dvc.commands.repro
import dvc.repo.reproduce
import dvc.repo.stage  # noqa: F401
from dvc.cli import main


def serve() -> None:
    """Answer until the input ends."""
    # Copies, which no stage inherits: its output goes to the log, its input is empty.
    asked, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    _redirect(Path(os.devnull), 0, os.O_RDONLY)
    for line in asked:
        order = json.loads(line)
        os.environ.update(order["environment"])
        for stream in (1, 2):
            _redirect(Path(order["log"]), stream, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        code = main(order["arguments"])
        sys.stdout.flush()
        sys.stderr.flush()
        print(code, file=answers, flush=True)


def _redirect(path: Path, stream: int, flags: int) -> None:
    file = os.open(path, flags)
    os.dup2(file, stream)
    os.close(file)


if __name__ == "__main__":
    serve()
