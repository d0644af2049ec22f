"""The `rapt` command."""

from __future__ import annotations

import json as json_format
import os
import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from rapt import __version__
from rapt.commands.audit import audit, mechanisms
from rapt.commands.calibrate import calibrate
from rapt.commands.clean import clean
from rapt.commands.distinguish import distinguish
from rapt.commands.ledger import ledger
from rapt.commands.try_ import try_
from rapt.options import (
    FORMATS,
    AllowWeak,
    AsJson,
    Budget,
    Categories,
    Delimiter,
    Encoding,
    Header,
    Language,
    Mechanism,
    Table,
    Tagger,
    parsed_eta,
)
from rapt.paths import MINILM, STATE, TAGGER
from rapt.serving.predict import predict
from rapt.utils.device import memory_errors
from rapt.utils.errors import RaptError, check_place, disk_errors
from rapt.utils.process import no_telemetry, without

# Commands import what they need when they run: `rapt --help` takes no longer than Typer does.
# Each option stands once: here, or with the longer commands in modules that import no more either.
# `locals()` comes first in a command, where it holds the options alone.
app = typer.Typer(
    help="Privacy-preserving fine-tuning on text.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_show_locals=False,
)
TEXT, EXPERIMENT = "Your text", "An experiment"
PROVIDER, INSIDE = "A provider", "Look inside"
# What rapt[tune] installs; any other package that is not here comes with rapt[pipeline].
TUNE = ("peft", "seqeval", "sklearn", "torch", "transformers")


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
        float | None,
        typer.Option(
            parser=parsed_eta,
            metavar="FLOAT",
            help="Privacy parameter: smaller is more private. Required; see rapt calibrate.",
        ),
    ] = None,
    categories: Categories = None,
    mechanism: Mechanism = None,
    parameter: Annotated[
        list[str] | None, typer.Option(help="Of the mechanism, as weight=0.5; repeatable.")
    ] = None,
    table: Table = None,
    tagger: Tagger = None,
    language: Language = None,
    format: Annotated[str | None, typer.Option(help=f"{FORMATS}; else by the suffix.")] = None,
    column: Annotated[list[str] | None, typer.Option(help="Text column, repeatable.")] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(help="Other columns to release as they are, as rating,date; else none."),
    ] = None,
    keep_all: Annotated[
        bool, typer.Option("--keep-all", help="Release all other columns as they are.")
    ] = False,
    header: Header = True,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    keep_identifiers: Annotated[
        bool, typer.Option("--keep-identifiers", help="No placeholders for numbers, addresses, …")
    ] = False,
    names: Annotated[
        str,
        typer.Option(help="What becomes of names: noise, placeholder, or numbered placeholders."),
    ] = "noise",
    detector: Annotated[
        list[str] | None,
        typer.Option(help="Further detector whose words become placeholders, repeatable."),
    ] = None,
    keep_spacing: Annotated[
        bool, typer.Option("--keep-spacing", help="Join words as they stood.")
    ] = False,
    keep_map: Annotated[
        Path | None, typer.Option(help="Write what restores the originals; keep it to yourself.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace OUT.")] = False,
    allow_weak: AllowWeak = False,
    budget: Budget = None,
    workers: Annotated[
        int, typer.Option(min=1, help="Processes that share the files of a folder.")
    ] = 1,
    preview: Annotated[
        bool, typer.Option("--preview", help="Write nothing: show which words would stay.")
    ] = False,
    seed: Annotated[int | None, typer.Option(hidden=True)] = None,
    insecure_seed: Annotated[
        int | None, typer.Option(help="Repeatable noise, which anyone can undo: for tests.")
    ] = None,
) -> None:
    """Privatize a file of any size, or many; a run that was killed goes on where it stopped."""
    given = locals()
    from rapt import defaults

    # spaCy imports PyTorch where it is installed, which takes longer than all the rest.
    is_small = (tagger or defaults.tagger()) == TAGGER
    with without("torch") if is_small else nullcontext():
        from rapt.release import pool
        from rapt.release.command import prepared, summary
        from rapt.release.preview import shown

    del given["preview"], given["workers"]
    job, privatizer = prepared(**given)
    if preview:
        typer.echo(shown(job, privatizer))
        return
    seeded = insecure_seed is not None
    try:
        if workers > 1:
            counts = pool.run(job, privatizer, partial(pool.by_processes, workers=workers))
        else:
            counts = job.run(privatizer)
    except KeyboardInterrupt:
        goes_on = "starts anew" if "-" in (str(path), str(out)) else "goes on where it stopped"
        typer.echo(f"interrupted: the same command {goes_on}", err=True)
        raise typer.Exit(130) from None
    line = summary(out, counts, seeded=seeded, privatizer=privatizer.privatizer)
    typer.echo(line, err=True)


app.command(rich_help_panel=TEXT)(predict)
app.command(rich_help_panel=TEXT)(calibrate)
app.command(rich_help_panel=TEXT)(distinguish)
app.command(rich_help_panel=TEXT)(ledger)
app.command("try", rich_help_panel=TEXT)(try_)


@app.command("table", rich_help_panel=TEXT)
def make_table(
    model: Annotated[
        str,
        typer.Argument(
            help="package:NAME/FOLDER, a folder, a file of vectors, or a hub's owner/name@REVISION."
        ),
    ] = MINILM,
    out: Annotated[Path | None, typer.Argument(help="Folder; else in the user's cache.")] = None,
    tagger: Tagger = None,
    language: Annotated[
        str | None, typer.Option(help="Of the model's words, or any; else the tagger's.")
    ] = None,
) -> None:
    """Make a model's embedding table, and print where it lies, for --table."""
    from rapt import defaults, table_cache

    tagger = tagger or defaults.tagger()
    if out is None:
        out = table_cache.cached_table(model, tagger, language)
    elif out.exists():
        raise RaptError(f"OUT: got {str(out)!r}, expected a folder that does not exist yet.")
    else:
        check_place("OUT", out)
        table_cache.make(model, tagger, out, language)
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
    text: Annotated[str | None, typer.Option(help="Column with the text; else text.")] = None,
    text_pair: Annotated[str | None, typer.Option(help="Column with a pair's second text.")] = None,
    label: Annotated[
        str | None, typer.Option(help="Column with the class; else label, if there is one.")
    ] = None,
    attributes: Annotated[
        list[str] | None, typer.Option("--attribute", help="A private attribute's column.")
    ] = None,
    authors: Annotated[
        list[str] | None,
        typer.Option(help="Column that tells authors apart: none is in both splits. Repeatable."),
    ] = None,
    min_class: Annotated[
        int, typer.Option(help="Classes with fewer training rows are left out.", min=0)
    ] = 0,
    label_case: Annotated[
        str | None,
        typer.Option(help="Of classes that differ in it alone: fold makes one of them, or keep."),
    ] = None,
    header: Header = True,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    full: Annotated[
        bool, typer.Option("--full", help="All rows, and LoRA beside the cheap tuner.")
    ] = False,
) -> None:
    """Start an experiment on your own data: params.yaml gets it, small enough to run at once."""
    given = locals()
    from rapt.commands.init import task_block

    typer.echo(task_block(**given))


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
    from rapt.commands.check import check as checked
    from rapt.grid import KINDS, PUBLIC_LABELS
    from rapt.results.reader import planned

    try:
        p = checked()
    except RaptError as error:
        if not json:
            raise
        _print_json({"valid": False, "problems": str(error).splitlines()})
        raise typer.Exit(2) from None
    cells = planned(p)
    kinds = {kind: sum(c.kind == kind for c in cells) for kind in (*KINDS, PUBLIC_LABELS)}
    if json:
        _print_json({"valid": True, "cells": kinds, "seeds": p.seeds})
        return
    counts = ", ".join(f"{count} {kind}" for kind, count in kinds.items() if count)
    seeds = "one seed" if p.seeds == 1 else f"{p.seeds} seeds"
    typer.echo(f"params.yaml is valid: {len(cells)} cells ({counts}), {seeds} each.")
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
    as_json: AsJson = False,
) -> None:
    """Say what a preset would run, and about how long that takes here, by what ran before."""
    from rapt.commands.plan import preview as previewed

    previewed(what, rows=rows or (), as_json=as_json)


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
def results(
    json: AsJson = False,
    table: Annotated[
        Path | None, typer.Option(help="Write all cells to this .csv or .parquet file instead.")
    ] = None,
) -> None:
    """Print the results of the cells that have run."""
    from rapt import params
    from rapt.commands.plan import of_all_rows
    from rapt.reporting import summary

    if table:
        from rapt.results import reader
        from rapt.results.table import write

        write(reader.load(params.load()), table)
        typer.echo(table)
    elif json:
        _print_json(summary.as_json(params.load()))
    else:
        p = params.load()
        summary.print_results(p)
        if line := of_all_rows(p):
            typer.echo(line)


@app.command(rich_help_panel=EXPERIMENT)
def report(
    out: Annotated[Path, typer.Argument(help="Outside reports.")] = STATE / "report.html",
) -> None:
    """Copy the report's page, with commit, machine and the seconds of each cell."""
    from rapt.reporting.writer import report as reported

    typer.echo(reported(out))


@app.command(rich_help_panel=EXPERIMENT)
def sync() -> None:
    """Bring MLflow up to the cells: what is missing or changed is logged, nothing twice."""
    from rapt import params
    from rapt.reporting import mlflow_mirror

    mlflow_mirror.sync(params.load())


app.command(rich_help_panel=EXPERIMENT)(clean)


@app.command(rich_help_panel=PROVIDER)
def serve(
    adapter: Annotated[
        Path,
        typer.Option(help="A tuned seed's folder; with --private-prediction that of all seeds."),
    ],
    port: Annotated[
        int, typer.Option(help="Of this machine's loopback; 0: a free one.", min=0, max=65535)
    ] = 8000,
    private_prediction: Annotated[
        bool,
        typer.Option(
            "--private-prediction", help="Answer by a noisy vote of teachers, until ε is spent."
        ),
    ] = False,
    epsilon: Annotated[float | None, typer.Option(help="That all queries spend together.")] = None,
    queries: Annotated[int | None, typer.Option(help="That ε is shared by.")] = None,
    delta: Annotated[
        float | None, typer.Option(help="Below 1 / the training texts; else 1e-5.")
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option(help="File of what was spent; else beside the adapter's folder.")
    ] = None,
) -> None:
    """Answer for an adapted model over HTTP, on this machine, from privatized words alone."""
    from rapt.serving.server import serve as served

    given = {"epsilon": epsilon, "queries": queries, "delta": delta, "ledger": ledger}
    given = {name: value for name, value in given.items() if value is not None}
    if not private_prediction and given:
        raise RaptError(f"{min(given)}: got one without --private-prediction, expected none.")
    private = None
    if private_prediction:
        from rapt.serving.private_prediction import checked

        private = checked(given)
    served(adapter, port, private)


app.command(rich_help_panel=INSIDE)(mechanisms)


@app.command(rich_help_panel=INSIDE)
def attacks(json: AsJson = False) -> None:
    """List the attacks: what each attacker knows, and its parameters."""
    from rapt.attacks import show

    if json:
        _print_json(show.as_json())
    else:
        show.print_attacks()


app.command(rich_help_panel=INSIDE)(audit)


def main() -> None:
    """Run the command; an error that the user can fix ends with one line, and status 2."""
    no_telemetry()
    try:
        with disk_errors(), memory_errors():
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
