"""Every mistake in params.yaml is one line: key, what was given, what is allowed, the nearest."""

import copy
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from rapt import params
from rapt.errors import RaptError
from tests.conftest import ROOT

Edit = Callable[[dict[str, Any]], Any]
STUDY = {
    "task": "movies",
    "embedding": "minilm",
    "method": "t2t",
    "eta": 75,
    "backbone": "minilm",
    "tuner": "lora",
}
VECTORS = {"type": "token-representation", "grid": 0.0009765625}
SHIPPED = YAML(typ="safe").load(ROOT / "params.yaml")
BINS = {"type": "bins", "column": "age", "least": 10, "most": 110, "count": 6, "edges": None}
FILES = {"type": "files", "files": {"train": "a.tsv", "test": "b.tsv"}, "sha256": None}


def lines(edit: Edit) -> list[str]:
    content = copy.deepcopy(SHIPPED)
    edit(content)
    with pytest.raises(RaptError) as error:
        params.validate(content)
    return str(error.value).split("\n")


def test_the_shipped_file_is_valid() -> None:
    p = params.load(ROOT / "params.yaml")
    assert "inf" in p.sweep.etas
    assert sum(eta != "inf" for eta in p.sweep.etas) >= 2
    assert p.seeds >= 2


@pytest.mark.parametrize(
    ("edit", "line"),
    [
        (
            lambda c: c.update(tunners=3),
            "params.yaml: 'tunners' given, allowed: .*did you mean 'tuners'",
        ),
        (
            lambda c: c["tuners"]["lora"].update(rank=3),
            "tuners.lora: 'rank' given, allowed: alpha, dropout, learning_rate, quantize, r, type;",
        ),
        (
            lambda c: c["tuners"]["prefix"].update(r=3),
            "tuners.prefix: 'r' given, allowed: learning_rate, tokens, type$",
        ),
        (
            lambda c: c["tuners"]["p-tuning"].update(hiden=3),
            "tuners.p-tuning: 'hiden' given, allowed: .*; did you mean 'hidden'",
        ),
        (
            lambda c: c["tuners"]["prompt"].update(tokens=0),
            "tuners.prompt.tokens: 0 given, allowed: greater than 0",
        ),
        (
            lambda c: c["tuners"]["full"].pop("learning_rate"),
            "tuners.full.learning_rate: missing, nothing has a default$",
        ),
        (
            lambda c: c["tuners"]["lora"].pop("quantize"),
            "tuners.lora.quantize: missing, nothing has a default .null where",
        ),
        (
            lambda c: c["tuners"]["lora"].update(quantize="8bit"),
            "tuners.lora.quantize: '8bit' given, allowed: 4bit; did you mean '4bit'",
        ),
        (lambda c: c["tuners"]["lora"].pop("r"), "tuners.lora.r: missing, nothing has a default"),
        (
            lambda c: c["tuners"]["lora"].update(r="x"),
            "tuners.lora.r: 'x' given, allowed: a valid int",
        ),
        (
            lambda c: c["tuners"]["lora"].update(r=True),
            "tuners.lora.r: True given, allowed: a valid int",
        ),
        (
            lambda c: c["tuners"]["lora"].update(type="loar"),
            "tuners.lora.type: 'loar' given, allowed: full, lora, .*; did you mean 'lora'",
        ),
        (
            lambda c: c["attacks"]["mlp"].update(type="nearest"),
            "attacks.mlp.type: 'nearest' given, allowed: attribute-hidden, attribute-mlp, .*auto",
        ),
        (
            lambda c: c["methods"]["t2t"]["mechanism"].update(type="tt2"),
            "methods.t2t.mechanism: 'tt2' given, allowed: custext, imola",
        ),
        (
            lambda c: c["methods"]["t2t"].update(mechanism={"type": "adept", "clip": 1.0}),
            "methods.t2t.mechanism: 'adept' given, allowed: .*t2t, tem, token-representation, tr",
        ),
        (
            lambda c: c["methods"]["t2t"].update(mechanism=VECTORS | {"grid": 0.001}),
            "methods.t2t.mechanism: grid 0.001 given, allowed: a power of two",
        ),
        (
            lambda c: c["methods"]["pct2t"].update(mechanism=VECTORS),
            "methods.pct2t: categories given, allowed: null with mechanism token-representation",
        ),
        (
            lambda c: c["methods"]["rapt"].update(mechanism=VECTORS, categories=None),
            "methods.rapt: plain_tokens given, allowed: null with mechanism token-representation",
        ),
        (
            lambda c: c["methods"]["t2t"].update(mechanism=VECTORS),
            "sweep.channels with sweep.channel_inversions: 't2t' given, allowed: pct2t, rapt",
        ),
        (
            lambda c: c["methods"]["pct2t"].update(categories=["nuon"]),
            "methods.pct2t.categories.0: 'nuon' given, .*did you mean 'noun'",
        ),
        (
            lambda c: c["methods"]["pct2t"].update(categories=None),
            "methods.pct2t: categories null given",
        ),
        (
            lambda c: c["methods"]["rapt"].update(plain_tokens=None),
            "methods.rapt: plain_tokens null given, allowed: a section with reconstruction",
        ),
        (
            lambda c: c["methods"]["pct2t"].update(plain_tokens=0),
            "methods.pct2t.plain_tokens: 0 given, allowed: a section of choice, .*, or null",
        ),
        (
            lambda c: c["methods"]["rapt"]["plain_tokens"].update(length=0),
            "methods.rapt.plain_tokens.length: 0 given, allowed: greater than 0",
        ),
        (
            lambda c: c["methods"]["rapt"]["plain_tokens"].pop("sequences"),
            "methods.rapt.plain_tokens.sequences: missing, nothing has a default",
        ),
        (
            lambda c: c["methods"]["rapt"]["plain_tokens"].update(choice="frequent"),
            "methods.rapt.plain_tokens.choice: 'frequent' given, .*did you mean 'frequency'",
        ),
        (
            lambda c: c["methods"]["rapt"]["plain_tokens"].update(vocabulary=9),
            r"methods.rapt.plain_tokens: vocabulary 9 given, allowed: at least length \(10\)",
        ),
        (
            lambda c: c["methods"]["rapt"]["reconstruction"].update(reduction="avg"),
            "methods.rapt.reconstruction.reduction: 'avg' given, allowed: mean, sum",
        ),
        (
            lambda c: c["sweep"].update(tuners=["loar"]),
            "sweep.tuners: 'loar' given, allowed: full, lora, .*; did you mean 'lora'",
        ),
        (
            lambda c: c["sweep"].update(train=["tweets"]),
            "sweep.train: 'tweets' given, allowed: movies",
        ),
        (
            lambda c: c["sweep"].update(infer=["movies"]),
            "sweep.infer: 'movies' given, allowed: tweets",
        ),
        (
            lambda c: c["sweep"].update(inversions=["mlp"]),
            "sweep.inversions: 'mlp' given, allowed: auto",
        ),
        (
            lambda c: c["sweep"].update(inversions=["bayes"]),
            "sweep.inversions: 'bayes' given, allowed: autoencoder, averaged, mlp-words, nearest",
        ),
        (
            lambda c: (
                c["sweep"].update(inversions=["replay"]),
                c["methods"]["t2t"]["mechanism"].update(type="mahalanobis", weight=0.2),
            ),
            r"methods.t2t.mechanism.type \(with attack replay\): 'mahalanobis' given, allowed: ",
        ),
        (
            lambda c: c["sweep"].update(memberships=["mlp"]),
            "sweep.memberships: 'mlp' given, allowed: loss",
        ),
        (
            lambda c: c["sweep"].update(layers=["t2t-76"]),
            "sweep.layers: 't2t-76' given, allowed: pct2t-50, pct2t-75, pct2t-inf, rapt-50, "
            "rapt-75, rapt-inf, t2t-50, t2t-75; did you mean 't2t-75'?",
        ),
        (
            lambda c: c["sweep"].update(layers=["t2t-75"], etas=[75]),
            "sweep.layers: given, which sets against t2t-inf",
        ),
        (
            lambda c: c["sweep"].update(
                layers=["t2t-75"], backbones=["bilstm"], tuners=["full"], denoisers=[]
            ),
            "sweep.layers: given with backbone bilstm, allowed: none with a bilstm",
        ),
        (
            lambda c: c["sweep"].update(recognitions=["nearest"]),
            "sweep.recognitions: 'nearest' given, allowed: ner",
        ),
        (
            lambda c: c["attacks"]["bayes-twice"].update(copies=3),
            "attacks.bayes-twice.copies: 3 given, allowed: at most 2",
        ),
        (
            lambda c: c["attacks"]["bayes"].update(prior="none"),
            "attacks.bayes.prior: 'none' given, allowed: public, release",
        ),
        (
            lambda c: c["attacks"]["mlp"].update(hiden=3),
            "attacks.mlp: 'hiden' given, allowed: .*did you mean 'hidden'",
        ),
        (lambda c: c["sweep"].update(methods=["t2t", "t2t"]), "sweep.methods: .*each entry once"),
        (
            lambda c: c["sweep"].update(channels=["rapd"], channel_inversions=[]),
            "sweep.channels: 'rapd' given, allowed: .*did you mean 'rapt'",
        ),
        (
            lambda c: c["sweep"].update(denoisers=["posterior"]),
            "sweep.denoisers: 'posterior' given, allowed: posterior-mean, posterior-public, post",
        ),
        (
            lambda c: c["channel"].update(by_frequency=0),
            "channel.by_frequency: 0 given, allowed with sweep.channel_inversions: above 0",
        ),
        (
            lambda c: c["sweep"].update(denoisers=["posterior-mean"], channels=["rapt-mean"]),
            "sweep.channels with sweep.denoisers and sweep.channel_inversions: 'rapt-mean' given, "
            "allowed: pct2t, rapt, t2t; did you mean",
        ),
        (
            lambda c: c["denoisers"]["posterior-mean"].update(type="posterior-median"),
            "denoisers.posterior-mean.type: 'posterior-median' given, allowed: posterior-mean, .*; "
            "did you mean 'posterior-mean'",
        ),
        (
            lambda c: c["denoisers"]["posterior-mean"].pop("type"),
            "denoisers.posterior-mean.type: missing",
        ),
        (
            lambda c: (
                c["sweep"].update(denoisers=["posterior-mean"]),
                c["studies"].update({"movies-minilm-lora-t2t-75-posterior-mean": {**STUDY}}),
            ),
            "movies-minilm-lora-t2t-75-posterior-mean: the name of two cells",
        ),
        (
            lambda c: c["calibrate"].update(replaced=[0.5, 1.0]),
            "calibrate.replaced.1: 1.0 given, allowed: less than 1",
        ),
        (
            lambda c: c["channel"].update(frequent=0),
            "channel.frequent: 0 given, allowed: greater than 0",
        ),
        (lambda c: c["geometry"].pop("words"), "geometry.words: missing, nothing has a default"),
        (lambda c: c.update(embedding="glove"), "embedding: 'glove' given, allowed: minilm"),
        (
            lambda c: c["sweep"].update(backbones=["bilstm"]),
            r"sweep.tuners \(with backbone bilstm\): 'lora' given, allowed: full$",
        ),
        (
            lambda c: c["studies"]["reconstruction-mean"].update(backbone="bilstm", tuner="prefix"),
            r"studies.reconstruction-mean.tuner \(with backbone bilstm\): 'prefix' given, allowed",
        ),
        (
            lambda c: c["backbones"]["bilstm"]["encoder"].update(type="lstm"),
            "backbones.bilstm.encoder.type: 'lstm' given, allowed: bilstm; did you mean 'bilstm'",
        ),
        (
            lambda c: c["backbones"]["bilstm"]["encoder"].pop("dropout"),
            "backbones.bilstm.encoder.dropout: missing, nothing has a default$",
        ),
        (
            lambda c: c["backbones"]["minilm"].pop("encoder"),
            "backbones.minilm.encoder: missing, nothing has a default .null where",
        ),
        (
            lambda c: c["backbones"]["minilm"].update(encoder="bilstm"),
            "backbones.minilm.encoder: 'bilstm' given, allowed: a section of dropout, .*, or null",
        ),
        (
            lambda c: c["studies"]["reconstruction-mean"].update(method="rapd"),
            "studies.reconstruction-mean.method: 'rapd' given, .*did you mean 'rapt'",
        ),
        (
            lambda c: c["tasks"].update(Bad=c["tasks"]["movies"]),
            "tasks.Bad: 'Bad' given, allowed: lower",
        ),
        (
            lambda c: c["backbones"]["minilm"].update(model="a/b@main"),
            "backbones.minilm.model: 'a/b@main' given, allowed: owner/name@REVISION",
        ),
        (
            lambda c: c["tasks"]["movies"]["rows"].update(test=None),
            "tasks.movies: rows.test null given, allowed: a number",
        ),
        (
            lambda c: c["tasks"]["movies"].update(
                source=FILES, authors=["id"], rows={"train": None, "test": None}
            ),
            "tasks.movies: rows.test null given, allowed: a number, as authors are divided$",
        ),
        (
            lambda c: c["tasks"]["tweets"].update(authors=["Author"]),
            "tasks.tweets: authors 'Author' given, allowed: another column or null, as attributes."
            "author, inferred from it, needs each author on both sides$",
        ),
        (
            lambda c: c["tasks"]["tweets"].update(authors=[]),
            "tasks.tweets.authors: .* given, allowed: List should have at least 1 item",
        ),
        (
            lambda c: c["tasks"]["tweets"].pop("authors"),
            "tasks.tweets.authors: missing, nothing has a default .null where",
        ),
        (
            lambda c: c["tasks"]["tweets"]["attributes"]["author"].update(type="value"),
            "tasks.tweets.attributes.author.type: 'value' given, allowed: bins, most-frequent, "
            "values; did you mean 'values'",
        ),
        (
            lambda c: c["tasks"]["tweets"]["attributes"]["author"].pop("type"),
            "tasks.tweets.attributes.author.type: missing, it says which kind this is",
        ),
        (
            lambda c: c["tasks"]["tweets"]["attributes"].update(author=BINS | {"least": 110}),
            r"tasks.tweets.attributes.author: least 110 given, allowed: below most \(110\)$",
        ),
        (
            lambda c: c["tasks"]["tweets"]["attributes"].update(author=BINS | {"count": 1}),
            "tasks.tweets.attributes.author.count: 1 given, allowed: greater than or equal to 2",
        ),
        (
            lambda c: c["tasks"]["tweets"]["attributes"].update(author=BINS | {"bins": 3}),
            "tasks.tweets.attributes.author.bins: 'bins' given, allowed: column, count, edges, ",
        ),
        (
            lambda c: c["tasks"]["tweets"]["attributes"].update(author=BINS | {"edges": [30]}),
            "tasks.tweets.attributes.author: both of count and edges given, allowed: one, the ",
        ),
        (
            lambda c: c["tasks"]["tweets"]["attributes"].update(author=BINS | {"count": None}),
            "tasks.tweets.attributes.author: neither of count and edges given, allowed: one, the ",
        ),
        *(
            (
                lambda c, edges=edges: c["tasks"]["tweets"]["attributes"].update(
                    author=BINS | {"count": None, "edges": edges}
                ),
                f"tasks.tweets.attributes.author: edges {said} given, allowed: ascending, between ",
            )
            for edges, said in (([10, 30], "10, 30"), ([40, 30.5], "40, 30.5"), ([110], "110"))
        ),
        (lambda c: c.update(sweep=None), "sweep: None given, allowed: a section of backbones, "),
        (
            lambda c: c["sweep"].update(tasks=["movie", "tweets"]),
            "sweep.tasks: 'movie' given, allowed: movies, tweets; did you mean 'movies'",
        ),
        (
            lambda c: c["studies"].update({"movies-minilm-lora-t2t-75": {**STUDY}}),
            "movies-minilm-lora-t2t-75: the name of two cells",
        ),
        (
            lambda c: (
                c["tasks"].update({"of-movies": c["tasks"]["movies"]}),
                c["attacks"].update({"loss-of": c["attacks"]["loss"]}),
                c["sweep"].update(
                    tasks=["movies", "of-movies", "tweets"],
                    train=["movies", "of-movies"],
                    methods=["pct2t"],
                    etas=[50],
                    channels=["pct2t"],
                    memberships=["loss", "loss-of"],
                ),
            ),
            "loss-of-movies-minilm-lora-pct2t-50: the name of two cells",
        ),
        (
            lambda c: c["tasks"].update(studies=c["tasks"]["movies"]),
            "tasks.studies: the name is taken",
        ),
        (
            lambda c: c["calibrate"].update(categories=["all", "noun"]),
            "calibrate.categories: given, allowed: 'all' alone",
        ),
        (
            lambda c: c["calibrate"].update(words=1),
            "calibrate.words: 1 given, allowed: greater than",
        ),
        (lambda c: c["gate"].update(min_characters=10**6), "gate: min_characters above"),
        (
            lambda c: c.update(seed=2**40),
            "seed: 1099511627776 given, allowed: less than 2147483648",
        ),
    ],
)
def test_one_line_names_the_key_the_given_and_the_allowed(edit: Edit, line: str) -> None:
    found = lines(edit)
    assert len(found) == 1
    assert re.match(line, found[0]), found[0]


@pytest.mark.parametrize("eta", [0, -1, -0.5, float("nan"), "fifty", True, None, [75], "-inf"])
def test_eta_is_above_zero(eta: object) -> None:
    (line,) = lines(lambda c: c["sweep"].update(etas=[eta]))
    assert line.startswith("sweep.etas.0: ")
    assert "a number above 0" in line


def test_eta_is_written_as_it_stands_in_paths() -> None:
    def etas(*given: object) -> list[str]:
        content = copy.deepcopy(SHIPPED)
        content["sweep"]["etas"] = list(given)
        return params.validate(content).sweep.etas

    assert etas(75, 62.5, "inf") == ["75", "62.5", "inf"]
    assert etas(float("inf")) == ["inf"]  # what `dvc exp run -S` writes
    assert lines(lambda c: c["sweep"].update(etas=[75.0])) == ["sweep.etas.0: 75.0 given, write 75"]


def test_every_problem_is_told_at_once() -> None:
    assert (
        len(lines(lambda c: (c.update(seed=-1), c.update(tunners=1), c["gate"].pop("min_rows"))))
        == 3
    )


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda x: st.lists(x) | st.dictionaries(st.text(), x),
    )
)
def test_nonsense_never_ends_in_a_traceback(content: object) -> None:
    with pytest.raises(RaptError):
        params.validate(content)


@given(
    st.sampled_from(sorted(SHIPPED)), st.none() | st.integers() | st.text() | st.lists(st.text())
)
def test_a_section_of_another_type_is_one_problem_of_that_key(section: str, value: object) -> None:
    content = copy.deepcopy(SHIPPED) | {section: value}
    try:
        params.validate(content)
    except RaptError as error:
        assert all(
            section.split(".")[0] in line or "sweep" in line or "studies" in line
            for line in str(error).split("\n")
        )


def test_files_that_are_no_params(tmp_path: Any) -> None:
    for text, line in (
        ("a: [", "not YAML"),
        ("- 1", "a list given"),
        ("", "empty"),
        ("a: 1\na: 2", "not YAML"),
    ):
        path = tmp_path / f"{abs(hash(text))}.yaml"
        path.write_text(text)
        with pytest.raises(RaptError, match=line) as error:
            params.load(path)
        assert "\n" not in str(error.value)
    with pytest.raises(RaptError, match="not there"):
        params.load(tmp_path / "missing.yaml")
