import base64
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.main import get_command

from rapt import defaults
from rapt.cli import app
from rapt.release.ledger import Ledger
from rapt.release.text import AGAIN, TAGGER
from rapt.serving.model import Adapted
from rapt.serving.prediction_privatizer import PredictionPrivatizer
from rapt.serving.protocol import contract_of
from rapt.text.table import EmbeddingTable
from rapt.tuning.inference_spec import Contract
from rapt.tuning.inputs import read_split
from rapt.tuning.model import load, load_backbone
from rapt.tuning.scoring import logits
from rapt.utils.errors import RaptError
from tests.conftest import ROOT, Done, Rapt
from tests.serving.conftest import PLAIN, Served

# No table holds these words: whatever mechanism gives them noise replaces them.
SECRET = "Zanzibar met Xanthippe in Ouagadougou"
PROTECTED = ("Zanzibar", "Xanthippe", "Ouagadougou")


@pytest.fixture
def rapt(rapt: Rapt, empty: Path, folder: Path) -> Iterator[Rapt]:
    """`rapt predict`, in a folder of its own."""
    shutil.copytree(folder, "models/tables/small")
    defaults.project.cache_clear()

    def run(*args: object, stdin: bytes = b"", as_told: bool = True) -> Done:
        more = ["--as-told"] if as_told and "--release" not in args else []
        done = rapt("predict", *args, *more, stdin=stdin)
        assert done.returncode in (0, 2)
        if done.returncode:  # less the server's log, and a warning
            line = re.sub(r"(?m)^(GET|POST|eta inf) .*\n", "", done.stderr)
            done = done._replace(stderr=line)
        return done

    yield run
    defaults.project.cache_clear()


def repeater(
    contract: Contract, folder: Path, eta: float = 0.1, **options: Any
) -> PredictionPrivatizer:
    return PredictionPrivatizer(contract, eta, folder, TAGGER, **options)


def test_a_local_adapter_and_its_server_give_the_same(
    adapter: Path, folder: Path, model: Adapted, served: Served, rapt: Rapt
) -> None:
    """Of words as they are: with noise no two predictions are of the same words."""
    here = rapt("--adapter", adapter, "good film", "--eta", "inf", "--json", "--show")
    there = rapt("--adapter", served.url, "good film", "--eta", "inf", "--json", "--show")
    assert here.error == there.error == ""
    assert here.stdout == there.stdout
    assert "unprotected: eta is inf" in here.stderr
    assert "unprotected: eta is inf" in there.stderr
    line = json.loads(here.stdout)
    assert line["sent"] == {"words": ["good", "film"], "segment": [0, 0], "plain": PLAIN}
    assert line["probabilities"][line["label"]] == line["probability"] > 0.5


def test_no_protected_word_is_sent(served: Served, rapt: Rapt) -> None:
    done = rapt("--adapter", served.url, SECRET, "--show")
    assert done.error == ""
    assert b'"words"' in served.received
    for word in PROTECTED:
        assert word.lower().encode() not in served.received.lower()
        assert word not in done.stdout + done.stderr
    assert "of 5 words 5 get noise" in done.stderr
    assert "at most 0.1 · 5 words = 0.5 for one text" in done.stderr
    sent = done.stdout.splitlines()[0].split("\t")[1]
    assert sent.split(" | ")[1].encode() in served.received.replace(b'","', b" ")


def test_texts_of_a_file_or_of_stdin_a_line_each(adapter: Path, rapt: Rapt) -> None:
    lines = f"{SECRET}\n\nBob met Alice at 7!\n" * 20
    Path("in.txt").write_text(lines)
    from_file = rapt("--adapter", adapter, "in.txt")
    from_stdin = rapt("--adapter", adapter, "-", "--json", stdin=lines.encode())
    assert len(from_file.stdout.splitlines()) == len(from_stdin.stdout.splitlines()) == 60
    assert all(line.split("\t")[0] in ("no", "yes") for line in from_file.stdout.splitlines())
    assert "20 become placeholders" in from_file.stderr
    assert "sent" not in json.loads(from_stdin.stdout.splitlines()[0])


def test_it_takes_the_mechanism_of_the_release(model: Adapted, folder: Path) -> None:
    """One without categories gives noise to every word, also to those that pct2t would keep."""
    how = replace(
        model.contract.statement, mechanism="tem", parameters={"beta": 0.01}, categories=None
    )
    privatize = repeater(replace(model.contract, statement=how), folder)
    sent, counts = privatize([["Quite horrifyingly Zanzibar"]])
    assert not {"Quite", "horrifyingly", "Zanzibar"} & {*sent[0].words}
    assert next(privatize.said(counts)).startswith("tem at eta 0.1 (every word): of 3 words 3 get")


def test_each_text_and_each_call_has_noise_of_its_own(model: Adapted, folder: Path) -> None:
    privatize = repeater(model.contract, folder)
    texts = [[SECRET]] * 30
    (sent, _), (again, _) = privatize(texts), privatize(texts)
    assert len({tuple(text.words) for text in [*sent, *again]}) > 40
    assert len({tuple(text.plain) for text in [*sent, *again]}) > 40


def test_vectors_are_sent_with_the_words_nearest_to_them(
    of_vectors: Path, folder: Path, rapt: Rapt
) -> None:
    """One draw of noise makes both, and no word with noise is sent as it is."""
    with Served(Adapted(of_vectors)) as served:
        lines = "\n".join([SECRET, "", SECRET])
        done = rapt("--adapter", served.url, "-", "--json", "--show", stdin=lines.encode())
    assert done.error == ""
    assert "of 10 words 10 get noise" in done.stderr
    assert not any(word.lower().encode() in served.received.lower() for word in PROTECTED)
    assert served.received.count(b'"words"') == 3
    table = EmbeddingTable(folder)
    texts = [json.loads(line)["sent"] for line in done.stdout.splitlines()]
    assert [len(text["words"]) for text in texts] == [5, 0, 5]
    assert texts[0]["words"] != texts[2]["words"]
    for text in texts:
        vectors = np.frombuffer(base64.urlsafe_b64decode(text["vectors"]), "<f4").reshape(-1, 8)
        assert (vectors * 1024 == np.round(vectors * 1024)).all()
        apart = np.linalg.norm(vectors[:, None].astype(float) - table.vectors, axis=2)
        assert [table.words[row] for row in apart.argmin(axis=1)] == text["words"]
    # Noise of eta 0.1 in 8 dimensions: 80 in the mean.
    assert 20 < np.linalg.norm(vectors, axis=1).mean() < 200


def test_without_noise_vectors_are_the_words_own(
    of_vectors: Path, folder: Path, rapt: Rapt
) -> None:
    done = rapt("--adapter", of_vectors, "great film", "--eta", "inf", "--json", "--show")
    assert done.error == ""
    assert "unprotected: eta is inf" in done.stderr
    line = json.loads(done.stdout)
    assert line["sent"]["words"] == ["great", "film"]
    vectors = np.frombuffer(base64.urlsafe_b64decode(line["sent"]["vectors"]), "<f4")
    own = EmbeddingTable(folder).embed(["great", "film"]).ravel()
    np.testing.assert_array_equal(vectors, np.round(own * 1024) / 1024)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"parameters": {"grid": 0}}, "grid: got 0, expected a number above 0."),
        ({"parameters": {"size": 1}}, "mechanism token-representation: got 'size', expected grid"),
        ({"categories": ["noun"]}, "categories: got some, expected none with mechanism token-repr"),
        ({"table_sha256": "0" * 64}, " with sha256 "),
        ({"kind": "rank"}, "adapter: kind: got 'rank', expected one of "),
    ],
)
def test_a_contract_of_vectors_that_cannot_be_is_one_line(
    of_vectors: Path, folder: Path, change: dict[str, Any], line: str
) -> None:
    contract = contract_of(of_vectors)
    if "kind" not in change:
        change = {"statement": replace(contract.statement, **change)}
    other = replace(contract, **change)
    with pytest.raises(RaptError) as error:
        repeater(other, folder)
    assert line in str(error.value)
    assert "\n" not in str(error.value)


def test_pairs_are_given_with_a_tab(of_pairs: Path, rapt: Rapt) -> None:
    with Served(Adapted(of_pairs)) as pairs:
        alone = rapt("--adapter", pairs.url, "good film")
        assert alone.error.startswith("text 1: got 1 segments, expected 2 with a tab between them")
        done = rapt("--adapter", pairs.url, "very very\tvery")
        assert done.error == ""
        assert done.stdout.split("\t")[0] in ("no", "yes")
        assert b'"segment":[0,0,1]' in pairs.received


def test_a_prediction_is_of_both_halves_of_a_pair(
    of_pairs: Path, backbone: Path, rapt: Rapt
) -> None:
    """In their order: the tuned model has the same of the release's own first four texts."""
    pairs = b"good film\tgood plot\ngood film\tbad plot\nbad film\tgood plot\nbad film\tbad plot"
    done = rapt("--adapter", of_pairs, "-", "--eta", "inf", "--json", stdin=pairs)
    assert done.error == ""
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["label"] for answer in answers] == ["yes", "no", "no", "no"]
    tokenizer = load_backbone(backbone)[1]
    split = read_split(of_pairs.parents[1] / "release/seed-0/test.parquet", tokenizer, 8)
    expected = logits(load(of_pairs, backbone), split, tokenizer.pad_token_id, 8)[:4].softmax(1)
    given = [list(answer["probabilities"].values()) for answer in answers]
    np.testing.assert_allclose(given, expected, rtol=1e-3)


def test_words_that_the_model_cannot_see_are_neither_sent_nor_counted(
    model: Adapted, folder: Path
) -> None:
    privatize = repeater(replace(model.contract, max_tokens=2), folder)
    sent, counts = privatize([["film film film bad 7"]])
    assert len(sent[0].words) == counts.words == 2
    assert privatize._made
    assert Ledger().total() == (1, 1, pytest.approx(2 * privatize._made.max_loss))


@pytest.mark.parametrize(
    ("given", "most"),
    [((9, 9), (4, 4)), ((1, 9), (1, 7)), ((9, 2), (6, 2)), ((3, 3), (3, 3)), ((8, 0), (8, 0))],
)
def test_the_halves_of_a_pair_share_the_words_that_the_model_can_see(
    given: tuple[int, int], most: tuple[int, int], model: Adapted, folder: Path
) -> None:
    privatize = repeater(replace(model.contract, max_tokens=8, segments=2), folder)
    (sent,), counts = privatize([[" ".join(["film"] * n) for n in given]])
    assert (sent.segment.count(0), sent.segment.count(1)) == most
    assert counts.words == sum(most)


def test_a_level_that_protects_nothing_is_refused(model: Adapted, folder: Path) -> None:
    """A provider may claim any η: --as-told does not send words as they are."""
    with pytest.raises(RaptError, match=r"^eta: got 1e\+09, which replaces 0% of the protected"):
        repeater(model.contract, folder, eta=1e9)


@pytest.mark.parametrize("of", ["adapter", "of_vectors"])
def test_the_ledger_counts_what_is_sent(
    of: str, rapt: Rapt, folder: Path, request: pytest.FixtureRequest
) -> None:
    """5 words; a text that was sent before is told, and refused beyond the budget."""
    options = ("--adapter", request.getfixturevalue(of), SECRET)
    contract = contract_of(options[1])
    assert AGAIN not in rapt(*options).stderr
    made = repeater(contract, folder)._made
    assert made
    nats = made.max_loss
    assert Ledger().total() == (1, 1, pytest.approx(5 * nats))
    refused = rapt(*options, "--budget", 9 * nats)
    assert refused.error.splitlines()[-1].startswith("budget: got ") and refused.stdout == ""
    assert Ledger().total()[1] == 1
    assert AGAIN in rapt(*options, "--budget", 11 * nats).stderr


def test_any_of_the_plain_sequences_is_taken(model: Adapted, folder: Path) -> None:
    contract = replace(model.contract, plain=[["film"], ["saw"]])
    sent, _ = repeater(contract, folder, eta=1e6, language="any", allow_weak=True)([["film"]] * 60)
    assert {tuple(text.plain) for text in sent} == {("film",), ("saw",)}


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (["film", "--adapter", "http://127.0.0.1:1"], "got no answer (Connection refused)"),
        (["film", "--adapter", "http://127.0.0.1:x"], "got no answer (ValueError), expected"),
        (["film", "--adapter", "http://[::1"], "got no answer (ValueError), expected"),
        (["film", "--adapter", "nothing"], "adapter: got 'nothing', which holds no rapt.json"),
        (["film", "--adapter", "URL/elsewhere"], "got status 404 (Not Found), expected 200."),
        (["film", "--adapter", "ADAPTER", "--table", "no"], "table: got 'no', expected a folder"),
        (["film", "--adapter", "ADAPTER", "--table", "other"], "table: got 'other' with sha256 "),
        (["film", "--adapter", "ADAPTER", "--eta", "0"], "eta: got '0', expected a number above 0"),
        (["film", "--adapter", "ADAPTER", "--eta", "nan"], "eta: got 'nan', expected a number"),
        (["missing.txt", "--adapter", "ADAPTER"], "missing.txt: got no such file"),
        (["empty", "--adapter", "ADAPTER"], "empty: got no lines"),
        (
            ["film", "--adapter", "ADAPTER", "--release", "no"],
            "release: got 'no', expected a release",
        ),
        (
            ["film", "--adapter", "URL", "--release", "release"],
            "categories: got another one in the adapter than in release, expected the same.",
        ),
    ],
)
def test_what_is_not_allowed_is_one_line(
    adapter: Path, folder: Path, served: Served, rapt: Rapt, args: list[str], line: str
) -> None:
    shutil.copytree(folder, "other")
    Path("other/words.json").write_text(Path("other/words.json").read_text() + "\n")
    Path("empty").touch()
    Path("release").mkdir()
    statement = json.loads((adapter / "rapt.json").read_text())["statement"]
    Path("release/statement.json").write_text(json.dumps(statement | {"categories": ["noun"]}))
    given = [a.replace("ADAPTER", str(adapter)).replace("URL", served.url) for a in args]
    done = rapt(*given)
    assert line in done.error
    assert "\n" not in done.error
    assert done.stdout == ""
    assert b'"words"' not in served.received


def test_a_provider_elsewhere_is_held_to_a_release_or_trusted(served: Served, rapt: Rapt) -> None:
    done = rapt("--adapter", served.url, SECRET, as_told=False)
    assert done.error.startswith("release: got none, expected the folder of your own release with ")
    assert b'"words"' not in served.received


@pytest.mark.parametrize(
    "change",
    [
        {"embedding": "../../other"},
        {"table_sha256": "\x1b[2J"},
        {"parameters": {"type": 1}},
        {"labels": ["no", "a\x1b[2Jb"]},
    ],
)
def test_a_provider_names_no_folder_and_no_screen(
    model: Adapted, rapt: Rapt, change: dict[str, Any]
) -> None:
    contract = model.contract
    if "labels" not in change:
        change = {"statement": replace(contract.statement, **change)}
    with Served(SimpleNamespace(contract=replace(contract, **change))) as sly:
        done = rapt("--adapter", sly.url, SECRET)
        assert re.match(rf"adapter {re.escape(sly.url)}: \S+: got .*, expected ", done.error)
        assert done.error.isprintable()
        assert b'"words"' not in sly.received


@pytest.mark.parametrize("eta", ["inf", "Infinity", "+INF", "1e999", "nan"])
def test_a_provider_cannot_have_words_as_they_are(model: Adapted, rapt: Rapt, eta: str) -> None:
    """It says how to privatize; but inf has to be the user's own word."""
    contract = replace(model.contract, statement=replace(model.contract.statement, eta=eta))
    with Served(SimpleNamespace(contract=contract, answer=model.answer)) as greedy:
        done = rapt("--adapter", greedy.url, SECRET)
        assert done.error.startswith("eta: got none, expected one, as the adapter was tuned on unp")
        assert b"Zanzibar" not in greedy.received
        assert rapt("--adapter", greedy.url, SECRET, "--eta", "0.1").error == ""
        assert b"Zanzibar" not in greedy.received
        assert rapt("--adapter", greedy.url, SECRET, "--eta", "inf").error == ""
        assert b"Zanzibar" in greedy.received


def test_the_commands_of_the_docs_are_ones_that_there_are() -> None:
    pages = [
        (ROOT / page).read_text()
        for page in ("docs/predict.md", "docs/private-prediction.md", "README.md")
    ]
    lines = re.findall(r"^ *rapt ((?:predict|serve) .*)$", "\n".join(pages), re.MULTILINE)
    assert len(lines) == 10
    commands = get_command(app).commands  # type: ignore[attr-defined]
    for line in lines:
        name, *args = shlex.split(line.split(" - <")[0] + " -" * (" - <" in line), comments=True)
        commands[name].make_context(name, args)


@pytest.mark.slow
def test_from_one_terminal_to_another(adapter: Path, rapt: Rapt, tmp_path: Path) -> None:
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from rapt.cli import main; main()"
    server = subprocess.Popen(
        [sys.executable, "-c", code, "serve", "--adapter", str(adapter), "--port", "0"],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stderr
        said = server.stderr.readline()
        assert "privatized words alone" in said
        url = said.split(" at ")[1].split(",")[0]
        asked = [sys.executable, "-c", code, "predict", "--adapter", url, "--as-told", "--show"]
        done = subprocess.run([*asked, SECRET], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        sent, answer = done.stdout.splitlines()
        assert sent.startswith("sent\t")
        assert answer.split("\t")[0] in ("no", "yes")
        assert "each prediction spends privacy" in done.stderr
    finally:
        server.terminate()
        log = server.communicate()[1]
    assert "POST /predict 200" in log
    assert not any(word in log for word in PROTECTED)
