"""Check the release of a study: `python -m stages.gate_release NAME`."""

from rapt import params, paths
from rapt.results.gates import stop
from rapt.utils import files
from stages import run
from stages.gate_private import compare


def main(name: str) -> None:
    """Compare the release of study NAME with the text that it came from; stop if it fails."""
    p = params.load()
    of, out = p.studies[name], paths.private_gate(f"studies/{name}")
    report = compare(paths.study_release(name), p, of.task, of.method, of.eta, of.embedding)
    files.write_json(out, report)
    stop({str(out): report})


if __name__ == "__main__":
    run(main)
