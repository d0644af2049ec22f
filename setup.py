"""Adds the files of a project to the wheel; everything else is in pyproject.toml."""

from pathlib import Path
from runpy import run_path
from shutil import rmtree

from setuptools import setup
from setuptools.command.build_py import build_py

project = run_path("rapt/project.py")


class BuildWithTemplate(build_py):
    """Build the wheel's package with the files that `rapt new` copies."""

    def run(self) -> None:
        """Build the package, and copy the template into it outside an editable install."""
        super().run()
        if not self.editable_mode:
            template = Path(self.build_lib, "rapt", project["IN_WHEEL"])
            rmtree(template, ignore_errors=True)  # what an earlier build left
            project["copy"](Path(), template)

    def get_source_files(self) -> list[str]:
        """Return the files of an sdist, with those of a project."""
        tops = (Path(name) for name in project["FILES"])
        paths = (path for top in tops for path in ([top] if top.is_file() else top.rglob("*")))
        return [*super().get_source_files(), *(str(path) for path in paths if path.is_file())]


setup(cmdclass={"build_py": BuildWithTemplate})
