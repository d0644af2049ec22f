"""The cells of an experiment, for each of which dvc.yaml has a stage."""

import copy
import re
from collections import Counter
from collections.abc import Iterator
from itertools import product
from typing import Any

from ruamel.yaml import YAML

from rapt import grid, params
from rapt.grid import CLEAN, UNPROTECTED_ETA, PlannedCell, plan, releases
from rapt.params import Params
from tests.conftest import ROOT

EVERY = YAML(typ="safe").load(ROOT / "tests/every_section.yaml")
# A file with every list of the sweep filled.
FILLED = {
    "etas": [50, 62.5, 75],
    "probes": ["full"],
    "denoisers": ["posterior-mean", "posterior-sample"],
    "linkages": ["linkage"],
    "memberships": ["loss"],
    "layers": ["rapt-75"],
    "synthesizers": ["generator", "aug-pe"],
    "epsilons": [3, 8],
}


def content(**sweep: Any) -> Any:
    made = copy.deepcopy(EVERY)
    made["sweep"] |= sweep
    return made


def planned(**sweep: Any) -> list[PlannedCell]:
    return plan(params.validate(content(**sweep)))


def filled_in(template: str, names: dict[str, Any]) -> str:
    """Interpolate `${a.b}` as DVC does."""

    def value(match: re.Match[str]) -> str:
        found: Any = names
        for part in match[1].split("."):
            found = found[part]
        return str(found)

    return re.sub(r"\$\{([^}]*)\}", value, template)


def dvc_stages(given: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yield every stage that DVC would run for these params: its address, its YAML, its names."""
    for name, stage in YAML(typ="safe").load(ROOT / "dvc.yaml")["stages"].items():
        if "foreach" in stage:
            section = stage["foreach"].removeprefix("${").removesuffix("}")
            for key, item in given[section].items():
                yield f"{name}@{key}", stage["do"], given | {"key": key, "item": item}
        elif "matrix" in stage:
            lists = [
                given["sweep"][over.removeprefix("${sweep.").removesuffix("}")]
                for over in stage["matrix"].values()
            ]
            for values in product(*lists):
                key = "-".join(map(str, values))
                item = dict(zip(stage["matrix"], values, strict=True))
                yield f"{name}@{key}", stage, given | {"key": key, "item": item}
        else:
            yield name, stage, given


def outs(stage: dict[str, Any], names: dict[str, Any]) -> list[str]:
    made = (out if isinstance(out, str) else next(iter(out)) for out in stage["outs"])
    return [filled_in(out, names) for out in made]


def test_every_stage_reads_params_that_there_are() -> None:
    """They are keys of the effective params, which the stage `validate` writes."""
    given = content(**FILLED)
    p = params.validate(given)
    effective = p.model_dump(mode="json")
    for address, stage, names in dvc_stages(given):
        assert stage["params"]
        for file in stage["params"]:
            ((path, keys),) = file.items()
            assert path == (
                "params.yaml" if address in ("validate", "report") else "data/params.json"
            )
            for key in keys or ():
                found = effective
                for part in filled_in(key, names).split("."):
                    assert part in found, f"{address}: {key}"
                    found = found[part]


def test_every_data_dep_of_a_stage_is_made_by_another() -> None:
    given = content(**FILLED)
    stages = list(dvc_stages(given))
    made = [out for _, stage, names in stages for out in outs(stage, names)]
    for address, stage, names in stages:
        for dep in stage.get("deps", []):
            path = filled_in(dep, names)
            if path.startswith(("data/", "models/", "reports/")):
                ours = f"{path}/"
                assert any(f"{o}/".startswith(ours) or ours.startswith(f"{o}/") for o in made), (
                    f"{address}: {path}"
                )


def test_clean_text_is_one_baseline() -> None:
    cells = planned(**FILLED)
    clean = [cell for cell in cells if cell.factors["method"] == CLEAN]
    assert {cell.factors["eta"] for cell in clean} == {UNPROTECTED_ETA}
    # Two tuners; one attack on two tasks' words, one on authors, one on entities, one
    # on adapters, and one that links both tasks' texts.
    assert Counter(cell.kind for cell in clean) == {
        "train": 2, "invert": 2, "infer": 1, "recognize": 1, "link": 2, "membership": 1,
    }  # fmt: skip
    assert planned(methods=["t2t"], attacked=["t2t"], channels=["t2t"])[0].cell == (
        "movies-minilm-lora-clean"
    )
    p = params.validate(content(**FILLED))
    named = [(f"{m}-{e}", m, e) for m in p.sweep.methods for e in p.sweep.etas]
    assert releases(p) == [(CLEAN, CLEAN, "inf"), *named]


def test_probes_are_tuned_at_every_eta_and_tuners_at_theirs() -> None:
    cells = [c for c in planned(probes=["full"], tune_at=[75]) if c.kind == "train"]
    assert {(c.factors["tuner"], c.factors["eta"]) for c in cells} == {
        ("lora", "75"), ("lora", "inf"), ("full", "50"), ("full", "75"), ("full", "inf"),
    }  # fmt: skip


def test_only_attacked_methods_are_attacked() -> None:
    cells = planned(attacked=["pct2t"], channels=["t2t"])
    by = {
        kind: {c.factors["method"] for c in cells if c.stage.removesuffix("-clean") == kind}
        for kind in ("invert", "invert-channel", "infer", "recognize", "train")
    }
    assert by == {
        "invert": {"clean", "pct2t"},
        # The channel of clean text is the identity, so there is no such cell.
        "invert-channel": {"t2t"},
        "infer": {"clean", "pct2t"},
        "recognize": {"clean", "pct2t"},
        "train": {"clean", "t2t", "pct2t", "rapt"},
    }


def test_membership_is_inferred_from_every_adapter_of_the_grid() -> None:
    cells = planned(memberships=["loss"])
    attacked = [cell for cell in cells if cell.kind == "membership"]
    assert [f"loss-{cell.cell}" for cell in cells if cell.kind == "train"] == [
        cell.cell for cell in attacked
    ]
    assert {cell.factors["backbone"] for cell in attacked} == {"minilm"}


def test_synthetic_texts_are_tuned_on_as_a_method_s_are_with_epsilon_for_eta() -> None:
    p = params.validate(content(**FILLED))
    cells = [cell for cell in plan(p) if cell.stage == "train-synthetic"]
    made = {(cell.factors["method"], cell.factors["eta"]) for cell in cells}
    assert made == {(name, eps) for name in ("generator", "aug-pe") for eps in ("3", "8")}
    assert {cell.kind for cell in cells} == {"train"}
    assert cells[0].command == "dvc repro train-synthetic@movies-minilm-lora-generator-3"
    assert grid.synthetic(p)[0] == ("generator-3", "generator", "3")
    assert grid.split_release_name("aug-pe-8") == ("aug-pe", "8")
    assert grid.split_release_name("t2t-1e-05") == ("t2t", "1e-05")


def test_every_denoiser_reads_every_release_that_has_a_channel() -> None:
    names = ["posterior-mean", "posterior-sample"]
    cells = [c for c in planned(denoisers=names, channels=["rapt"]) if c.kind == "denoise"]
    assert Counter(cell.factors["denoiser"] for cell in cells) == dict.fromkeys(names, 2)
    assert cells[0].factors == {
        "task": "movies",
        "backbone": "minilm",
        "tuner": "lora",
        "method": "rapt",
        "eta": "50",
        "denoiser": "posterior-mean",
        "embedding": "minilm",
    }


def test_plan_names_every_cell_once(experiment: Params) -> None:
    names = [(cell.kind, cell.cell) for cell in plan(experiment)]
    sweep = experiment.sweep
    assert len(names) == len(set(names))
    # With clean text: three methods tuned, two attacked. Whoever knows the channel needs no clean.
    tuned, attacked, by_channel = (
        len(methods) * len(sweep.etas)
        for methods in (sweep.methods, sweep.attacked, sweep.channels)
    )
    attacks = [(sweep.inversions, sweep.invert), (sweep.inferences, sweep.infer)]
    attacks += [(sweep.recognitions, sweep.recognize)]
    assert len(names) == (
        (tuned + 1) * len(sweep.train) * len(sweep.backbones) * len(sweep.tuners)
        + (attacked + 1) * sum(len(attack) * len(tasks) for attack, tasks in attacks)
        + by_channel * len(sweep.channel_inversions) * len(sweep.invert)
        + len(experiment.studies)
        + len(sweep.train)  # nothing sent
    )
    assert ("train", "movies-minilm-lora-rapt-75") in names
    assert ("infer", "mlp-tweets-clean") in names


def test_levels_come_before_numbers_and_part_from_their_method() -> None:
    etas = ["75", "replaced-20", "inf", "62.5", "replaced-90", "recovered-5"]
    expected = ["recovered-5", "replaced-90", "replaced-20", "62.5", "75", "inf"]
    assert grid.sorted_etas(etas) == expected
    assert [eta for eta in etas if grid.is_unprotected(eta)] == ["inf"]
    assert grid.level("replaced-20") == ("replaced", 0.2) and grid.level("20") is None
    for eta in etas:
        assert grid.split_release_name(f"rapt-mean-{eta}") == ("rapt-mean", eta)
