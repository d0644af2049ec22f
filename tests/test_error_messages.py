"""Every error of the code: one line that names the key, what was got and what is expected."""

import ast
import re
from collections.abc import Iterator

import pytest

from rapt.utils.errors import RaptError, described, not_allowed, wrong_eta
from tests.conftest import ROOT

# Errors that tell how a run ended, and not what a user can repair.
OF_RUNS = {"CommandError", "Stopped"}
FIXABLE = {"BudgetSpent", "OverBudget", "Unreachable"}
# Methods that put a place before the line that is their last argument.
PLACED = ("self._error", "self.failed", "trainer.failed")
RAISED = {"RaptError", "problem", *PLACED, *FIXABLE, *OF_RUNS}
# Messages of another form: nothing was given, so nothing else can be expected.
OTHERS = ("Another flow is already running in this workspace",)
# Functions that make messages of this form; the last one is tested with the data.
HELPERS = ("not_allowed", "wrong_eta", "missing_column")
KEYED = re.compile(r"(?!got )[^:]+: (.*: )?got ")
# Classes whose message is a sentence, or that is only searched.
WORDED = {
    "BudgetSpent",
    "CommandError",
    "DvcException",
    "OSError",
    "RaptError",
    "ValueError",
    "csv.Error",
    "sqlite3.Error",
}
Site = tuple[str, str, str]  # path and line, what is called, the message


def test_the_classes_of_errors_are_known() -> None:
    found = {
        node.name
        for _, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and RAISED & {ast.unparse(base) for base in node.bases}
    }
    assert found == FIXABLE | OF_RUNS


def test_every_message_is_one_line_with_what_was_got_and_what_is_expected() -> None:
    messages = [found for path, tree in modules() for found in sites(path, tree)]
    assert len(messages) > 150
    for where, raised, message in messages:
        assert "\n" not in message.strip(), where
        forwards = message == "…" or (raised in PLACED and message.endswith(": …"))
        if raised not in OF_RUNS and not forwards and not message.startswith(OTHERS):
            assert "got " in message and "expected " in message, f"{where}: {message}"
            # pydantic puts the key before a `problem`, and the methods their place.
            placed = raised == "problem" or raised in PLACED
            if not placed:
                assert KEYED.match(message), f"{where}: {message}"


def test_messages_made_by_a_function_have_the_form_too() -> None:
    for message in (not_allowed("key", "x", ["y"]), "key: " + wrong_eta("x")):
        assert message.startswith("key: got 'x', expected ")


def test_no_message_is_a_bare_exception_text() -> None:
    """That of a KeyError is a mere name, so any class but those named here is shown with it."""
    shown = [
        (f"{path}:{handler.lineno}", ast.unparse(ast.Module(handler.body, [])))
        for path, tree in modules()
        for handler in ast.walk(tree)
        if isinstance(handler, ast.ExceptHandler) and handler.name and not caught(handler) <= WORDED
    ]
    bare = [
        where
        for where, body in shown
        if re.search(r"str\(error\)|\{error[}!]|print\(error", body) and "type(error)" not in body
    ]
    assert len(shown) > 10, "it walks handlers"
    assert bare == []


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (KeyError("attack"), "KeyError: 'attack'"),
        (OSError("disk\nfull"), "OSError: disk full"),
        (AssertionError(), "AssertionError"),
        (RaptError("key: got 1, expected 2."), "key: got 1, expected 2."),
    ],
)
def test_an_error_is_described_by_its_class_and_message(error: Exception, line: str) -> None:
    assert described(error) == line


def caught(handler: ast.ExceptHandler) -> set[str]:
    """The classes that a handler catches."""
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return {ast.unparse(kind) for kind in kinds if kind}


def modules() -> Iterator[tuple[str, ast.Module]]:
    for folder in ("rapt", "stages", "pipelines"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield str(path.relative_to(ROOT)), ast.parse(path.read_text())


def sites(path: str, tree: ast.Module) -> Iterator[Site]:
    """Yield each message that a module raises, and by what, with … for what is filled in."""
    functions = {n.name: n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
    placing = {f"self.{name}": made for name, made in functions.items()}
    placed = {n for name in PLACED for n in ast.walk(placing.get(name, ast.Module([], [])))}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not node.args or node in placed:
            continue
        if (raised := ast.unparse(node.func)) in RAISED:
            given = node.args[-1]
            made = functions.get(ast.unparse(given.func)) if isinstance(given, ast.Call) else None
            returned = [n for n in ast.walk(made) if isinstance(n, ast.Return)] if made else []
            for message in [n.value for n in returned if n.value] or [given]:
                yield f"{path}:{node.lineno}", raised, template(message)


def template(message: ast.expr) -> str:
    match message:
        case ast.Constant():
            return str(message.value)
        case ast.JoinedStr():
            return "".join(map(template, message.values))
        case ast.BinOp():
            return template(message.left) + template(message.right)
        case ast.FormattedValue():
            return template(message.value)
        case ast.Call() if ast.unparse(message.func).endswith(HELPERS):
            key = "" if ast.unparse(message.func).endswith("wrong_eta") else "key: "
            return f"{key}got …, expected …"
    return "…"
