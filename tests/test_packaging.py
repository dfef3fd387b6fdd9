"""The version has one source, and links lead somewhere."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import onnxgrad

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
REPOSITORY = PROJECT["project"]["urls"]["Source"]
PAGES = sorted(
    path for pattern in ("*.md", "docs/**/*.md", "models/*/*.md") for path in ROOT.glob(pattern) if "node_modules" not in path.parts
)


def links_of(text):
    """Addresses that a page points to, but those in its code"""
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)
    return re.findall(r"\]\(([^)\s]+)\)", prose) + re.findall(r"^\[[^\]]+\]: (\S+)$", prose, re.MULTILINE)


def path_of(link):
    """The path in the tree that an address in the repository stands for; None for addresses elsewhere"""
    found = re.fullmatch(re.escape(REPOSITORY) + r"/(blob|tree)/main/([^#]+)(#.*)?", link)
    return found and (found[1], ROOT / found[2])


def test_the_version_has_one_source():
    assert "version" not in PROJECT["project"]
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert PROJECT["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "onnxgrad.version.__version__"}


def test_the_changelog_begins_with_the_version():
    first = re.search(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert re.fullmatch(re.escape(onnxgrad.__version__) + r" \(\d{4}-\d\d-\d\d\)", first[1])


def test_the_citation_names_what_the_package_does():
    lines = (ROOT / "CITATION.cff").read_text().splitlines()
    assert "cff-version: 1.2.0" in lines and f"title: {PROJECT['project']['name']}" in lines
    assert f"license: {PROJECT['project']['license']}" in lines and f"  - name: {PROJECT['project']['authors'][0]['name']}" in lines


@pytest.mark.process
def test_the_command_prints_the_version():
    done = subprocess.run([sys.executable, "-m", "onnxgrad", "--version"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == f"onnxgrad {onnxgrad.__version__}\n"


def missing_links(page):
    """Links of a page that lead nowhere in the tree."""
    for link in links_of(page.read_text()):
        if link.startswith("https://"):
            kind, path = path_of(link) or ("tree", ROOT)
            if not (path.is_dir() if kind == "tree" else path.is_file()):
                yield link
        elif not link.startswith("#") and not (page.parent / link.partition("#")[0]).exists():
            yield link


def missing_paths(page):
    """Paths that a page names and that do not exist.

    Modules, tests and scripts may be named from the root or within the package, with stars.
    """
    prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for name in re.findall(r"`((?:\w+/)+[\w*]+(?:\.\w+)?/?)[:`]", prose):
        if not any(any(folder.glob(name.rstrip("/"))) for folder in (ROOT, ROOT / "onnxgrad", page.parent)):
            yield name


def missing_tests(page):
    """Tests that a page names, as ``tests/internal/test_files.py::TestDamagedState``, and that do not exist."""
    for path, name in re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page.read_text()):
        if not re.search(rf"^ *(class|def) {name}\b", (ROOT / path).read_text(), re.MULTILINE):
            yield f"{path}::{name}"


def test_links_paths_and_tests_that_pages_name_exist():
    missing = {}
    for page in PAGES:
        checks = [missing_links, missing_tests, *([missing_paths] if page.name != "CHANGELOG.md" else [])]
        found = [name for check in checks for name in check(page)]
        if found:
            missing[str(page.relative_to(ROOT))] = found
    assert len(PAGES) > 20
    assert missing == {}


def test_links_of_the_readme_work_on_a_package_page():
    text = (ROOT / "README.md").read_text()
    links = links_of(text)
    assert len(links) > 10
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)
    named = set(re.findall(r"\[([^\]\n]+)\](?![(:])", prose))
    assert named == set(re.findall(r"^\[([^\]]+)\]: ", prose, re.MULTILINE))


def test_addresses_of_the_project_are_in_its_repository():
    assert all(address.startswith(REPOSITORY) for address in PROJECT["project"]["urls"].values())
    for name in ("Documentation", "Changelog"):
        assert path_of(PROJECT["project"]["urls"][name])[1].exists()
