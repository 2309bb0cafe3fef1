# SPDX-License-Identifier: Apache-2.0
"""packaging/release.py on a temporary clone: files, commit and tag of a release, and requests that it rejects."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from processes import python

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "packaging" / "release.py"
IDENTITY = {
    f"GIT_{who}_{what}": "x@y" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
}
CONFIG = "csrc/include/fastprof/base/config.hpp"
FILES = [CONFIG, "python/fastprof/_version.py", "CHANGELOG.md"]


def git(root: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments],
        cwd=root,
        env={**os.environ, **IDENTITY},
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def release(root: Path, version: str) -> subprocess.CompletedProcess[str]:
    return python(SCRIPT, version, root, **IDENTITY)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """Return a repository with this one's three files, its changelog beginning with a section of its own."""
    root = tmp_path / "clone"
    for name in FILES:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text((ROOT / name).read_text())
    older = "# Changelog\n\n## 99.0.0 (unreleased)\n\n- One.\n- `#2`.\n\n## 0.0.9 (2020-01-01)\n\n- Zero.\n"
    (root / "CHANGELOG.md").write_text(older)
    git(root, "init", "--quiet")
    git(root, "add", "-A")
    git(root, "commit", "--quiet", "-m", "Begin")
    return root


def test_a_release_sets_the_version_dates_the_changelog_and_tags(clone: Path) -> None:
    done = release(clone, "12.3.40")
    assert done.returncode == 0, done.stderr
    assert "git push origin HEAD v12.3.40" in done.stdout
    config = (clone / CONFIG).read_text()
    for line in ("MAJOR 12", "MINOR 3", "PATCH 40", 'STRING "12.3.40"'):
        assert f"#define FASTPROF_VERSION_{line}\n" in config
    assert '__version__ = "12.3.40"\n' in (clone / "python/fastprof/_version.py").read_text()
    changelog = (clone / "CHANGELOG.md").read_text()
    assert "unreleased" not in changelog
    date = git(clone, "log", "-1", "--format=%cd", "--date=format:%Y").strip()
    assert f"\n## 12.3.40 ({date}-" in changelog
    assert changelog.endswith("- Zero.\n")
    assert git(clone, "status", "--porcelain") == ""
    assert git(clone, "log", "-1", "--format=%s").strip() == "Release 12.3.40"
    assert git(clone, "rev-parse", "v12.3.40^{commit}") == git(clone, "rev-parse", "HEAD")
    assert git(clone, "cat-file", "-t", "v12.3.40").strip() == "tag"
    assert (
        git(clone, "tag", "-l", "--format=%(contents)", "v12.3.40").strip()
        == "fastprof 12.3.40\n\n- One.\n- `#2`."
    )
    again = release(clone, "12.3.41")  # the section is used up
    assert again.returncode == 1
    assert "write them first" in again.stderr


def test_this_repository_can_be_released(clone: Path) -> None:
    """The repository's files have the form that the script expects."""
    (clone / "CHANGELOG.md").write_text((ROOT / "CHANGELOG.md").read_text())
    git(clone, "commit", "--quiet", "--allow-empty", "-am", "The changelog as it is")
    if "(unreleased)" not in (ROOT / "CHANGELOG.md").read_text():
        pytest.skip("nothing was written for the next release yet")
    done = release(clone, "99.0.0")
    assert done.returncode == 0, done.stderr
