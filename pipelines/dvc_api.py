"""All of DVC's Python API that the pipeline uses: most of it is private and may move.

tests/pipelines/test_dvc_api.py names each part. This is also a program, which needs nothing but
DVC, as it runs beside the code of another snapshot:

    python dvc_api.py serve             run DVC's commands one after the other
    python dvc_api.py send STAGE        push a stage's outs, and its entry of the run-cache
    python dvc_api.py bring STAGE       fetch the outs of a stage that the remote knows
    python dvc_api.py give|take OUT …   push or fetch outs that dvc.lock names
    python dvc_api.py gather OLD NEW …  add the new entries of other lock files to dvc.lock

Outs go by DVC's own push and pull, and stages run by `dvc repro`. The rest is here for five
reasons:

- `dvc push --run-cache` succeeds even if it could not send an entry of the run-cache. It sends the
  entries before the outs, those of other stages too.
- `dvc push --run-cache` and `dvc fetch --run-cache` copy every entry there is each time, a request
  for each: too slow for a remote that holds those of many experiments.
- `dvc repro --pull` runs a stage that it cannot find. Where an entry is here already, it ignores
  those of the remote, though the outs of the local one may be lost.
- DVC trusts the content of a remote by default. Here everything is read again as it arrives. A
  damaged object stays, and DVC never sends it again: docs/scaling.md has the command that helps.
- DVC looks for paths in the working folder, so this is a program.
"""

import json
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress

import dvc.cli
import dvc.commands.repro  # here, or a slot's first stage waits for it
from dvc.exceptions import DvcException
from dvc.fs import generic
from dvc.lock import LockError
from dvc.repo import Repo, lock_repo
from dvc.repo.reproduce import plan_repro
from dvc.stage import PipelineStage
from dvc.stage.cache import RunCacheNotFoundError, _get_cache_hash, _get_stage_hash
from dvc.stage.serialize import to_single_stage_lockfile
from dvc.utils.serialize import YAMLFileCorruptedError, load_yaml, modify_yaml

__all__ = ["DvcException", "LockError", "PipelineStage", "Repo"]

# Of rapt/paths.py, which this program cannot import.
CELLS, RUNS = "reports/cells/", ".rapt/runs"
NOTHING = 3  # the exit code if no run-cache has the stage


def serve() -> None:
    """Run the commands that come in until the input ends, as DVC takes seconds to import.

    Each line of the input is a JSON object. It has the `arguments` for `dvc` or for this program,
    the path of a `log` for its output, and an `environment` for the stages. The answer is one line:
    the exit code.
    """
    # Copies, which no stage inherits: its output goes to the log, its input is empty.
    asked, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    _redirect(os.devnull, 0, os.O_RDONLY)
    for line in asked:
        order = json.loads(line)
        os.environ.update(order["environment"])
        for stream in (1, 2):
            _redirect(order["log"], stream, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        arguments = order["arguments"]
        try:
            code = main(*arguments) if arguments[0] in STEPS else dvc.cli.main(arguments)
        except Exception:  # a remote that is away is no reason to start anew
            traceback.print_exc()
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
        print(code, file=answers, flush=True)


def _redirect(path: str, stream: int, flags: int) -> None:
    file = os.open(path, flags)
    os.dup2(file, stream)
    os.close(file)


def send(repo: Repo, name: str) -> int:
    """Push a stage's outs, then its run-cache entry: a worker that finds this finds the outs."""
    stage = repo.stage.collect(name)[0]
    repo.push([name])
    here, remote = repo.cache.legacy, _remote(repo)
    for out in stage.outs:
        if (sidecar := _sidecar(out.def_path)) and os.path.isfile(sidecar):
            there = _sidecar_there(remote, out.hash_info.value)
            generic.copy(here.fs, sidecar, remote.fs, there)
    entry = [*_entries(stage), _get_cache_hash(to_single_stage_lockfile(stage))]
    to = remote.fs.join(remote.path, *entry)
    generic.copy(here.fs, here.fs.join(here.path, *entry), remote.fs, to)
    return 0


def bring(repo: Repo, name: str) -> int:
    """Fetch a stage's outs, if the run-cache here or of the remote has an entry; run nothing.

    The stage's deps must lie in the working folder. The run-cache here is asked first.
    """
    stage = repo.stage.collect(name)[0]
    if _restore(repo, stage):
        return 0
    here, remote = repo.cache.legacy, _remote(repo)
    if remote.fs.protocol == "local" and not remote.fs.isdir(remote.path):
        # Taken for an empty remote, it would have all stages run again.
        raise FileNotFoundError(
            f"remote: got {remote.path}, expected a folder that is there. Mount it, or make it."
        )
    *folders, key = _entries(stage)
    for found in remote.fs.find(remote.fs.join(remote.path, *folders, key)):
        name = remote.fs.name(found)
        entry = here.fs.join(here.path, *folders, key, name)
        generic.copy(remote.fs, found, here.fs, entry)
        whole = repo.stage_cache._load_cache(key, name)
        if whole and _get_cache_hash(dict(whole), key=True) == key:
            if _restore(repo, stage):
                _bring_sidecars(repo, whole["outs"])
                return 0
        else:  # cut off, or it names other paths, which DVC would overwrite
            with suppress(FileNotFoundError):
                os.remove(entry)
            with suppress(OSError):  # not empty; DVC cannot read an empty one
                os.rmdir(here.fs.parent(entry))
    return NOTHING


def give(repo: Repo, *outs: str) -> int:
    """Push outs that dvc.lock names."""
    repo.push(list(outs))
    return 0


def take(repo: Repo, *outs: str) -> int:
    """Fetch outs that dvc.lock names."""
    repo.pull(list(outs))
    return 0


def gather(repo: Repo, old: str, *locks: str) -> int:
    """Add the entries of other checkouts' lock files to dvc.lock, in the order of `dvc repro`.

    All began with the file `old`, so what differs from it is new. `dvc repro` would write the whole
    file once for each stage. It has to run the rest: from the first stage that has an entry in none
    of the files.
    """
    began, *others = map(_stages, (old, *locks))
    order = plan_repro(repo.index.graph, repo.stage.collect("dvc.yaml"))
    with modify_yaml("dvc.lock") as lock:
        lock.setdefault("schema", "2.0")
        own = lock.setdefault("stages", {})
        for name in (stage.name for stage in order):
            known = own.get(name)
            # Without outs: a lost stage (pipelines/cache.py) that another checkout made again.
            made = [e for each in (own, *others) if (e := each.get(name)) and e.get("outs")]
            new = [entry for entry in made if entry != began.get(name)]
            if entry := next(iter(new + made), known):
                own[name] = entry
            else:
                break
    return 0


def _stages(path: str) -> dict[str, dict[str, list[object]]]:
    """Return a lock file's entries, none where there is none or it is being written."""
    with suppress(FileNotFoundError, YAMLFileCorruptedError):
        return load_yaml(path).get("stages") or {}  # none yet, where it is being written
    return {}


def _bring_sidecars(repo: Repo, outs: list[dict[str, str]]) -> None:
    here, remote = repo.cache.legacy, _remote(repo)
    for out in outs:
        if sidecar := _sidecar(out["path"]):
            there = _sidecar_there(remote, out["md5"])
            if remote.fs.exists(there):
                generic.copy(remote.fs, there, here.fs, sidecar)


def _sidecar(out: str) -> str | None:
    """The path of a cell's sidecar: what differs between equal runs (rapt/results/cells.py)."""
    if not out.startswith(CELLS):
        return None
    return os.path.join(os.environ["RAPT_HOME"], RUNS, out.removeprefix(CELLS))


def _sidecar_there(remote, name: str) -> str:  # type: ignore[no-untyped-def]
    """The sidecar's path in the remote, by the hash of the cell."""
    return str(remote.fs.join(remote.path, "rapt", f"{name}.json"))


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


STEPS: dict[str, Callable[..., int]] = {
    "send": send,
    "bring": bring,
    "give": give,
    "take": take,
    "gather": gather,
}


def main(step: str, *names: str) -> int:
    """Do one of these, with every object read again as it arrives."""
    if step == "serve":
        serve()
        return 0
    with Repo() as repo, lock_repo(repo):
        for remote in repo.config["remote"].values():
            remote["verify"] = True
        return STEPS[step](repo, *names)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
