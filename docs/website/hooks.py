"""Pages of the website that stand at the top of the repository, and links to files that are pages here."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File
from nbconvert import MarkdownExporter

ROOT = Path(__file__).resolve().parents[2]
BLOB = "https://github.com/onnxgrad/onnxgrad/blob/main/"
TREE = "https://github.com/onnxgrad/onnxgrad/tree/main/"
# Files at the top, and their pages.
PAGES = {
    "OPERATORS.md": "operators.md",
    "COMPATIBILITY.md": "compatibility.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that docs/ does not hold, and the notebooks as pages."""
    for path in sorted((ROOT / "docs" / "tutorials").glob("*.ipynb")):
        page = f"tutorials/{path.stem}.md"
        body, resources = MarkdownExporter().from_filename(str(path), resources={"unique_key": path.stem})
        files.remove(files.get_file_from_path(f"tutorials/{path.name}"))
        link = f"[This notebook in the repository]({BLOB}docs/tutorials/{path.name})\n"
        files.append(File.generated(config, page, content=f"{body}\n{link}"))
        for name, content in resources["outputs"].items():
            files.append(File.generated(config, f"tutorials/{name}", content=content))
    for name, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text(encoding="utf-8")))
    return files


NAMES = re.compile(r"<!-- names of (\S+) -->\n(.*?)<!-- end -->", re.DOTALL)


def with_whole_reference(markdown: str) -> str:
    """Put the reference made from docstrings in the place of the lists of names that scripts/write_reference writes."""
    alone = len(NAMES.findall(markdown)) == 1

    def directive(found: re.Match[str]) -> str:
        if not found[2].startswith("**"):  # one class or function
            return f"::: {found[1]}"
        level = "\n      heading_level: 2" if alone else "\n      show_root_toc_entry: false"
        return f"::: {found[1]}\n    options:\n      show_root_heading: false{level}"

    return NAMES.sub(directive, markdown)


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Let links to files of the repository lead to their pages where there are any, else to the repository."""
    here = page.file.src_uri
    if here == "index.md":
        page.meta["hide"] = ["toc"]  # the first screen takes the width
    if here.startswith("reference/"):
        markdown = with_whole_reference(markdown)

    def address(link: str) -> str:
        path, _, anchor = link.removeprefix(BLOB).partition("#")
        if path.endswith(".ipynb") and not link.startswith(BLOB):
            return path.removesuffix("ipynb") + "md"
        if here in PAGES.values() or link.startswith(BLOB):
            name = PAGES.get(path, path.removeprefix("docs/"))
            if files.get_file_from_path(name) is not None:
                return posixpath.relpath(name, posixpath.dirname(here) or ".") + (f"#{anchor}" if anchor else "")
            if not link.startswith("http"):
                return (TREE if (ROOT / path).is_dir() else BLOB) + link
        return link

    inline = re.sub(r"\]\(([^)\s#][^)\s]*)\)", lambda found: f"]({address(found[1])})", markdown)
    return re.sub(r"^(\[[^\]]+\]: )(\S+)$", lambda found: found[1] + address(found[2]), inline, flags=re.MULTILINE)
