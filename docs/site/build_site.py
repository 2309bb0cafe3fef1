# SPDX-License-Identifier: Apache-2.0
"""Build the documentation site: docs/*.md, the README, and references generated from docstrings and headers.

    python docs/site/build_site.py [output folder]     # default: build/docs/html; needs the extra `docs`

The build is strict: a link without a target, an unknown anchor or a page in no menu fails it. Sources are collected in
build/docs/source; links to files of the repository that are not pages lead to the repository's site.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import cpp_reference
import python_reference

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
REPOSITORY = "https://github.com/fastprof/fastprof/blob/main/"

# The menu: caption -> pages. Every page of docs/ is in it, which the strict build checks.
MENU = {
    "Start": [
        "get_started",
        "reading",
        "report",
        "analysis",
        "recipes",
        "command_line",
        "troubleshooting",
    ],
    "Guides": [
        "pytorch",
        "memory",
        "cuda",
        "rocm",
        "nvtx",
        "device_plugins",
        "metal",
        "cpp",
        "python_calls",
        "tasks",
        "children",
        "results",
        "notebook",
        "always_on",
        "many_ranks",
        "pytest",
        "sampling",
        "attach",
        "backing_file",
    ],
    "Reference": ["python_reference", "cpp_reference"],
    "Background": [
        "how_it_works",
        "benchmarks",
        "compared",
        "moving",
        "differences",
        "torch_versions",
    ],
    "Contribute": ["SCOPE", "CONTRIBUTING", "ARCHITECTURE", "CHANGELOG", "testing", "releasing"],
}
_LINK = re.compile(r"(\]\()([^)\s]+)(\))")


def staged(text: str, folder: Path, pages: set[Path]) -> str:
    """Return a page's text with its links as they are in the site, where all pages lie in one folder."""

    def moved(match: re.Match[str]) -> str:
        target, _, anchor = match[2].partition("#")
        if "://" in target or not target:
            return match[0]
        path = (folder / target).resolve()
        if path in pages:
            name = "index.md" if path == ROOT / "README.md" else path.name
        elif path.is_relative_to(DOCS / "images"):
            name = f"images/{path.name}"
        elif path.exists():
            name = REPOSITORY + path.relative_to(ROOT).as_posix()
        else:
            name = target  # no such file: the strict build names the page and the link
        return match[1] + name + (f"#{anchor}" if anchor else "") + match[3]

    return _LINK.sub(moved, text)


def stage(source: Path) -> None:
    """Write the pages of the site into a new folder; an existing one is replaced."""
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir(parents=True)
    files = [*sorted(DOCS.glob("*.md")), *sorted(ROOT.glob("*.md"))]
    for file in files:
        text = staged(file.read_text(), file.parent, set(files))
        if file.name == "README.md":
            text += "\n".join(["", *(_menu(*item) for item in MENU.items())])
        (source / ("index.md" if file.name == "README.md" else file.name)).write_text(text)
    reference = cpp_reference.reference_page()
    (source / "cpp_reference.md").write_text(staged(reference, DOCS / "site", set(files)))
    (source / "python_reference.rst").write_text(python_reference.reference_page())
    shutil.copytree(DOCS / "images", source / "images")


def _menu(caption: str, pages: list[str]) -> str:
    listed = "\n".join(pages)
    return f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{listed}\n```\n"


def main(output: Path) -> int:
    """Build the site into a folder; return the exit status of sphinx-build."""
    source = ROOT / "build" / "docs" / "source"
    stage(source)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "sphinx",
            *("-W", "--keep-going", "-q", "-b", "html"),
            *("-c", str(Path(__file__).parent), "-d", str(ROOT / "build" / "docs" / "doctrees")),
            str(source),
            str(output),
        ]
    )
    if done.returncode == 0:
        print(f"open {output / 'index.html'}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if sys.argv[1:] else ROOT / "build" / "docs" / "html"))
