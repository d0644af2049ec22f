"""What a stage made, to and from DVC's remote: `python exchange.py send STAGE`, or `bring`.

`dvc push --run-cache` ends well when it could not send an entry of the run-cache, and sends the
entries before the outs; `dvc repro --pull` runs what it cannot find, and reads the remote's whole
run-cache each time. DVC looks for paths in the working folder, so this is a program and not a
function, and one that needs nothing but DVC.
"""

import sys
from pathlib import Path

from dvc.repo import Repo, lock_repo
from dvc.stage.cache import RunCacheNotFoundError

NOTHING = 3  # the exit code where nobody has made the stage yet


def send(repo: Repo, stage: str) -> int:
    """Push a stage's outs, then the entries of the run-cache here: who finds one finds its outs."""
    repo.push(stage)
    here, remote = repo.cache.legacy, _remote(repo)
    repo.stage_cache.transfer(here, remote)
    runs = Path(here.path, "runs")
    entries = [p.relative_to(here.path).parts for p in runs.rglob("*") if p.is_file()]
    lost = [e for e in entries if not remote.fs.exists(remote.fs.join(remote.path, *e))]
    return 1 if lost else 0


def bring(repo: Repo, stage: str) -> int:
    """Fetch a stage's outs, if the run-cache here or of the remote has an entry; run nothing.

    What the stage needs must lie in the working folder.
    """
    repo.stage_cache.transfer(_remote(repo), repo.cache.legacy, force=False)
    try:
        repo.stage_cache.restore(repo.stage.collect(stage)[0], pull=True)
    except RunCacheNotFoundError:
        return NOTHING
    return 0


def _remote(repo: Repo):  # type: ignore[no-untyped-def]
    return repo.cloud.get_remote_odb(None, "push --run-cache", hash_name="md5-dos2unix")


def main(step: str, stage: str) -> int:
    """Send or bring what STAGE made."""
    with Repo() as repo, lock_repo(repo):
        return {"send": send, "bring": bring}[step](repo, stage)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
