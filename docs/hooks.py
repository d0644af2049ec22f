"""Hooks of the site (mkdocs.yml): pages from outside docs/, and the API of each package of rapt/.

Links in the Markdown files are those of the repository, so that they work there. Here each is
rewritten to the page's place on the site: README.md is its first page, docs/X is X, and evidence/
keeps its name. A page that loads anything from another host is refused.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
ELSEWHERE = re.compile(r'<(?:script|link|img)\b[^>]*(?:src|href)="(?:https?:)?//[^"]*"')
LINK = re.compile(r"(\]\()(?!https?:|#|mailto:)([^)#\s]+)(#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the packages' pages to the navigation."""
    pages = [{f"rapt.{name}": f"api/{name}.md"} for name in packages()]
    config.nav = [*(config.nav or []), {"API": pages}]
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the README, the evidence, the API, and what sorts tables."""
    outside = [ROOT / "README.md", *(ROOT / "evidence").glob("**/*.md")]
    for path in outside:
        place = place_of(path.relative_to(ROOT).as_posix())
        assert place
        files.append(File.generated(config, place, abs_src_path=str(path)))
    for name in packages():
        page = f"# rapt.{name}\n\n::: rapt.{name}\n    options: {{show_root_heading: false}}\n"
        files.append(File.generated(config, f"api/{name}.md", content=page))
    script = ROOT / "rapt/reporting/sortable.js"
    files.append(File.generated(config, script.name, abs_src_path=str(script)))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point the repository's links to the site's pages."""
    here = source_of(page.file.src_uri)

    def rewrite(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(here), match[2]))
        place = place_of(target)
        if place is None:
            return match[0]
        link = posixpath.relpath(place, posixpath.dirname(page.file.src_uri) or ".")
        return f"{match[1]}{link}{match[3] or ''})"

    return LINK.sub(rewrite, markdown)


def on_post_page(output: str, *, page: Page, config: MkDocsConfig) -> str:
    """Refuse a page that loads anything from another host."""
    if found := ELSEWHERE.search(output):
        raise PluginError(f"{page.file.src_uri}: got {found[0]}, expected nothing from other hosts")
    return output


def packages() -> list[str]:
    """Each package of rapt/, by name."""
    return sorted(path.parent.name for path in (ROOT / "rapt").glob("*/__init__.py"))


def place_of(path: str) -> str | None:
    """The place of a file of the repository on the site; None where it has none."""
    top, _, rest = path.partition("/")
    match top:
        case "README.md":
            return "index.md"
        case "docs":
            return rest
        case "evidence":
            return path
    return None


def source_of(place: str) -> str:
    """The file of the repository behind a page of the site."""
    if place == "index.md":
        return "README.md"
    return place if place.startswith("evidence/") else f"docs/{place}"
