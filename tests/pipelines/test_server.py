"""The server that a project keeps for its flows."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from pipelines import server
from rapt.utils.errors import RaptError
from tests.conftest import ROOT
from tests.pipelines.conftest import Toy
from tests.pipelines.test_reproduce import wait_until


@pytest.mark.slow
def test_flows_use_the_projects_server_while_it_runs(
    tmp_path: Path, prefect_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    port = server._free_port()
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PREFECT_HOME": str(prefect_home)}
    command = [sys.executable, "-m", "pipelines.server", "--port", str(port)]
    # As in a terminal: what a shell starts in the background, these tests perhaps, is deaf to it.
    kept = subprocess.Popen(
        command,
        env=environment,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    wait_until(server.ADDRESS.exists, 120)
    with temporary_settings({PREFECT_API_URL: None}), server.running():
        assert PREFECT_API_URL.value() == f"http://127.0.0.1:{port}/api"
        assert httpx.get(f"http://127.0.0.1:{port}/api/health").is_success
    kept.send_signal(signal.SIGINT)
    assert kept.wait(60) == 0
    assert not server.ADDRESS.exists()
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://127.0.0.1:{port}/api/health")


def test_an_address_that_nobody_answers_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    server.ADDRESS.parent.mkdir()
    server.ADDRESS.write_text("http://127.0.0.1:9/api")  # of a server that was killed
    assert server._of_project() is None


PROFILES = """\
active = "elsewhere"
[profiles.elsewhere]
PREFECT_API_URL = "http://127.0.0.1:9/api"
PREFECT_API_KEY = "pnu_key"
"""


@pytest.mark.slow
def test_a_flow_has_its_own_server_whatever_profile_and_proxy_are_around(
    toy: Toy, expected: dict[str, str], prefect_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profiles = toy.root / ".rapt/profiles.toml"
    profiles.write_text(PROFILES)
    monkeypatch.setenv("PREFECT_PROFILES_PATH", str(profiles))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # nothing listens there
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    done = toy.without_server(prefect_home).flow()
    assert done.returncode == 0, done.stdout + done.stderr
    assert toy.outcome() == expected


def test_a_profile_names_the_server_of_several_machines_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    message = r"^PREFECT_API_URL: got no answer at http://127\.0\.0\.1:9/api, expected a Prefect"
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
        assert not server._is_named(shared=False)
        with pytest.raises(RaptError, match=message):
            server.begin(shared=True)
        monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
        with pytest.raises(RaptError, match=message):
            server.begin()
