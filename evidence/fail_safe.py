"""Try what once looked protected and was not: `python -m evidence.fail_safe`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from rapt import paths, table_cache
from rapt.privacy.categories import VERBATIM
from rapt.privacy.mechanisms import PCT2T
from rapt.privacy.privatizer import Privatizer
from rapt.text.table import EmbeddingTable
from rapt.text.tagging import Tagger
from rapt.utils import files
from rapt.utils.process import no_telemetry

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "evidence/fail-safe.md"
PROVIDER = "PROVIDER"
CHINESE = "王小明住在北京市朝阳区建国路八十八号。他每天早上坐地铁去上班，晚上回家给孩子做饭。" * 3
FRENCH = "Au commencement, Dieu créa les cieux et la terre. La terre était informe et vide. " * 3
ADJECTIVES = "She is unfortunately muslim and black, diabetic, depressed and pregnant."
HIDDEN = "a\x1b[31m slow\x07 gr\u200beat \u202eplot\u202c <b>here</b>"
SIX = "My sister moved to Lisbon today"


class Case(NamedTuple):
    """An example: its title, what once happened, and what is tried, on which text.

    That is the arguments of `rapt`, or a function that says what it finds in one line.
    """

    title: str
    before: str
    tried: Sequence[str] | Callable[[str], str]
    text: str = ""


def pushed(_: str) -> str:
    """Ask DVC which outs no push takes along."""
    from dvc.repo import Repo

    with Repo(ROOT) as repo:
        outs = [out for stage in repo.index.stages for out in stage.outs]
        kept = {"/".join(out.def_path.split("/")[:2]) for out in outs if not out.can_push}
        text = (out for out in outs if re.match(r"data/(raw|tagged)|.*/clean$", out.def_path))
        return f"kept: {', '.join(sorted(kept))}; text pushed: {sum(o.can_push for o in text)}"


def in_pipeline(text: str) -> str:
    """Prepare a text as the stage `privatize` does."""
    (tagged,) = Tagger(paths.TAGGER).texts([text])
    table = EmbeddingTable(table_cache.cached_table())
    made = Privatizer(table=table, mechanism=PCT2T(), eta=50, categories=["paper"])
    ready = made.text(tagged.words, tagged.pos, tagged.identifiers)
    words = zip(ready.words, ready.groups, strict=True)
    return " ".join(word if group == VERBATIM else "(noise)" for word, group in words)


def release(*args: str) -> tuple[str, ...]:
    """The arguments of a release of the text."""
    return ("privatize", "in.txt", "out.txt", *args)


ETA = ("--eta", "50")
LOOK = (*ETA, "--preview", "--categories")
CASES = [
    Case("`dvc push`", "It uploaded the text without noise.", pushed),
    Case("Chinese", "Whole sentences passed.", release(*LOOK, "paper"), CHINESE),
    Case(
        "Chinese, unchecked",
        "One of four sentences passed.",
        release(*LOOK, "paper", "--language", "any"),
        CHINESE,
    ),
    Case("French", "622 of 4,862 words passed.", release(*LOOK, "paper"), FRENCH),
    Case(
        "Adjectives, the paper's categories",
        "They stayed, and the statement did not name them.",
        release(*LOOK, "paper"),
        ADJECTIVES,
    ),
    Case("Adjectives, content", "There was no such set.", release(*LOOK, "content"), ADJECTIVES),
    Case(
        "Addresses in the pipeline",
        "Links, handles and numbers stayed.",
        in_pipeline,
        "Write to @bob or see https://bob.example.org/a at 7",
    ),
    Case("Control characters", "They passed.", release(*LOOK, "content"), HIDDEN),
    Case("η of 10⁹", "It returned the text and called it protected.", release("--eta", "1e9"), SIX),
    Case(
        "SanText at η 50",
        "It replaced none of six words.",
        release(*ETA, "--mechanism", "santext"),
        SIX,
    ),
    Case(
        "A provider that claims η of 10⁹",
        "All words were sent as they are.",
        ("predict", "--as-told", "--adapter", PROVIDER, SIX),
    ),
]


def tried(case: Case) -> tuple[int, list[str]]:
    """Run an example in an empty folder; return its exit status and what it printed."""
    if callable(case.tried):
        return 0, [case.tried(case.text)]
    with TemporaryDirectory() as folder, provider() as url:
        Path(folder, "in.txt").write_text(case.text, encoding="utf-8")
        args = [url if arg == PROVIDER else arg for arg in case.tried]
        program = [sys.executable, "-c", "from rapt.cli import main; main()"]
        done = subprocess.run([*program, *args], cwd=folder, text=True, capture_output=True)
        made = sorted(path.name for path in Path(folder).glob("out*"))
    lines = (done.stdout + done.stderr).replace(url, PROVIDER).splitlines()
    told = [line for line in lines if not re.match("after: |before: |making ", line)]
    return done.returncode, [*told, f"files: {', '.join(made) or 'none'}"]


@contextmanager
def provider() -> Iterator[str]:
    """A server with nothing but a contract that claims an η of 10⁹."""
    statement: dict[str, object] = dict.fromkeys(
        ("task", "method", "metric", "protection", "guarantee"), "told"
    )
    claim = statement | {"mechanism": "t2t", "parameters": {}, "categories": None, "eta": "1e9"}
    claim |= {
        "protect": "words",
        "embedding": "minilm",
        "table_sha256": "0" * 64,
        "not_covered": [],
    }
    contract: dict[str, object] = {
        "statement": claim,
        "labels": ["no", "yes"],
        "kind": "classify",
        "segments": 1,
        "plain": [],
    }
    contract |= dict.fromkeys(("backbone_sha256", "quantize", "denoiser"))
    contract |= {"backbone": "b", "precision": "float32", "max_tokens": 64}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(contract).encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def shown(case: Case) -> str:
    """The example as a section of the page."""
    status, lines = tried(case)
    command = case.tried.__name__ if callable(case.tried) else " ".join(("rapt", *case.tried))
    given = f"    # of {case.text[:60]!r}\n" if case.text else ""
    body = "\n".join(f"    {line}"[:240] for line in lines)
    return (
        f"## {case.title}\n\nBefore: {case.before}\n\n{given}    $ {command}\n{body}\n"
        f"    exit status {status}\n"
    )


def main() -> None:
    """Write evidence/fail-safe.md."""
    no_telemetry()
    head = (
        "# What looked protected and was not\n\n"
        "Each example once released more than it said. `python -m evidence.fail_safe` runs them "
        "on the present code and writes this page. Released texts are left out: their noise is "
        "fresh each time.\n\n"
    )
    with files.atomic(PAGE) as scratch:
        scratch.write_text(head + "\n".join(map(shown, CASES)), encoding="utf-8")


if __name__ == "__main__":
    main()
