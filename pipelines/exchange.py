"""What a stage made, to and from DVC's remote: `python exchange.py send STAGE`, or `bring`.

`dvc push --run-cache` ends well when it could not send an entry of the run-cache, and sends the
entries before the outs, those of other stages too; `dvc repro --pull` runs what it cannot find, and
passes over the remote's entries where one is here already, though its outs may be lost. DVC looks
for paths in the working folder, so this is a program and not a function, and one that needs nothing
but DVC.
"""

import sys
from contextlib import suppress
from pathlib import Path

from dvc.fs import generic
from dvc.repo import Repo, lock_repo
from dvc.stage import PipelineStage
from dvc.stage.cache import RunCacheNotFoundError, _get_cache_hash, _get_stage_hash
from dvc.stage.serialize import to_single_stage_lockfile

NOTHING = 3  # the exit code where nobody has made the stage yet


def send(repo: Repo, stage: PipelineStage) -> int:
    """Push a stage's outs, then its entry of the run-cache: who finds that finds its outs."""
    repo.push(stage.addressing)
    here, remote = repo.cache.legacy, _remote(repo)
    entry = [*_entries(stage), _get_cache_hash(to_single_stage_lockfile(stage))]
    to = remote.fs.join(remote.path, *entry)
    generic.copy(here.fs, here.fs.join(here.path, *entry), remote.fs, to)
    return 0


def bring(repo: Repo, stage: PipelineStage) -> int:
    """Fetch a stage's outs, if the run-cache here or of the remote has an entry; run nothing.

    What the stage needs must lie in the working folder. An entry here comes first, and what is
    then fetched comes before it, as the newer one.
    """
    if _restore(repo, stage):
        return 0
    here, remote = repo.cache.legacy, _remote(repo)
    for found in remote.fs.find(remote.fs.join(remote.path, *_entries(stage))):
        entry = here.fs.join(here.path, *_entries(stage), remote.fs.name(found))
        generic.copy(remote.fs, found, here.fs, entry)
        if _restore(repo, stage):
            return 0
        with suppress(OSError):  # which has others
            Path(entry).parent.rmdir()  # an empty one DVC cannot read; what is no entry it removes
    return NOTHING


def _restore(repo: Repo, stage: PipelineStage) -> bool:
    try:
        repo.stage_cache.restore(stage, pull=True)
    except RunCacheNotFoundError:
        return False
    return True


def _entries(stage: PipelineStage) -> list[str]:
    """Where a run-cache has the entries of a stage with the command and deps of this one."""
    key = _get_stage_hash(stage)
    return ["runs", key[:2], key]


def _remote(repo: Repo):  # type: ignore[no-untyped-def]
    return repo.cloud.get_remote_odb(None, "push --run-cache", hash_name="md5-dos2unix")


def main(step: str, stage: str) -> int:
    """Send or bring what STAGE made."""
    with Repo() as repo, lock_repo(repo):
        return {"send": send, "bring": bring}[step](repo, repo.stage.collect(stage)[0])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
