"""The stage of the report."""

import pytest

from rapt import paths
from rapt.params import Params
from rapt.reporting import mlflow_mirror
from stages import report


@pytest.mark.slow  # it draws a whole page
def test_a_failing_mirror_does_not_fail_the_stage(
    experiment: Params, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(params: Params) -> None:
        raise OSError("disk\nfull")

    monkeypatch.setattr(mlflow_mirror, "sync", fail)
    report.main()
    assert paths.REPORT.is_file()
    assert capsys.readouterr().err == (
        "warning: MLflow is not up to date (OSError: disk full). The report is complete; rapt sync "
        "tries again.\n"
    )
