"""One line for each problem: the key, the given and the allowed."""

import copy
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rapt import params
from rapt.utils.errors import RaptError
from tests.every_section import EVERY, Edit, add_public_labels, lines

STUDY = {
    "task": "movies",
    "embedding": "minilm",
    "method": "t2t",
    "eta": 75,
    "backbone": "minilm",
    "tuner": "lora",
}
VECTORS = {"type": "token-representation", "grid": 0.0009765625}
CHOOSE = {"kind": "choose", "choices": "choices"}
BINS = {"type": "bins", "column": "age", "least": 10, "most": 110, "count": 6, "edges": None}
FILES = {"type": "files", "files": {"train": "a.tsv", "test": "b.tsv"}, "sha256": None}


# Changes of params.yaml, as `KEY=VALUE; ~KEY` or as a function, and the line that each leads to.
WRONG: list[tuple[str | Edit, str]] = [
    ("tunners=3", "params.yaml: got 'tunners', expected .*Did you mean 'tuners'"),
    (
        "tuners.lora.rank=3",
        "tuners.lora: got 'rank', expected one of alpha, dropout, .*, type. Did",
    ),
    (
        "tuners.prefix.r=3",
        "tuners.prefix: got 'r', expected one of federated, learning_rate, private, tokens, type.$",
    ),
    (
        "tuners.lora.federated={clients: 50, epsilon: 3, delta: 0.02}",
        "tuners.lora.federated: got delta 0.02 for 50 clients, expected less than 0.02. At more",
    ),
    (
        "tuners.lora.federated={clients: 50, law: tree, adaptive: true}",
        "tuners.lora.federated: got adaptive with law tree, expected sampled",
    ),
    ("tuners.lora.federated={clients: 2}", "tuners.lora.federated.clients: got 2, expected"),
    (
        lambda c: (
            c["tuners"]["lora"].update(federated={"clients": 50}),
            c["train"].update(gradient={"type": "private", "epsilon": 3}),
        ),
        "train.gradient: got private with tuners.lora.federated, expected plain",
    ),
    (
        "tuners.lora.private={epsilon: 0}",
        "tuners.lora.private.epsilon: got 0, expected a number greater than 0",
    ),
    (
        "tuners.lora.private={epsilon: 3, delta: 1}",
        "tuners.lora.private.delta: got 1, expected a number less than 1",
    ),
    ("train.shards=3", "train.shards: got 3 with 2 seeds, expected 2, or 1."),
    (
        "train.shards=2; sweep.memberships=[loss]",
        "train.shards: got 2 with sweep.memberships, expected 1.",
    ),
    (
        "train.gradient={type: private, epsilon: 3}; tuners.tfidf=tfidf",
        "train.gradient: got private with tuners.tfidf, of type tfidf, which takes no steps, exp",
    ),
    (
        "tuners.lora.private={epsilon: 3, unit: author}",
        "tuners.lora.private.unit: got author for movies-minilm-lora-clean of kind train, expected",
    ),
    (
        "tuners.lora.private={epsilon: 3, policy: {}}",
        "tuners.lora.private.policy: got one for movies-minilm-lora-t2t-50 of kind train, expecte",
    ),
    (
        "tuners.lora.private={epsilon: 3, policy: {entities: [], digits: false}}",
        "tuners.lora.private.policy: got a policy without a rule, expected entities, digits or pa",
    ),
    ("tuners.p-tuning.hiden=3", "tuners.p-tuning: got 'hiden', expected .*. Did you mean 'hidden'"),
    ("tuners.prompt.tokens=0", "tuners.prompt.tokens: got 0, expected a number greater than 0"),
    (
        "tuners.lora.quantize=8bit",
        "tuners.lora.quantize: got '8bit', expected 4bit. Did you mean '4bit'",
    ),
    ("tuners.lora.r=x", "tuners.lora.r: got 'x', expected a valid int"),
    ("tuners.lora.r=true", "tuners.lora.r: got True, expected a valid int"),
    (
        "tuners.lora.type=loar",
        "tuners.lora.type: got 'loar', expected one of bitfit, full, .*. Did you mean 'lora'",
    ),
    (
        "attacks.mlp.type=nearest",
        "attacks.mlp.type: got 'nearest', expected one of attribute-encoder, .*auto",
    ),
    (
        "methods.t2t.mechanism=tt2",
        "methods.t2t.mechanism: got 'tt2', expected one of adept, cape, cape-as-coded",
    ),
    (
        "methods.t2t.mechanism={clip: 1.0, type: adpet}",
        "methods.t2t.mechanism: got 'adpet', expected .*Did you mean 'adept'",
    ),
    (
        "methods.t2t.mechanism={grid: 0.001, type: token-representation}",
        "methods.t2t.mechanism: got grid 0.001, expected a power of two",
    ),
    (
        lambda c: c["methods"]["pct2t"].update(mechanism=VECTORS, categories="paper"),
        "methods.pct2t: got categories, expected none with mechanism token-representation",
    ),
    (
        lambda c: c["methods"]["rapt"].update(mechanism=VECTORS, categories=None),
        "methods.rapt: got plain_tokens, expected none with mechanism token-representation",
    ),
    (
        "methods.t2t.mechanism={grid: 0.0009765625, type: token-representation}",
        "sweep.channels: got 't2t', expected one of pct2t, rapt",
    ),
    (
        "methods.pct2t.categories=[nuon]",
        "methods.pct2t.categories.0: got 'nuon', .*Did you mean 'noun'",
    ),
    (
        "methods.rapt.plain_tokens=null",
        "methods.rapt: got reconstruction without plain_tokens, expected both",
    ),
    (
        "methods.pct2t.plain_tokens=0",
        "methods.pct2t.plain_tokens: got 0, expected a section of choice, .*, or null",
    ),
    (
        "methods.rapt.plain_tokens.length=0",
        "methods.rapt.plain_tokens.length: got 0, expected a number greater than 0",
    ),
    (
        "methods.rapt.plain_tokens.choice=frequent",
        "methods.rapt.plain_tokens.choice: got 'frequent', .*Did you mean 'frequency'",
    ),
    (
        "methods.rapt.plain_tokens.vocabulary=9",
        r"methods.rapt.plain_tokens: got vocabulary 9, expected at least length \(10\)",
    ),
    (
        "methods.rapt.reconstruction.reduction=avg",
        "methods.rapt.reconstruction.reduction: got 'avg', expected one of mean, sum",
    ),
    (
        "sweep.tuners=[loar]",
        "sweep.tuners: got 'loar', expected one of full, lora, .*. Did you mean 'lora'",
    ),
    ("sweep.train=[tweets]", "sweep.train: got 'tweets', expected movies"),
    ("sweep.infer=[movies]", "sweep.infer: got 'movies', expected tweets"),
    ("sweep.inversions=[mlp]", "sweep.inversions: got 'mlp', expected one of auto"),
    (
        "sweep.inversions=[bayes]",
        "sweep.inversions: got 'bayes', expected one of autoencoder, averaged, mlp-words, ",
    ),
    (
        "attacks.replay={type: seed-replay}",
        "attacks.replay.type: got 'seed-replay', expected one of attribute-encoder, ",
    ),
    ("sweep.memberships=[mlp]", "sweep.memberships: got 'mlp', expected loss"),
    (
        "sweep.layers=[t2t-76]",
        "sweep.layers: got 't2t-76', expected one of pct2t-50, pct2t-75, rapt-50, "
        "rapt-75, t2t-50, t2t-75. Did you mean 't2t-75'?",
    ),
    (
        "sweep.layers=[t2t-50]; sweep.tune_at=[75]",
        "sweep.layers: got 't2t-50', expected one of pct2t-75, rapt-75, t2t-75. Did",
    ),
    ("sweep.tune_at=[60]", "sweep.tune_at: got '60', expected one of 50"),
    (
        "sweep.probes=[lora]",
        "sweep.probes: got 'lora', expected one of full, p-tuning, prefix, prompt.",
    ),
    (
        "sweep.attacked=[rapt-mean]",
        "sweep.attacked: got 'rapt-mean', expected one of pct2t, rapt, t2t",
    ),
    (
        "~sweep.attacked",
        "sweep.attacked: missing, expected a list .of methods, those attacked and probed: of",
    ),
    (
        "sweep.etas=[inf]",
        "sweep.etas.0: got 'inf', expected a number above 0, .* is the baseline `clean` of",
    ),
    (
        "methods.t2t.labels={epsilon: 0}",
        "methods.t2t.labels.epsilon: got 0, expected a number greater than 0",
    ),
    ("methods.t2t.labels={epsilon: .inf}", "methods.t2t.labels.epsilon: got .*inf"),
    ("methods.clean={mechanism: t2t}", "methods.clean: got the name of a baseline"),
    ("methods.local={mechanism: t2t}", "methods.local: got the name of a baseline"),
    ("synthesizers.clean={type: aug-pe, model: a}", "synthesizers.clean: got the name of a base"),
    ("synthesizers.t2t={type: aug-pe, model: a}", "synthesizers.t2t: got the name of a method"),
    ("sweep.synthesizers=[generator]", "sweep.epsilons: got none with sweep.synthesizers"),
    (
        "sweep.synthesizers=[genrator]; sweep.epsilons=[1]",
        "sweep.synthesizers: got 'genrator', expected one of aug-pe, generator. Did you",
    ),
    ("sweep.epsilons=[replaced-50]", "sweep.epsilons: got replaced-50, expected numbers alone"),
    ("sweep.epsilons=[0]", "sweep.epsilons.0: got 0, expected"),
    (
        "tasks.movies.text_pair=b; sweep.synthesizers=[generator]; sweep.epsilons=[1]",
        "sweep.synthesizers: got some with task movies of pairs, expected tasks of single texts",
    ),
    (
        lambda p: (
            p["tasks"].update(mmlu=p["tasks"]["movies"] | CHOOSE),
            p["sweep"].update(tasks=["movies", "mmlu"], train=["mmlu"], invert=[], infer=[]),
            p["sweep"].update(recognize=[], synthesizers=["aug-pe"], epsilons=[1]),
        ),
        "sweep.synthesizers: got some with task mmlu of kind choose, expected tasks of single",
    ),
    ("synthesizers.generator.counts=1", "synthesizers.generator.counts: got 1, expected a number"),
    ("synthesizers.aug-pe.delta=0", "synthesizers.aug-pe.delta: got 0, expected a number greater"),
    ("synthesizers.aug-pe.rouns=1", "synthesizers.aug-pe: got 'rouns', .*Did you mean 'rounds'"),
    (
        "synthesizers.generator.prompt=a review",
        "synthesizers.generator.prompt: got 'a review', expected a prompt with {label} in it",
    ),
    (
        "synthesizers.generator.tuner=untuned",
        "synthesizers.generator: got tuner untuned, expected one that can train a language model",
    ),
    (
        lambda c: c["sweep"].update(
            layers=["t2t-75"], backbones=["bilstm"], tuners=["full"], denoisers=[]
        ),
        "sweep.layers: got backbone bilstm with an encoder, expected one without",
    ),
    (
        "tuners.lora=tfidf; sweep.denoisers=[posterior-mean]",
        "sweep.denoisers: got some with tuner lora, which reads words alone, expected none",
    ),
    ("sweep.recognitions=[nearest]", "sweep.recognitions: got 'nearest', expected ner"),
    ("attacks.bayes-twice.copies=3", "attacks.bayes-twice.copies: got 3, expected at most 2"),
    (
        lambda c: c["sweep"]["channel_inversions"].append("bayes-context"),
        "attacks.bayes-context.public_text: got 'mine', expected ",
    ),
    (
        "attacks.bayes.prior=none",
        "attacks.bayes.prior: got 'none', expected one of public, release",
    ),
    ("attacks.mlp.hiden=3", "attacks.mlp: got 'hiden', expected .*Did you mean 'hidden'"),
    ("sweep.methods=[t2t, t2t]", "sweep.methods: .*each entry once"),
    (
        "sweep.channels=[rapd]; sweep.channel_inversions=[]",
        "sweep.channels: got 'rapd', expected .*Did you mean 'rapt'",
    ),
    (
        "sweep.denoisers=[posterior]",
        "sweep.denoisers: got 'posterior', expected one of posterior-mean, posterior-pub",
    ),
    (
        "channel.by_frequency=0",
        "channel.by_frequency: got 0, expected a number above 0 with sweep.channel_inversions",
    ),
    (
        "sweep.denoisers=[posterior-mean]; sweep.channels=[rapt-mean]",
        "sweep.channels: got 'rapt-mean', expected one of pct2t, rapt, t2t. Did you mean",
    ),
    (
        "denoisers.posterior-mean.type=posterior-median",
        "denoisers.posterior-mean.type: got 'posterior-median', expected .*"
        "Did you mean 'posterior-mean'",
    ),
    ("~denoisers.posterior-mean.type", "denoisers.posterior-mean.type: missing"),
    (
        lambda c: (
            c["sweep"].update(denoisers=["posterior-mean"]),
            c["studies"].update({"movies-minilm-lora-t2t-75-posterior-mean": {**STUDY}}),
        ),
        "movies-minilm-lora-t2t-75-posterior-mean: got two cells of this name",
    ),
    (
        "calibrate.replaced=[0.5, 1.0]",
        "calibrate.replaced.1: got 1.0, expected a number less than 1",
    ),
    ("channel.frequent=0", "channel.frequent: got 0, expected a number greater than 0"),
    ("embedding=glove", "embedding: got 'glove', expected minilm"),
    (
        "sweep.backbones=[bilstm]",
        r"sweep.tuners \(with backbone bilstm\): got 'lora', expected full.$",
    ),
    (
        lambda c: c["studies"]["reconstruction-mean"].update(backbone="bilstm", tuner="prefix"),
        r"studies.reconstruction-mean.tuner \(with backbone bilstm\): got 'prefix', ",
    ),
    ("sweep.train=[moviez]", "sweep.train: got 'moviez', expected movies. Did you mean 'movies'"),
    (
        "public_labels={movies: movies}",
        "public_labels.movies: got movies itself, expected the name",
    ),
    ("public_labels={movies: twets}", "public_labels.movies: got 'twets', expected tweets. Did"),
    (
        "public_labels={movies: tweets}",
        "public_labels.movies: got tweets with texts of kind classify, labels none, expected a "
        "task with texts of kind classify, labels negative, positive.$",
    ),
    (
        "tasks.tweets.label={column: y, names: [no, yes]}; public_labels={movies: tweets}",
        "public_labels.movies: got tweets with texts of kind classify, labels no, yes, expected",
    ),
    ("public_labels={tweets: movies}", "public_labels: got 'tweets', expected movies."),
    (
        lambda c: (
            c["methods"].update(vectors={"mechanism": "purkayastha"}),
            c["sweep"]["methods"].append("vectors"),
            add_public_labels(c),
        ),
        "methods.vectors: got a mechanism that releases .*, with public_labels, expected one that "
        "releases words.$",
    ),
    (
        "studies.reconstruction-mean.task=moviez",
        "studies.reconstruction-mean.task: got 'moviez', expected movies.",
    ),
    (
        "sweep.train=[moviez]; sweep.layers=[t2t-75]",
        "sweep.train: got 'moviez', expected movies. Did you mean 'movies'",
    ),
    (
        "tuners.asis=untuned; sweep.tuners=[asis]",
        r"sweep.tuners \(with task movies, of kind classify\): got 'asis', expected one of",
    ),
    (
        lambda c: (
            c["tasks"]["movies"].update(CHOOSE),
            c["tuners"].update(probe="linear-probe"),
            c["sweep"].update(probes=["probe"]),
        ),
        r"sweep.probes \(with task movies, of kind choose\): got 'probe', expected one of full",
    ),
    (
        lambda c: (
            c["tasks"]["movies"].update(CHOOSE),
            c["sweep"].update(backbones=["bilstm"], tuners=["full"]),
        ),
        "backbones.bilstm.encoder: got one with task movies, of kind choose, expected null",
    ),
    (
        "tasks.movies.kind=choose; tasks.movies.choices=choices; sweep.layers=[t2t-75]",
        "sweep.layers: got task movies, of kind choose, expected kind classify.",
    ),
    (
        "tasks.tweets.kind=choose; tasks.tweets.choices=choices",
        "tasks.tweets: got choices without a label, expected one, whose names are letters.",
    ),
    ("tasks.movies.choices=choices", "tasks.movies: got 'choices', expected one of attributes, "),
    (
        "tasks.movies.kind=choose",
        r"tasks.movies.choices: missing, expected a value \(column of the list of a question's",
    ),
    ("tasks.movies.protect=entities", "tasks.movies: got 'protect', expected one of"),
    ("tasks.movies.group=seen", "tasks.movies: got 'group', expected one of"),
    (
        "tasks.movies.kind=generate; tasks.movies.references=texts",
        "tasks.movies: got 'label', expected one of",
    ),
    (
        "tasks.movies.kind=generate; ~tasks.movies.label",
        r"tasks.movies.references: missing, expected a value \(column of the list of texts",
    ),
    (
        "tasks.movies.kind=[choose]",
        r"""tasks.movies.kind: got "\['choose'\]", expected one of""",
    ),
    (
        "tasks.movies.kind=chose",
        "tasks.movies.kind: got 'chose', expected one of choose, classify, generate. Did you",
    ),
    (
        "backbones.bilstm.encoder.type=lstm",
        "backbones.bilstm.encoder.type: got 'lstm', expected bilstm. Did you mean 'bilstm'",
    ),
    (
        "backbones.minilm.encoder=bilstm",
        "backbones.minilm.encoder: got 'bilstm', expected a section of dropout, .*, or null",
    ),
    (
        "studies.reconstruction-mean.method=rapd",
        "studies.reconstruction-mean.method: got 'rapd', .*Did you mean 'rapt'",
    ),
    (lambda c: c["tasks"].update(Bad=c["tasks"]["movies"]), "tasks.Bad: got 'Bad', expected lower"),
    (
        "backbones.minilm.model=a/b@main",
        "backbones.minilm.model: got 'a/b@main', expected owner/name@REVISION",
    ),
    ("tasks.movies.rows.test=null", "tasks.movies: got no rows.test, expected a number"),
    (
        lambda c: c["tasks"]["movies"].update(
            source=FILES, authors=["id"], rows={"train": None, "test": None}
        ),
        "tasks.movies: got no rows.test, expected a number, as authors are divided.$",
    ),
    (
        "tasks.tweets.authors=[Author]",
        "tasks.tweets: got authors 'Author', expected another column or null: attributes."
        "author, inferred from it, needs each author on both sides.$",
    ),
    ("tasks.tweets.authors=[]", "tasks.tweets.authors: got \\[\\], expected 1 or more entries"),
    (
        "tasks.tweets.attributes.author.type=value",
        "tasks.tweets.attributes.author.type: got 'value', expected one of bins, most-"
        "frequent, values. Did you mean 'values'",
    ),
    (
        "~tasks.tweets.attributes.author.type",
        "tasks.tweets.attributes.author.type: missing, expected one of bins, most-frequent",
    ),
    (
        lambda c: c["tasks"]["tweets"]["attributes"].update(author=BINS | {"least": 110}),
        r"tasks.tweets.attributes.author: got least 110, expected less than most ",
    ),
    (
        lambda c: c["tasks"]["tweets"]["attributes"].update(author=BINS | {"count": 1}),
        "tasks.tweets.attributes.author.count: got 1, expected a number greater than",
    ),
    (
        lambda c: c["tasks"]["tweets"]["attributes"].update(author=BINS | {"bins": 3}),
        "tasks.tweets.attributes.author: got 'bins', expected one of column, count, edges, ",
    ),
    (
        lambda c: c["tasks"]["tweets"]["attributes"].update(author=BINS | {"edges": [30]}),
        "tasks.tweets.attributes.author: got both of count and edges, expected one of them",
    ),
    (
        lambda c: c["tasks"]["tweets"]["attributes"].update(author=BINS | {"count": None}),
        "tasks.tweets.attributes.author: got neither of count and edges, expected one of them",
    ),
    *(
        (
            lambda c, edges=edges: c["tasks"]["tweets"]["attributes"].update(
                author=BINS | {"count": None, "edges": edges}
            ),
            f"tasks.tweets.attributes.author: got edges {said}, expected ascending ",
        )
        for edges, said in (([10, 30], "10, 30"), ([40, 30.5], "40, 30.5"), ([110], "110"))
    ),
    ("sweep=null", "sweep: got None, expected a section of attacked, "),
    (
        "sweep.tasks=[movie, tweets]",
        "sweep.tasks: got 'movie', expected one of movies, tweets. Did you mean 'movies'",
    ),
    (
        lambda c: c["studies"].update({"movies-minilm-lora-t2t-75": {**STUDY}}),
        "movies-minilm-lora-t2t-75: got two cells of this name",
    ),
    (
        lambda c: c["tasks"].update(studies=c["tasks"]["movies"]),
        "tasks.studies: got the name of the studies' folder",
    ),
    (
        "calibrate.categories=[all, noun]",
        "calibrate.categories: got all, noun, expected 'all' alone",
    ),
    ("calibrate.words=1", "calibrate.words: got 1, expected a number greater than"),
    ("gate.min_characters=1000000", "gate: got min_characters 1000000, "),
    ("seed=1099511627776", "seed: got 1099511627776, expected a number less than 2147483648"),
]


@pytest.mark.parametrize(("edit", "line"), WRONG)
def test_one_line_names_the_key_the_given_and_the_allowed(edit: str | Edit, line: str) -> None:
    found = lines(edit)
    assert len(found) == 1
    assert re.match(line, found[0]), found[0]


@pytest.mark.parametrize("private", [{"unit": "author"}, {"policy": {}}])
def test_authors_and_policies_are_taken_where_clean_text_alone_is_tuned_on(
    private: dict[str, object],
) -> None:
    content = copy.deepcopy(EVERY)
    content["tasks"]["movies"]["authors"] = ["id"]
    content["sweep"]["tune_at"], content["studies"] = [], {}
    content["tuners"]["lora"] = {"type": "lora", "private": {"epsilon": 3, **private}}
    params.validate(content)


def test_every_problem_is_told_at_once() -> None:
    assert (
        len(lines(lambda c: (c.update(seed=-1), c.update(tunners=1), c["sweep"].pop("tasks")))) == 3
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


@given(st.sampled_from(sorted(EVERY)), st.none() | st.integers() | st.text() | st.lists(st.text()))
def test_a_section_of_another_type_is_one_problem_of_that_key(section: str, value: object) -> None:
    content = copy.deepcopy(EVERY) | {section: value}
    try:
        params.validate(content)
    except RaptError as error:
        assert all(
            section.split(".")[0] in line or "sweep" in line or "studies" in line
            for line in str(error).split("\n")
        )


@pytest.mark.parametrize(
    ("edit", "line"),
    [
        (lambda c: c["sweep"].update(methods=["t2tt", "pct2t"]), "sweep.methods: got 't2tt', .*"),
        (lambda c: c["methods"].update(t2tt=c["methods"].pop("t2t")), "sweep.methods: got 't2t'.*"),
        (lambda c: c["sweep"].update(tunrs=c["sweep"].pop("tuners")), "sweep: got 'tunrs', .*"),
        (lambda c: c.update(embeding=c.pop("embedding")), "params.yaml: got 'embeding', .*"),
    ],
)
def test_one_typo_is_one_line_that_does_not_advise_it(edit: Edit, line: str) -> None:
    """The lists that read a misspelled one advised its typo."""
    (got,) = lines(edit)
    assert re.fullmatch(line, got)
