"""Tables and figures of RAPT (arXiv 2305.06212, third version)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rapt.grid import CLEAN, is_unprotected
from rapt.params import Method, Params
from rapt.reporting import tables
from rapt.reporting.papers import setup_differences
from rapt.reporting.papers.published_values import (
    BERT,
    UNPRINTED,
    Own,
    Printed,
    beside,
    embedding_name,
    own,
    read,
    replaced_by,
    tuned,
    tuner_name,
    varied,
    with_preset,
)
from rapt.reporting.papers.table import PaperRow, PaperTable
from rapt.reporting.tables import Privacy, Utility
from rapt.results.reader import Cell, Json, Results

if TYPE_CHECKING:  # the report runs no attack
    from rapt.attacks import AnyAttack

RAPT = "RAPT (arXiv 2305.06212v3)"
TUNED = ("task", "backbone", "tuner", "method", "eta")
METHODS = ("t2t", "pct2t", "rapt")
FOUR = "noun, verb, pronoun, preposition"
SCHEMES = (
    *("noun", "verb", "pronoun", "preposition", "adjective", "symbol", "determiner"),
    *("conjunction", FOUR, "all"),
)
ON_BERT = replace(setup_differences.RAPT, tasks=("sst2",), backbones=(BERT,))
ON_QWEN = replace(setup_differences.RAPT, tasks=("sst2",), backbones=("qwen2.5-3b",))
LARGE = replace(setup_differences.RAPT, tasks=("sst2",), backbones=("llama3-8b", "mistral-7b"))
ACCURACY, PRIVACY = "accuracy, %", "empirical privacy, %"
ATTACKS = "invert infer"
ONE_CLEAN = (
    "On clean text, η = inf, the paper has a number for each method; ours is one, beside T2T's."
)
GENERATION = "WebNLG is a task of generating text, which nothing here runs; its values are BLEU."
PRESETS = {BERT: "paper-nlu-bert", "qwen2.5-3b": "paper-nlu-qwen"}


def tables_of(results: Results, benchmarks: Json | None) -> list[PaperTable]:
    """Return all tables and figures, in the paper's order, tables first."""
    return [
        _utility(results),
        _replacement(results),
        _embeddings(results),
        _prefix_length(results),
        _choice(results),
        _objective(results),
        _large(results),
        _overhead(benchmarks),
        _attacks(results),
        plain_length(results),
        categories(results),
        _trade_off(results),
        _layers(results),
    ]


def _utility(results: Results) -> PaperTable:
    """Build Table II."""
    planned = [
        own(results, cell, "accuracy", TUNED)
        for cell in tuned(results)
        if cell.factors["method"] in (*METHODS, CLEAN)
    ]
    printed = [
        _printed(row, TUNED, None if row["task"] == "tpuk" else PRESETS[row["backbone"]])
        for row in read("utility.csv")
        if (row["source"], row["table"]) == ("rapt-v3", "II")
    ]
    return PaperTable(
        name="rapt-table-2",
        title="Accuracy by tuning method, way of privatizing and η",
        source=f"{RAPT}, Table II",
        unit=ACCURACY,
        differs=setup_differences.trained(results.params, setup_differences.RAPT),
        columns=TUNED,
        rows=beside(printed, planned),
        note="TP-UK is not public: the preset paper-nlu-bert says how to take in a copy. "
        f"{ONE_CLEAN}",
    )


def _replacement(results: Results) -> PaperTable:
    """Build Table III."""
    params = results.params
    printed = {eta: round(100 * share, 4) for eta, share in replaced_by(BERT).items()}
    rows = []
    met = False
    for name, content in results.calibrations.items():
        of_paper = embedding_name(params, name) == BERT
        met |= of_paper
        shares = (
            {p["eta"]: 100 * p["replaced"] for p in content["curves"]["t2t"]} if content else {}
        )
        for eta in params.calibrate.etas:
            shown = printed.get(eta)
            rows.append(
                PaperRow(
                    factors={"embedding": name, "eta": eta},
                    published=shown,
                    beside=None if of_paper or shown is None else f"{BERT} at the same η",
                    mean=shares.get(eta),
                    command=f"dvc repro calibrate@{name}",
                )
            )
    rows += [
        PaperRow(
            {"embedding": BERT, "eta": eta},
            value,
            command=with_preset("paper-nlu-bert", "calibrate"),
        )
        for eta, value in printed.items()
        if not met
    ]
    return PaperTable(
        name="rapt-table-3",
        title="Words that T2T replaces, by η",
        source=f"{RAPT}, Table III",
        unit="words replaced, %",
        differs=setup_differences.privatized(params, setup_differences.RAPT),
        columns=("embedding", "eta"),
        rows=tuple(rows),
    )


def _embeddings(results: Results) -> PaperTable:
    """Build Table V."""
    params = results.params
    columns = ("setting", *TUNED)
    planned = [
        replace(row, printed_as={**row.printed_as, "setting": row.embedding})
        for cell in tuned(results)
        if cell.factors["method"] == "rapt"
        for row in [own(results, cell, "accuracy", columns, setting=cell.factors["embedding"])]
    ]
    printed = [
        Printed(
            factors={
                "setting": row["embedding"],
                "task": "sst2",
                "backbone": BERT,
                "tuner": "prefix",
                "method": "rapt",
                "eta": row["eta"],
            },
            value=float(row["accuracy_sst2"]),
            embedding=row["embedding"],
            replaced=float(row["replacement_probability"]),
            command=with_preset("paper-nlu-bert", "train") if row["embedding"] == BERT else None,
        )
        for row in read("replacement.csv")
        if row["accuracy_sst2"]
    ]
    return PaperTable(
        name="rapt-table-5",
        title="Accuracy by the embedding model whose table privatizes, at η that replace alike",
        source=f"{RAPT}, Table V",
        unit=ACCURACY,
        differs=setup_differences.trained(params, ON_BERT),
        columns=columns,
        rows=beside(printed, varied(planned, printed)),
        note="Setting is the embedding model. Another one than BERT's: name it in embeddings and "
        "in a study.",
    )


def _prefix_length(results: Results) -> PaperTable:
    """Build Table VI."""

    def tokens(params: Params, cell: Cell) -> str | None:
        tuner = params.tuners[cell.factors["tuner"]]
        rebuilt = _part(params.method(cell.factors["method"])) == "rapt"
        return str(tuner.tokens) if tuner.type == "prefix-tuning" and rebuilt else None

    return _study(
        results,
        "VI",
        setting=tokens,
        preset="paper-study-prefix-length",
        name="rapt-table-6",
        title="Accuracy by the length of the prefix",
        note="Setting is the number of virtual tokens.",
    )


def _choice(results: Results) -> PaperTable:
    """Build Table VII."""

    def choice(params: Params, cell: Cell) -> str | None:
        method = params.method(cell.factors["method"])
        return method.plain_tokens.choice if method.plain_tokens else None

    return _study(
        results,
        "VII",
        setting=choice,
        preset="paper-study-choice",
        name="rapt-table-7",
        title="Accuracy by how plain tokens are drawn",
        note="Setting is the choice of plain tokens. The preset has BERT; the paper's backbone is "
        f"a line of it. {GENERATION}",
    )


def _objective(results: Results) -> PaperTable:
    """Build Table VIII."""
    return _study(
        results,
        "VIII",
        setting=lambda params, cell: _part(params.method(cell.factors["method"])),
        preset="paper-study-objective",
        name="rapt-table-8",
        title="What plain tokens and their reconstruction bring",
        note="Without plain tokens there is nothing to reconstruct here: that row is PCT2T. The "
        f"preset has BERT; the paper's backbone is a line of it. {GENERATION}",
    )


def _study(
    results: Results,
    numeral: str,
    *,
    setting: Callable[[Params, Cell], str | None],
    preset: str,
    name: str,
    title: str,
    note: str,
) -> PaperTable:
    """Build the table of a study; `setting` returns None for cells that are not part of it."""
    params = results.params
    columns = ("setting", *TUNED)
    planned = [
        replace(row, printed_as={**row.printed_as, "method": "rapt"})
        for cell in tuned(results)
        if (given := setting(params, cell)) is not None
        for row in [own(results, cell, "accuracy", columns, setting=given)]
    ]
    printed = [
        _printed({**row, "method": "rapt"}, columns, preset)
        if row["metric"] == "accuracy"
        else _generated({**row, "method": "rapt"}, columns)
        for row in read("ablations.csv")
        if (row["source"], row["table"]) == ("rapt-v3", numeral)
    ]
    return PaperTable(
        name=name,
        title=title,
        source=f"{RAPT}, Table {numeral}",
        unit=ACCURACY,
        differs=setup_differences.trained(params, ON_BERT if numeral == "VI" else ON_QWEN),
        columns=columns,
        rows=beside(printed, varied(planned, printed)),
        note=note,
    )


def _part(method: Method) -> str | None:
    """Return the row of Table VIII, a variant of RAPT, that a method is; None: none."""
    if not method.categories:
        return None
    if method.reconstruction:
        return "rapt"
    return "without_reconstruction" if method.plain_tokens else "without_plain_tokens"


def _large(results: Results) -> PaperTable:
    """Build Table IX."""
    params = results.params
    planned = [
        own(results, cell, "accuracy", TUNED)
        for cell in tuned(results)
        if cell.factors["method"] in (*METHODS, CLEAN)
        and tuner_name(params, cell.factors["tuner"]) == "qlora"
    ]
    printed = [
        _printed(row, TUNED, "paper-llm")
        for row in read("utility.csv")
        if (row["source"], row["table"]) == ("rapt-v3", "IX")
    ]
    return PaperTable(
        name="rapt-table-9",
        title="Accuracy of large models tuned by QLoRA",
        source=f"{RAPT}, Table IX",
        unit=ACCURACY,
        differs=setup_differences.trained(params, LARGE),
        columns=TUNED,
        rows=beside(printed, planned),
        note=ONE_CLEAN,
    )


def _overhead(benchmarks: Json | None) -> PaperTable:
    """Build Table X."""
    found = {row["name"]: row["value"] for row in (benchmarks or {}).get("edge", [])}
    rows = []
    for row in read("edge_overhead.csv"):
        words = f"{int(row['words']):,}"
        measures = (
            ("time, s", "seconds_per_sequence", f"time, {words} words"),
            (
                "peak memory, MiB",
                "peak_memory_mb",
                f"peak memory over the interpreter, {words} words",
            ),
            ("rapt privatize: time, s", None, f"time of rapt privatize, {words} words"),
            ("rapt privatize: memory, MiB", None, f"peak memory of rapt privatize, {words} words"),
        )
        rows += [
            PaperRow(
                factors={"words": words, "measure": measure},
                published=float(row[column]) if column else None,
                beside="Raspberry Pi 4" if column else None,
                mean=next((v for name, v in found.items() if name.startswith(begins)), None),
                command="make benchmark",
            )
            for measure, column, begins in measures
        ]
    machine = (benchmarks or {}).get("machine", {})
    here = f"{machine['cores']} cores of {machine['cpu']}" if machine else "the machine it ran on"
    return PaperTable(
        name="rapt-table-10",
        title="Time and memory of privatizing",
        source=f"{RAPT}, Table X",
        unit="s and MiB",
        differs=f"Here {here}, one thread: of words that are tagged already, and of the command "
        "rapt privatize from its start, spaCy and its tagging among it; in the paper a "
        "Raspberry Pi 4.",
        columns=("words", "measure"),
        rows=tuple(rows),
        note="Times belong to a machine: they stand in stamped copies alone (rapt report --stamp).",
    )


def _attacks(results: Results) -> PaperTable:
    """Build Figure 4, with the Bayesian attacks on one release."""
    params = results.params
    rows = [
        _attack_row(row)
        for row in tables.privacy(results)
        if row.method in (*METHODS, CLEAN)
        and ("RAPT, figure 4" in (attack := params.attacks[row.attack]).source or _bayesian(attack))
    ]
    return PaperTable(
        name="rapt-figure-4",
        title="Empirical privacy against the papers' attacks and the Bayesian one, by η",
        source=f"{RAPT}, Figure 4",
        unit=PRIVACY,
        differs=setup_differences.attacked(params, setup_differences.ATTACKED),
        columns=("attack", "task", "target", "method", "eta"),
        rows=tuple(rows)
        or _unplanned("attack", ("nearest", "mlp-words", "mlp"), "attacks", ATTACKS),
        note=f"The paper has no Bayesian attack. {UNPRINTED}",
    )


def _bayesian(attack: AnyAttack) -> bool:
    """Whether an attack is a Bayesian one on a single release."""
    return attack.type == "bayesian" and not attack.given


def plain_length(results: Results) -> PaperTable:
    """Build Figure 5 as a table; figures.py draws it."""
    params = results.params
    columns = ("setting", *TUNED)
    planned = [
        own(results, cell, "accuracy", columns, setting=str(length))
        for cell in tuned(results)
        if (length := _length(params.method(cell.factors["method"]))) is not None
    ]
    several = len({row.factors["setting"] for row in planned}) > 1
    rows = [_unprinted(row) for row in planned if several]
    return PaperTable(
        name="rapt-figure-5",
        title="Accuracy by the number of plain tokens",
        source=f"{RAPT}, Figure 5",
        unit=ACCURACY,
        differs=setup_differences.trained(params, ON_BERT),
        columns=columns,
        rows=tuple(rows)
        or _unplanned("setting", ("10", "20", "40", "80"), "study-length", "train"),
        note=f"Setting is the number of plain tokens, each with its reconstruction. {UNPRINTED}",
    )


def _length(method: Method) -> int | None:
    """Return the number of reconstructed plain tokens: 0 for PCT2T; None: another method."""
    part = _part(method)
    if part == "without_plain_tokens":
        return 0
    return method.plain_tokens.length if part == "rapt" and method.plain_tokens else None


def categories(results: Results) -> PaperTable:
    """Build Figures 6, 8 and 10 as a table; figures.py draws them."""
    params = results.params
    schemes = {
        name: ", ".join(method.categories)
        for name, method in params.methods.items()
        if method.categories and not method.plain_tokens
    }
    found = [
        replace(shown, factors={"setting": schemes[row.method], **shown.factors})
        for row in tables.privacy(results)
        if row.method in schemes
        for shown in [_attack_row(row)]
    ]
    several = len({row.factors["setting"] for row in found}) > 1
    return PaperTable(
        name="rapt-figures-6-8-10",
        title="Empirical privacy by the categories that are replaced",
        source=f"{RAPT}, Figures 6, 8 and 10",
        unit=PRIVACY,
        differs=setup_differences.attacked(params, setup_differences.ATTACKED),
        columns=("setting", "attack", "task", "target", "method", "eta"),
        rows=tuple(found)
        if several
        else _unplanned("setting", SCHEMES, "attacks-categories", ATTACKS),
        note=f"Setting is the list of categories. {UNPRINTED}",
    )


def _trade_off(results: Results) -> PaperTable:
    """Build Figure 7."""
    privacy = tables.privacy(results)
    rows = []
    for row in tables.utility(results):
        if not row.on_grid:
            continue
        factors = {name: getattr(row, name) for name in ("task", "backbone", "tuner")}
        factors |= {"method": row.label, "eta": row.eta}
        rows += [
            PaperRow(
                {**factors, "measure": "accuracy"},
                mean=_hundred(row.accuracy),
                sd=_hundred(row.accuracy_sd),
                n=row.seeds,
                command=row.command,
            ),
            _strongest({**factors, "measure": "empirical privacy"}, row, privacy),
        ]
    return PaperTable(
        name="rapt-figure-7",
        title="Accuracy beside empirical privacy, of our own methods",
        source=f"{RAPT}, Figure 7",
        unit="%",
        differs=setup_differences.trained(results.params, setup_differences.RAPT),
        columns=(*TUNED, "measure"),
        rows=tuple(rows),
        note="Empirical privacy is what the strongest inversion that works on clean text leaves of "
        f"the protected words; other systems are not built here. {UNPRINTED}",
    )


def _strongest(factors: dict[str, str], row: Utility, privacy: Sequence[Privacy]) -> PaperRow:
    """Return a release's privacy under the strongest inversion, or the command for it."""
    inverted = [
        found
        for found in privacy
        if (found.kind, found.task, found.given) == ("invert", row.task, None)
        and (found.method == row.method or found.unprotected)
    ]
    own = [found for found in inverted if found.eta == row.eta]
    left = [found.empirical_privacy for found in own if found.counts and found.seeds]
    lacking = [f for f in inverted if not f.seeds and (f.eta == row.eta or f.unprotected)]
    command = lacking[0].command if lacking else None
    return PaperRow(
        factors,
        mean=_hundred(min((value for value in left if value is not None), default=None)),
        command=command if own else with_preset("attacks", "invert"),
        remark="broken" if own and not left and not lacking else None,
    )


def _layers(results: Results) -> PaperTable:
    """Build Figure 9."""
    columns = (*TUNED, "layer", "measure")
    rows = []
    for name, content in results.layers.items():
        command = f"dvc repro layers@{name}"
        if not content:
            rows.append(PaperRow({"task": name}, command=command))
            continue
        rows += [
            PaperRow(
                {**content["factors"], "layer": str(layer["layer"]), "measure": measure},
                **layer[column],
                command=command,
            )
            for layer in content["layers"]
            for measure, column in (("from clean", "distance"), ("between texts", "spread"))
        ]
    return PaperTable(
        name="rapt-figure-9",
        title="Hidden states by layer: how far from those of the model of clean text",
        source=f"{RAPT}, Figure 9",
        unit="Euclidean distance",
        differs=setup_differences.trained(results.params, ON_BERT),
        columns=columns,
        rows=tuple(rows) or (PaperRow({}, command=with_preset("layers", "layers")),),
        note="Of each text the mean state of its own tokens; layer 0 is what the first layer is "
        "given. Between texts: of the clean model, what a distance is to be seen by. Points of a "
        f"plane are in reports/statistics/layers. {UNPRINTED}",
    )


def _printed(row: Mapping[str, str], columns: Iterable[str], preset: str | None) -> Printed:
    """Convert a row of utility.csv or ablations.csv of RAPT's third version.

    On clean text the paper has a number for each method; our one baseline is compared with T2T's.
    """
    clean = is_unprotected(row["eta"])
    stage = "train-clean" if clean else "train"
    runs = not clean or row["method"] == "t2t"
    return Printed(
        factors={name: row[name] for name in columns},
        value=float(row["value"]),
        embedding=BERT,
        replaced=replaced_by(BERT).get(row["eta"]),
        command=with_preset(preset, stage) if preset and runs else None,
    )


def _generated(row: Mapping[str, str], columns: Iterable[str]) -> Printed:
    """Convert a row on a text generation task, which is compared with no accuracy."""
    shown = _printed({**row, "task": f"{row['task']}, BLEU"}, columns, None)
    return replace(shown, replaced=None)


def _attack_row(row: Privacy) -> PaperRow:
    names = ("attack", "task", "target", "method", "eta")
    return PaperRow(
        factors={name: getattr(row, name) for name in names},
        mean=_hundred(row.empirical_privacy),
        sd=_hundred(row.empirical_privacy_sd),
        n=row.seeds,
        command=row.command,
        remark=row.doubt if row.seeds else None,
    )


def _unprinted(row: Own) -> PaperRow:
    return PaperRow(row.factors, mean=row.mean, sd=row.sd, n=row.n, command=row.command)


def _unplanned(
    column: str, settings: Sequence[str], preset: str, stages: str
) -> tuple[PaperRow, ...]:
    """Return rows for settings that a preset has and these params do not."""
    return tuple(PaperRow({column: s}, command=with_preset(preset, stages)) for s in settings)


def _hundred(share: float | None) -> float | None:
    return None if share is None else 100 * share
