"""What a GPU does: `python3 -m benchmarks.gpu`, in a checkout or an unpacked bundle.

The steps run in the order of their worth, each in a process of its own, as long as there is time.
What they found is written after each: gpu.json, of the experiment results.tar, both in $OUT, else
in reports. This module imports nothing that is not Python's own, as the bundle brings packages.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

# Each with the seconds that it may take.
STEPS = {
    "card": 60,
    "tests": 120,
    "privatizing": 120,
    "search": 40,
    "seed": 150,
    "bert-base": 90,
    "seeds": 90,
    "serving": 40,
    "writing": 60,
}
EXPERIMENT = {"card": 60, "experiment": 600}
BUNDLE, WHEELS, SITE = Path("bundle.json"), Path("wheels"), Path(".rapt/site")


def main() -> None:
    """Run the steps."""
    parser = argparse.ArgumentParser(prog="python3 -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--experiment", action="store_true", help="run its cells instead")
    parser.add_argument(
        "--steps", nargs="+", choices=STEPS, help=f"of {', '.join(STEPS)}; all by default"
    )
    parser.add_argument("--seconds", type=float, default=460, help="after which nothing runs")
    given = parser.parse_args()
    ends = time.monotonic() + given.seconds
    if BUNDLE.is_file():
        _install(json.loads(BUNDLE.read_text()))
    out = Path(os.environ.get("OUT") or "reports")
    out.mkdir(parents=True, exist_ok=True)
    found: dict[str, Any] = {}
    wanted = EXPERIMENT if given.experiment else given.steps or STEPS
    for name in wanted:
        most = (EXPERIMENT | STEPS)[name]
        found[name] = _step(name, min(most, ends - time.monotonic()), out)
        _write(out / "gpu.json", found)
        if name == "card" and "failed" in found[name]:
            _end(found[name]["failed"])


def _install(told: dict[str, Any]) -> None:
    """Unpack the bundle's packages, where it is whole and for this Python."""
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    if here != told["python"]:
        _end(f"python: got {here}, expected {told['python']}, of which the bundle has packages.")
    for name, digest in told["files"].items():
        path = Path(name)
        if not path.is_file():
            _end(f"{name}: got no such file, expected the bundle's. Unpack it again.")
        if hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            _end(f"{name}: got another version, expected the bundle's. Unpack it to a new folder.")
    if not SITE.is_dir():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
        command += ["--no-compile", "--root-user-action=ignore", "--target", str(SITE)]
        if subprocess.run([*command, *map(str, WHEELS.glob("*.whl"))]).returncode:
            _end("wheels: got a failed installation, expected none. Build the bundle again.")
    folders = [str(SITE.resolve()), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(folders)


def _step(name: str, seconds: float, out: Path) -> dict[str, Any]:
    """Run a step: what it found, how long it took, and the last line of its error if it failed."""
    if seconds < 1:
        return {"failed": "no time was left"}
    began = time.monotonic()
    print(f"\n{name}", flush=True)
    with TemporaryDirectory() as scratch:
        path = Path(scratch, "found.json")
        command = [sys.executable, "-m", "benchmarks.gpu.steps", name, str(path), str(out)]
        process = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            said = process.communicate(timeout=seconds)[1]
            failed = "" if process.returncode == 0 else (said.strip().splitlines() or ["?"])[-1]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.communicate()
            failed = f"it took more than {seconds:.0f} s"
        figures = json.loads(path.read_text()) if path.is_file() else []
    if failed:
        print(f"failed: {failed}", flush=True)
    told = {"seconds": round(time.monotonic() - began, 1), "figures": figures}
    return told | ({"failed": failed} if failed else {})


def _write(path: Path, found: dict[str, Any]) -> None:
    new = path.with_suffix(".new")
    new.write_text(json.dumps(found, indent=1))
    new.replace(path)


def _end(line: str) -> None:
    print(line, file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    main()
