"""The page: its sections, its gaps, and what a reader and a browser meet."""

import html
import re
import runpy
from pathlib import Path

import numpy as np

from rapt import paths
from rapt.attacks import ATTACKS
from rapt.grid import plan
from rapt.params import Params
from rapt.reporting import published, tables, utility_table
from rapt.reporting.claims import claims
from rapt.reporting.page import Overview, render, terms
from rapt.reporting.rows import Row
from rapt.results import predictions, reader
from rapt.results.predictions import Successes
from rapt.utils import files
from tests.conftest import ROOT
from tests.reporting import synthetic
from tests.reporting.conftest import Page, page, planned, swept, table

PROSE = runpy.run_path(str(ROOT / "docs/prose.py"))


def test_attack_that_clean_text_does_not_lift_over_its_baseline_is_called_broken(
    experiment: Params,
) -> None:
    synthetic.break_attack(planned(experiment, "mlp-tweets-clean"))
    text = page(experiment).text
    assert "mlp on tweets: author , inferred, %. broken : on clean text" in text
    broken = {r["attack"] for r in table(experiment, "privacy") if r["broken"] == "True"}
    assert broken == {"mlp"}


def test_the_strongest_attack_is_one_that_works(experiment: Params) -> None:
    def strongest(p: Params = experiment) -> Row | None:
        results = reader.load(p)
        own = (r for r in utility_table.utility(results) if (r.method, r.eta) == ("t2t", "75"))
        return tables.strongest(tables.on_words(next(own), tables.privacy(results)))

    clean = planned(experiment, "nearest-movies-clean")
    synthetic.break_attack(clean)
    found = strongest()
    assert found and found.attack == "bayes"  # which needs no clean text to be shown to work
    alone = swept(experiment, channel_inversions=[])
    assert strongest(alone) is None
    clean.path.unlink()
    assert strongest(alone) is None
    synthetic.write_cell(clean)
    found = strongest(alone)
    assert found and found.attack == "nearest"


def test_missing_cells_show_the_command_that_runs_them(experiment: Params) -> None:
    missing = ("train/movies-minilm-lora-rapt-75", "train/movies-minilm-lora-clean")
    for cell in (*missing, "invert/nearest-movies-clean"):
        Path(f"reports/cells/{cell}.json").unlink()
    text = page(experiment).text
    assert "missing dvc repro train@movies-minilm-lora-rapt-75" in text
    assert "clean text unprotected missing dvc repro train-clean@movies-minilm-lora" in text
    assert "dvc repro invert-clean@nearest-movies" in text
    assert f"3 of {len(plan(experiment))} cells are missing" in text
    assert "no cell on clean text shows yet whether the attack works" in text


def test_failed_gate_is_shown(experiment: Params) -> None:
    path = "reports/gates/private/movies/rapt-75.json"
    gate = files.read_json(path)
    gate |= {"passed": False, "replaced": []}
    gate["expectations"][0] |= {"passed": False, "failed": 3, "split": "seed-0/test"}
    files.write_json(path, gate)
    text = page(experiment).text
    assert "movies/rapt-75 FAILED: as many words as before, seed-0/test" in text
    assert "16 of 17 gates passed" in text  # of 2 tasks raw, clean and 6 releases each; of a study


def test_page_loads_nothing_and_can_be_read_aloud(whole: Params) -> None:
    text = paths.REPORT.read_text()
    read = Page(text)
    assert [load for load in read.loads if not load.startswith("#")] == []
    still = re.sub(r"<script>.*?</script>", "", text, flags=re.S)
    assert all(u.startswith(("#", "'#", '"#')) for u in re.findall(r"url\(([^)]*)\)", still))
    assert "@import" not in still
    assert not {"link", "iframe", "img"} & {tag for tag, _ in read.tags}
    ids = [a["id"] for _, a in read.tags if a.get("id")]
    assert len(ids) == len(set(ids))
    anchors = {load[1:] for load in read.loads if load.startswith("#")}
    assert anchors <= set(ids)
    figures = [a for tag, a in read.tags if tag == "svg"]
    assert figures
    assert all(a["role"] == "img" and a["aria-labelledby"] in ids for a in figures)
    assert all(a.get("scope") for tag, a in read.tags if tag == "th")


def test_every_attack_stands_in_one_table_the_strongest_in_bold(experiment: Params) -> None:
    """The strongest is surely so by the texts, of which each has ten words."""
    planned(experiment, "nearest-movies-pct2t-50").path.unlink()
    for attack, share in (("nearest", 0.19), ("bayes", 0.211), ("bayes-twice", 0.4)):
        right = np.arange(300) % 10 < 10 * share
        found = Successes([str(n) for n in range(300)], np.stack([[right, right | True]] * 2))
        predictions.write(
            planned(experiment, f"{attack}-movies-t2t-50").predictions,
            {"accuracy_protected": found},
        )
        cell = planned(experiment, f"{attack}-movies-t2t-50")
        content = synthetic.write_cell(cell)
        protected = {"accuracy_protected": synthetic.metric(share)}
        synthetic.write_cell(cell, metrics=content["metrics"] | protected)
    overview = Overview(tables.privacy(reader.load(experiment)))
    inversions, key = overview.groups[:3], ("t2t", "50")
    assert [group[0] for group in inversions] == ["nearest", "bayes", "bayes-twice"]
    assert [overview.accuracy(group, *key) for group in inversions] == [0.19, 0.211, 0.4]
    assert [overview.strongest(group, *key) for group in inversions] == [False, True, False]
    assert [overview.remarks(group) for group in inversions] == [[], [], ["with 2 releases"]]
    assert overview.accuracy(inversions[0], "pct2t", "50") is None
    text = render(reader.load(experiment), [])
    assert "<td>19.0</td>" in text
    assert "<td><b>21.1</b></td>" in text


def test_examples_mark_what_was_replaced(whole: Params) -> None:
    text, sentences = paths.REPORT.read_text(), files.read_json(synthetic.SENTENCES)
    assert sentences[0]["text"] == "the emotions are raw and will strike a nerve"
    assert "<mark>synthetic1</mark>" in text
    assert "Anna Berger, 54, was admitted on 12 March" in text
    assert len(sentences) == 10
    assert all(f"<q>{sentence['text']}</q>" in text for sentence in sentences)
    assert text.index('id="examples"') < text.index('id="claims"')


def test_text_from_files_is_escaped(experiment: Params) -> None:
    examples = files.read_json("reports/examples.json")
    examples["sentences"][0]["releases"][0]["words"][1] = "<script>alert(1)</script>"
    files.write_json("reports/examples.json", examples)
    written = render(reader.load(experiment), [])
    assert "<script>alert" not in written
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in written


def test_params_and_data_hashes_stand_in_the_report(whole: Params) -> None:
    text = paths.REPORT.read_text()
    yaml = Path("params.yaml").read_text()
    opening = '<pre tabindex="0" role="region" aria-label="params.yaml">'
    shown = re.search(rf"{opening}(.*?)</pre>", text, re.S)
    assert shown
    lines = [line for line in yaml.splitlines() if line]
    assert html.unescape(re.sub(r"</?i>", "", shown[1])).splitlines() == lines
    assert files.sha256("params.yaml") in text
    assert files.read_json("reports/gates/raw/movies.json")["sha256"]["train"] in text


def test_what_was_left_out_of_each_task_is_said(whole: Params) -> None:
    row = '<th scope="row">tweets</th><td>6,444</td><td class="left">722 excluded, 4,322 not drawn'
    assert f"{row}</td><td>1,000</td><td>400</td>" in paths.REPORT.read_text()


def test_the_papers_and_their_claims_stand_in_the_page(whole: Params) -> None:
    text = Page(paths.REPORT.read_text()).text
    # Table II: at η = inf for another setting, so it has a star and no difference.
    accuracy = files.read_json("reports/cells/train/movies-minilm-lora-clean.json")
    ours = f"{100 * accuracy['metrics']['accuracy']['mean']:.1f} ± "
    row = "accuracy movies minilm lora clean minilm inf 91.4* sst2 · bert-base-uncased, η = inf"
    assert f"{row} {ours}" in text
    results = reader.load(whole)
    assert "RAPT (arXiv 2305.06212v3), Table II: accuracy (5 of 437)" in text
    for claim in claims(results):
        assert claim.sentence in text
    command = published.joined(results)["command"].dropna().iloc[0]
    assert f"missing {command}" in text


def test_the_page_brings_the_glossary_as_the_docs_have_it(whole: Params) -> None:
    own = terms()
    assert {"T2T", "PCT2T", "cell", "gate", "η", "eta", "N_w", "prior", "π"} <= set(own)
    assert own["η"] == own["eta"]
    assert "P(y|w)" in own["channel"]
    assert not [meaning for meaning in own.values() if re.search(r"[`\\]|\]\(", meaning)]
    named = {"bayes", "nearest", "context-same", "trained-few", *ATTACKS}
    assert named <= {name.lower() for name in own}  # the page takes them in any case
    page = (ROOT / "docs/glossary.md").read_text()
    assert len(set(own.values())) == len(re.findall(r"^\| (?!term)", page, re.MULTILINE))
    assert '<script id="terms" type="application/json">{"AUC": ' in paths.REPORT.read_text()


def test_no_sentence_is_long(whole: Params) -> None:
    text = re.sub(r"(?s)<(script|style|svg|pre|q|select)\b.*?</\1>", "", paths.REPORT.read_text())
    inline = r"</?(?:a|b|br|code|i|mark|span|strong)\b[^>]*>"
    blocks = re.split(r"<[^>]*>", re.sub(inline, "", text))
    found = [
        fault
        for block in blocks
        for item in html.unescape(block).split("; ")  # the settings are lists
        for fault in PROSE["faults"](" ".join(item.split()))
        if "words, at most" in fault
    ]
    assert len(blocks) > 500
    assert found == []
