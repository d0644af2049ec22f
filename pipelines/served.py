"""A process that runs DVC's commands in a checkout, as DVC takes seconds to start."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from pipelines import dvc_api
from pipelines.checkout import PATH
from rapt.utils import process
from rapt.utils.errors import RaptError

LINES_SHOWN = 20
# Failures that may not recur: a process killed for memory, a GPU out of memory, a lock of DVC's
# that was held for too long.
MAY_PASS = re.compile(
    r"exited with (-9|-15|137|143)\b|out of memory|Unable to acquire lock"
    # PyTorch's, Python's and NumPy's messages when the machine is out of memory.
    r"|can't allocate memory|\bMemoryError\b|Unable to allocate"
)


class CommandError(RaptError):
    """A failed command, with the log that says why.

    The message goes to Prefect's server, which may be another machine; the log stays here.
    """

    def __init__(self, name: str, code: int, log: Path) -> None:
        """Say that the command called `name` ended with exit code `code`."""
        super().__init__(f"{name}: exit {code}")
        self.code, self.log = code, log

    def tail(self) -> str:
        """Return the last lines of the log; of a progress bar, only its last state."""
        text = self.log.read_text(errors="replace")
        lines = [line.rsplit("\r", 1)[-1] for line in text.replace("\r\n", "\n").split("\n")]
        return "\n".join([line for line in lines if line.strip()][-LINES_SHOWN:])

    @property
    def may_pass(self) -> bool:
        """Whether the command may succeed in a retry with nothing changed."""
        return self.code < 0 or MAY_PASS.search(self.tail()) is not None


class Served:
    """A checkout, and the process that runs DVC in it."""

    def __init__(self, path: Path, logs: Path, environment: dict[str, str]) -> None:
        """Start the process in `path`; it dies with this thread. Its logs go to `logs`."""
        self.path = path
        self._logs, self._environment = logs, environment
        self._process = self._start()

    def wake(self) -> None:
        """Start the process again if it was killed with its last stage."""
        if self._process.poll() is not None:
            self._process = self._start()

    def run(self, name: str, *arguments: str, **environment: str) -> Path:
        """Run a command of DVC, or of pipelines.dvc_api, on behalf of `name`; return its log.

        Raises:
            CommandError: it failed; its code is negative if a signal killed it.
        """
        log = self._logs / f"{name.replace('/', '-')}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_bytes(b"")
        if code := self._answer(arguments=arguments, log=str(log), environment=environment):
            raise CommandError(name, code, log)
        return log

    def kill(self) -> None:
        """Kill the process and the stage that it runs."""
        with suppress(ProcessLookupError):  # it has just ended
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _answer(self, **order: object) -> int:
        assert self._process.stdin and self._process.stdout
        with suppress(BrokenPipeError):  # it was killed meanwhile: no answer will come
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()
        answer = self._process.stdout.readline()
        return int(answer) if answer else self._process.wait() or 1

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            process.tethered(sys.executable, "-P", dvc_api.__file__, "serve"),
            cwd=self.path,
            env=os.environ | PATH | self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C in the terminal does not reach it
        )
