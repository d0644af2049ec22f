"""The server that a project keeps for its flows."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from prefect.context import use_profile
from prefect.settings import PREFECT_API_URL, Profile, temporary_settings

from pipelines import server
from rapt.utils.errors import RaptError
from tests.conftest import ROOT, wait_until
from tests.pipelines.conftest import PATIENCE


@pytest.mark.slow
def test_flows_use_the_projects_server_while_it_runs(empty: Path, prefect_home: Path) -> None:
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
    wait_until(server.ADDRESS.exists)
    with temporary_settings({PREFECT_API_URL: None}), server.running():
        assert PREFECT_API_URL.value() == f"http://127.0.0.1:{port}/api"
        assert httpx.get(f"http://127.0.0.1:{port}/api/health").is_success
    kept.send_signal(signal.SIGINT)
    assert kept.wait(PATIENCE) == 0
    assert not server.ADDRESS.exists()
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://127.0.0.1:{port}/api/health")


def test_an_address_that_nobody_answers_is_not_used(empty: Path) -> None:
    server.ADDRESS.parent.mkdir()
    server.ADDRESS.write_text("http://127.0.0.1:9/api")  # of a server that was killed
    assert server._of_project() is None


@pytest.mark.slow
def test_a_profile_s_server_is_for_pools_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    profile = Profile(name="cloud", settings={PREFECT_API_URL: "http://127.0.0.1:9/api"})
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    with use_profile(profile):
        assert not server._is_named(pool=False)
        for pool, named in ((True, {}), (False, {"PREFECT_API_URL": "http://127.0.0.1:9/api"})):
            for name, value in named.items():
                monkeypatch.setenv(name, value)
            with pytest.raises(RaptError, match=r"^PREFECT_API_URL: got no answer at [^\n]*$"):
                server.begin(pool=pool)
