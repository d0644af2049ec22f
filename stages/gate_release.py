"""Check one release: `python -m stages.gate_release data/private/studies/NAME OUT.json`."""

from pathlib import Path

from rapt import params
from rapt.results.gates import stop
from rapt.utils import files
from stages import run
from stages.gate_private import compare


def main(release: Path, out: Path) -> None:
    """Compare RELEASE with the tagged text that it came from; write OUT, stop if it fails."""
    report = compare(release, params.load().seed)
    files.write_json(out, report)
    stop({str(out): report})


if __name__ == "__main__":
    run(main)
