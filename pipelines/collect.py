"""Fetch what the run-cache, here or of the remote, has of a stage: `python collect.py STAGE`.

Unlike `dvc repro --pull` it never runs the stage, and of the remote's run-cache it copies only
what is new. The stage's needs must lie in the working folder, as DVC looks for them there; so this
is a program, not a function, and one that needs nothing but DVC.
"""

import sys

from dvc.repo import Repo
from dvc.stage.cache import RunCacheNotFoundError

NOTHING = 3  # the exit code where nobody has made the stage yet


def main(stage: str) -> int:
    """Bring the stage's outs into the cache and the working folder."""
    with Repo() as repo, repo.lock:
        runs = repo.stage_cache
        remote = repo.cloud.get_remote_odb(None, "fetch --run-cache", hash_name="md5-dos2unix")
        runs.transfer(remote, repo.cache.legacy, force=False)
        try:
            runs.restore(repo.stage.collect(stage)[0], pull=True)
        except RunCacheNotFoundError:
            return NOTHING
        return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
