"""One line for each problem: the key, the given and the allowed."""

import copy
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rapt import params
from rapt.utils.errors import RaptError
from tests.conftest import ROOT
from tests.every_section import EVERY, Edit, add_public_labels, lines

CHOOSE = {"kind": "choose", "choices": "choices"}
# Changes as `KEY=VALUE; ~KEY`, and the line that each leads to, below it.
EDITS = (ROOT / "tests/wrong_params.txt").read_text(encoding="utf-8").splitlines()[1:]
# Changes that are no such text.
WRONG: list[tuple[str | Edit, str]] = [
    (
        lambda c: c["sweep"]["channel_inversions"].append("bayes-context"),
        "attacks.bayes-context.public_text: got 'mine', expected ",
    ),
    (
        lambda c: (
            c["tasks"].update(mmlu=c["tasks"]["movies"] | CHOOSE),
            c["sweep"].update(tasks=["movies", "mmlu"], train=["mmlu"], invert=[], infer=[]),
            c["sweep"].update(recognize=[], synthesizers=["aug-pe"], epsilons=[1]),
        ),
        "sweep.synthesizers: got some with task mmlu of kind choose, expected tasks of single",
    ),
    (
        lambda c: (
            c["methods"].update(vectors={"mechanism": "purkayastha"}),
            c["sweep"]["methods"].append("vectors"),
            add_public_labels(c),
        ),
        "methods.vectors: got a mechanism that releases .*, with public_labels, expected one that "
        "releases words.$",
    ),
    (lambda c: c["tasks"].update(Bad=c["tasks"]["movies"]), "tasks.Bad: got 'Bad', expected lower"),
    (
        lambda c: c["tasks"].update(studies=c["tasks"]["movies"]),
        "tasks.studies: got the name of the studies' folder",
    ),
]


@pytest.mark.parametrize(("edit", "line"), [*zip(EDITS[::2], EDITS[1::2], strict=True), *WRONG])
def test_one_line_names_the_key_the_given_and_the_allowed(edit: str | Edit, line: str) -> None:
    found = lines(edit)
    assert len(found) == 1
    assert re.match(line.strip(), found[0]), found[0]


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
