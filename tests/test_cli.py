"""The `rapt` command as a user types it."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from dvc.repo import Repo

from rapt import __version__, cli, defaults, options, params
from rapt.attacks import ATTACKS
from rapt.privacy.categories import CATEGORIES, SETS
from rapt.privacy.channel import estimate
from rapt.privacy.mechanisms import MECHANISMS, T2T
from rapt.privacy.privatizer import Privatizer
from rapt.release.formats import FORMATS
from rapt.text.table import EmbeddingTable
from tests.conftest import ROOT, Rapt


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    shutil.copy(ROOT / "params.yaml", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    defaults.project.cache_clear()
    yield tmp_path
    defaults.project.cache_clear()


def test_help_and_version_are_quick(rapt: Rapt) -> None:
    """Slow imports are left to the commands that need them."""
    for args in ("--version",), ("-h",), ("privatize", "-h"), ("results", "--help"):
        done = rapt(*args)
        assert done.returncode == 0, done.stderr
    assert rapt("--version").stdout == f"rapt {__version__}\n"
    code = "import sys, rapt.cli; print({'numpy', 'pydantic', 'ruamel'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_help_names_what_is_allowed() -> None:
    assert set(re.findall(r"[a-z]+", options.CATEGORIES)) - {"or", "alone"} == {
        *CATEGORIES,
        *SETS,
        "all",
    }
    words = [name for name, kind in MECHANISMS.items() if kind.releases.has_channel]
    assert options.MECHANISMS.split(", ") == words
    assert options.FORMATS.split(", ") == [*FORMATS]


def test_commands_stand_in_groups() -> None:
    panels = [command.rich_help_panel for command in cli.app.registered_commands]
    assert list(dict.fromkeys(panels)) == [cli.TEXT, cli.EXPERIMENT, cli.PROVIDER, cli.INSIDE]


def test_shells_complete_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_RAPT_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "rapt pri")
    monkeypatch.setenv("COMP_CWORD", "1")
    code = "import sys; sys.argv[0] = 'rapt'; from rapt.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["privatize"]


def test_a_missing_extra_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, extra in ("peft", "tune"), ("mlflow", "pipeline"):
        monkeypatch.setattr(cli, "app", lambda name=module: import_module(f"{name}.missing"))
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(SystemExit, match=rf"^{module}: .*pip install 'rapt\[{extra}\]'$"):
            cli.main()


@pytest.mark.slow
def test_json_is_for_programs(workspace: Path, rapt: Rapt) -> None:
    checked = json.loads(rapt("check", "--json").stdout)
    assert checked["valid"] and checked["seeds"] == params.load().seeds
    planned = json.loads(rapt("plan", "--json").stdout)
    assert len(planned["cells"]) == sum(checked["cells"].values())
    assert planned["stages"]["validate"] == {"stages": 1, "seconds": None}
    found = json.loads(rapt("results", "--json").stdout)
    assert len(found["missing"]) == len(planned["cells"])
    assert len(found["utility"]) == checked["cells"]["train"] + checked["cells"]["study"]
    assert found["utility"][0]["accuracy"] is None
    Path("params.yaml").write_text("seed: [")
    done = rapt("check", "--json")
    assert done.returncode == 2
    wrong = json.loads(done.stdout)
    assert not wrong["valid"] and wrong["problems"][0].startswith(
        "params.yaml: got what is not YAML ("
    )


@pytest.mark.slow
def test_presets_are_listed_written_and_planned(workspace: Path, rapt: Rapt) -> None:
    shutil.copytree(ROOT / "presets", "presets")
    listed = rapt("preset")
    assert listed.returncode == 0, listed.stderr
    assert "\npaper-nlu-bert  195 cells, -\n  RAPT's Table II on BERT-base: " in listed.stdout
    assert max(map(len, listed.stdout.splitlines())) <= 80
    written = rapt("preset", "study-length")
    assert written.returncode == 0, written.stderr
    assert written.stdout == "params.yaml is study-length; next: rapt plan, rapt check\n"
    assert "params.yaml is valid: 12 cells" in rapt("check").stdout
    planned = rapt("plan")
    assert planned.returncode == 0, planned.stderr
    assert "params.yaml: 12 cells" in planned.stdout
    other = rapt("plan", "sst2-minilm", "--rows", "sst2=2000")
    assert "Time unknown: nothing has run here." in other.stdout


def test_attacks_are_listed_with_what_each_attacker_knows(workspace: Path, rapt: Rapt) -> None:
    listed = rapt("attacks")
    assert listed.returncode == 0, listed.stderr
    facts = [" ".join(attack.split()) for attack in re.split(r"\n\s*\n", listed.stdout.strip())]
    for fact, kind in zip(facts, ATTACKS.values(), strict=True):
        (name,) = get_args(kind.model_fields["type"].annotation)
        assert fact.startswith(f"{name} ")
        assert f" knows {kind.attacker_knowledge} listed in sweep." in fact


def test_check_says_what_will_run(workspace: Path, rapt: Rapt) -> None:
    done = rapt("check")
    assert done.returncode == 0
    assert "params.yaml is valid" in done.stdout
    assert "`clean` is the original words: it stays on this machine" in done.stdout


def test_init_adds_a_valid_task(workspace: Path, rapt: Rapt) -> None:
    rows = "\n".join(f"a fine sentence number {i},{i % 2}" for i in range(200))
    Path("presets").symlink_to(ROOT / "presets")
    Path("my reviews.csv").write_text(f"review,stars\n{rows}\n")
    done = rapt("init", "my reviews.csv", "--text", "review", "--label", "stars")
    assert done.returncode == 0, done.stderr
    assert "Next: make repro" in done.stdout
    assert "params.yaml is valid: 9 cells" in rapt("check").stdout
    named = rapt("init", "my reviews.csv", "--name", "second", "--text", "review")
    assert named.returncode == 0, named.stderr
    again = rapt("init", "my reviews.csv")
    assert again.returncode == 2
    assert again.stderr.count("\n") == 1


def test_calibrate_gives_an_eta_that_does_as_it_says(
    workspace: Path, table: EmbeddingTable, rapt: Rapt
) -> None:
    claim = "t2t replaces 50.0% of the protected words of public text, with tiny"
    shutil.copytree(table.folder, "tiny")
    done = rapt("calibrate", "--replaced", "0.5", "--table", "tiny", "--draws", "100")
    assert done.returncode == 0, done.stderr
    line = done.stdout.splitlines()[0]
    found = re.fullmatch(rf"eta (\S+) \((\S+) to (\S+)\): {re.escape(claim)}\.", line)
    assert found, line
    eta, low, high = map(float, found.groups())
    assert low < eta < high
    channel = estimate(Privatizer(table=table, mechanism=T2T(), eta=eta), range(18), 1000, 1)
    # 300 words with a spread below 0.3: a standard error of at most 0.02 in all, five of them.
    assert abs(np.average(channel.replaced, weights=table.frequency) - 0.5) < 0.1


def test_calibrate_knows_categories_and_other_mechanisms(
    workspace: Path, table: EmbeddingTable, rapt: Rapt
) -> None:
    shutil.copytree(table.folder, "models/tables/minilm")
    for name, how in (
        ("pct2t", ("--categories", "noun,verb")),
        ("vickrey", ("--mechanism", "vickrey")),
    ):
        done = rapt("calibrate", "--replaced", "0.7", "--draws", "20", *how)
        assert done.returncode == 0, done.stderr
        assert f"{name} replaces 70.0% of the protected words of public text" in done.stdout


@pytest.mark.slow
def test_calibrate_finds_what_an_attacker_recovers_at_most(
    workspace: Path, table: EmbeddingTable, rapt: Rapt
) -> None:
    shutil.copytree(table.folder, "models/tables/minilm")
    done = rapt("calibrate", "--recovered", "0.6", "--draws", "20")
    found = re.search(r"eta \S+: of t2t on .* recovers (\S+)% .* at most (\S+)%\.", done.stdout)
    assert found, done.stderr
    assert float(found[1]) < float(found[2]) <= 60
    done = rapt("calibrate", "--recovered", "0.01", "--draws", "20")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("--recovered: got 0.01, expected more: at no eta is the upper")


@pytest.mark.slow
def test_calibrate_takes_one_s_own_text_and_shows_none_of_it(
    workspace: Path, table: EmbeddingTable, rapt: Rapt
) -> None:
    """Of 2,000 nouns a quarter is unknown: three in four have to be replaced in 2 of 3 draws."""
    shutil.copytree(table.folder, "tiny")
    rows = [f"nouna {number},nounb nounb secretword nounc" for number in range(500)]
    Path("mine.csv").write_text("\n".join(["id,said", *rows]) + "\n")
    common = ("calibrate", "--table", "tiny", "--text", "mine.csv", "--column", "said")
    done = rapt(*common, "--replaced", "0.75", "--draws", "1000")
    assert done.returncode == 0, done.stderr
    head, known, protected, every, how, private = done.stdout.splitlines()
    eta = float(
        re.match(r"eta (\S+) \(.*\): t2t replaces 75.0% .* words of mine.csv, with tiny\.$", head)[
            1
        ]
    )
    at = Privatizer(table=table, mechanism=T2T(), eta=eta)
    channel = estimate(at, [1, 2], 4000, 1)
    assert abs(np.average(channel.replaced, weights=[2, 1]) - 2 / 3) < 0.05
    assert known.startswith("  66.7% (") and protected.startswith("  75.0% (")
    assert every.startswith("  75.0% (") and "95 % for this text" in how
    assert private.startswith("These figures are of your text, and reveal a little of it")
    assert not re.search("secret|noun[abc]", done.stdout + done.stderr)
    for more, line in (
        (("--replaced", "0.2"), "--replaced: got 0.2, expected more than 0.25. "),
        (("--replaced", "0.5", "--column", "other"), "mine.csv: column: got 'other', "),
    ):
        done = rapt(*common, *more)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(line), done.stderr
        assert done.stderr.count("\n") == 1 and "secret" not in done.stderr


OWN = ("--replaced", "0.5", "--table", "tiny", "--text", "mine.csv")


@pytest.mark.parametrize(
    ("args", "line"),
    [
        ((), "rapt calibrate: got 0 of --replaced and --recovered, expected one."),
        (
            ("--replaced", "0.5", "--recovered", "0.5"),
            "rapt calibrate: got 2 of --replaced and --recovered, expected one.",
        ),
        (("--replaced", "1.5"), "--replaced: got 1.5, expected a number above 0 and below 1."),
        (("--recovered", "0"), "--recovered: got 0.0, expected a number above 0 and below 1."),
        (
            ("--replaced", "0.999", "--table", "tiny"),
            "eta: got none small enough, expected one where t2t replaces 99.9%",
        ),
        ((*OWN, "--encoding", "utf-9"), "encoding: got 'utf-9', expected the name of an encoding"),
        ((*OWN, "--delimiter", "ab"), "delimiter: got 'ab', expected one character, as ;, or tab."),
        (
            (*OWN, "--no-header", "--column", "said"),
            "mine.csv: column: got 'said', expected one of ",
        ),
        ((*OWN, "--column", "said", "--column", "said"), "mine.csv: got no word, expected texts."),
    ],
)
def test_calibrate_ends_with_the_one_line(
    workspace: Path, table: EmbeddingTable, args: tuple[str, ...], line: str, rapt: Rapt
) -> None:
    shutil.copytree(table.folder, "tiny")
    Path("mine.csv").write_text("id,said\n1,\n")
    done = rapt("calibrate", *args)
    assert done.returncode == 2
    assert done.stderr.startswith(line)
    assert done.stderr.count("\n") == 1


def test_clean_removes_what_is_no_longer_planned(workspace: Path, rapt: Rapt) -> None:
    Path("dvc.yaml").write_text(
        "stages:\n  make:\n    matrix:\n      x: ${xs}\n"
        "    cmd: mkdir -p data && echo ${item.x} > data/${item.x}\n"
        "    outs:\n      - data/${item.x}:\n          cache: false\n"
    )
    Path("params.yaml").write_text("xs: [a, b]\n")
    with Repo.init(no_scm=True) as repo:
        repo.reproduce()
        assert "make@b" in Path("dvc.lock").read_text()
        Path("params.yaml").write_text("xs: [a]\n")
        done = rapt("clean")
        assert done.returncode == 0, done.stderr
        assert done.stdout == "removed data/b\n"
        assert [path.name for path in Path("data").iterdir()] == ["a"]
        assert "make@b" not in Path("dvc.lock").read_text()
    with Repo() as repo:
        assert not repo.status()


def test_clean_keeps_what_lies_within_an_out_of_a_stage_that_stays_or_holds_it(
    workspace: Path, rapt: Rapt, monkeypatch: pytest.MonkeyPatch
) -> None:
    outs = {"stays": ["data/all", "data/one"], "gone": ["data/all/a", "data/one", "data/b"]}
    outs["stays"].append("data/above/c")
    outs["gone"].append("data/above")
    entries = {name: {"outs": [{"path": path} for path in of]} for name, of in outs.items()}
    Path("dvc.lock").write_text(json.dumps({"stages": entries}))
    for path in map(Path, ("data/all/a", "data/one", "data/b", "data/above/c")):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    monkeypatch.setattr("rapt.commands.clean._stages", lambda: {"stays"})
    assert rapt("clean").stdout == "removed data/b\n"
    assert {path.name for path in Path("data").rglob("*")} == {"all", "a", "one", "above", "c"}
    assert rapt("clean").stdout == ""
