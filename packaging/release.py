# SPDX-License-Identifier: Apache-2.0
"""Release a version: ``release.py X.Y.Z [root]`` sets it everywhere, dates the changelog, commits and tags.

Changes ``config.hpp`` and ``_version.py``, replaces the heading ``## A.B.C (unreleased)`` of ``CHANGELOG.md`` with
``## X.Y.Z (YYYY-MM-DD)`` (UTC), commits these three files and makes the annotated tag ``vX.Y.Z`` whose message is the
changelog's section. Nothing is pushed. Refuses, before it changes a file: a version that is not greater than every
tag, a work tree with changes, a missing or empty section.
"""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CONFIG = "csrc/include/fastprof/base/config.hpp"
PYTHON = "python/fastprof/_version.py"
CHANGELOG = "CHANGELOG.md"
VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")
SECTION = re.compile(r"^## \S+ \(unreleased\)\n(?P<body>.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


class ReleaseError(Exception):
    """The release cannot be made; the message says what to do. No file was changed."""


def git(root: Path, *arguments: str, text: str | None = None) -> str:
    """Run git in ``root`` and return its output; raise ReleaseError with its message when it fails."""
    result = subprocess.run(
        ["git", *arguments], cwd=root, input=text, capture_output=True, text=True
    )
    if result.returncode != 0:
        raise ReleaseError(f"git {arguments[0]} failed: {result.stderr.strip()}")
    return result.stdout


def parse(version: str) -> tuple[int, int, int]:
    """Return the three numbers of ``X.Y.Z``; raise ReleaseError for anything else."""
    match = VERSION.fullmatch(version)
    if match is None:
        raise ReleaseError(f"Invalid version {version!r}: use three numbers, for example 0.2.0.")
    return int(match[1]), int(match[2]), int(match[3])


def replace_once(text: str, pattern: str, replacement: str, file: str) -> str:
    """Replace the single match of ``pattern``; raise ReleaseError when there is none or more than one."""
    changed, count = re.subn(pattern, lambda _: replacement, text, flags=re.MULTILINE)
    if count != 1:
        raise ReleaseError(f"{file}: expected one line that matches {pattern!r}, found {count}.")
    return changed


def with_version(config: str, version: str) -> str:
    """Return the text of config.hpp with the four version macros set."""
    for name, number in zip(("MAJOR", "MINOR", "PATCH"), parse(version), strict=True):
        line = f"#define FASTPROF_VERSION_{name}"
        config = replace_once(config, rf"^{line} \d+$", f"{line} {number}", CONFIG)
    line = "#define FASTPROF_VERSION_STRING"
    return replace_once(config, rf'^{line} "[^"]+"$', f'{line} "{version}"', CONFIG)


def released_changelog(changelog: str, version: str, date: str) -> tuple[str, str]:
    """Return the changelog with the unreleased section dated, and that section's text."""
    match = SECTION.search(changelog)
    if match is None or not match["body"].strip():
        raise ReleaseError(
            f"{CHANGELOG} has no entries under a heading '## {version} (unreleased)': write them first."
        )
    heading = f"## {version} ({date})\n"
    return changelog[: match.start()] + heading + changelog[match.start("body") :], match[
        "body"
    ].strip()


def release(version: str, root: Path = ROOT, date: str | None = None) -> str:
    """Make the release in the repository at ``root`` and return the tag's name. Raises ReleaseError."""
    wanted = parse(version)
    tag = f"v{version}"
    for existing in git(root, "tag", "--list", "v*").split():
        if VERSION.fullmatch(existing[1:]) and parse(existing[1:]) >= wanted:
            raise ReleaseError(
                f"{existing} is released already: choose a version after it, not {version}."
            )
    if git(root, "status", "--porcelain"):
        raise ReleaseError(
            "The work tree has changes: commit or stash them first (git status lists them)."
        )
    date = date or datetime.now(timezone.utc).strftime("%Y-%m-%d")
    changelog, notes = released_changelog((root / CHANGELOG).read_text(), version, date)
    texts = {
        CONFIG: with_version((root / CONFIG).read_text(), version),
        PYTHON: replace_once(
            (root / PYTHON).read_text(),
            r'^__version__ = "[^"]+"$',
            f'__version__ = "{version}"',
            PYTHON,
        ),
        CHANGELOG: changelog,
    }
    for name, text in texts.items():
        (root / name).write_text(text)
    git(root, "commit", "--quiet", "-m", f"Release {version}", "--", *texts)
    git(
        root,
        "tag",
        "--annotate",
        "--cleanup=verbatim",
        "-F",
        "-",
        tag,
        text=f"fastprof {version}\n\n{notes}\n",
    )
    return tag


def main(arguments: list[str]) -> int:
    if len(arguments) not in (1, 2):
        print("usage: release.py X.Y.Z [root]", file=sys.stderr)
        return 2
    try:
        tag = release(arguments[0], Path(arguments[1]) if len(arguments) == 2 else ROOT)
    except ReleaseError as error:
        print(f"release.py: {error}", file=sys.stderr)
        return 1
    print(f"Committed and tagged {tag}. Publish it with: git push origin HEAD {tag}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
