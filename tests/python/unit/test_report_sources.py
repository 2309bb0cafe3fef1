# SPDX-License-Identifier: Apache-2.0
"""Source texts in an HTML report: which files are read, and the bounds of their size."""

from __future__ import annotations

from pathlib import Path

import pytest

from fastprof.report.sources import frame_file, source_texts

PROGRAM_TEXT = (
    "py pyx pxd pyi c cc cpp cxx cu cuh h hh hpp hxx inl ipp m mm rs go js ts"  # suffixes
)
OTHER = "txt json pem env key pickle PY"


def file_of(folder: Path, name: str, size: int) -> str:
    path = folder / name
    path.write_text("x" * size)
    return str(path)


@pytest.mark.parametrize("suffix", PROGRAM_TEXT.split())
def test_program_text_is_read(tmp_path: Path, suffix: str) -> None:
    name = file_of(tmp_path, f"file.{suffix}", 3)
    assert source_texts([name]) == ({name: "xxx"}, [])


@pytest.mark.parametrize("suffix", OTHER.split())
def test_other_files_are_not(tmp_path: Path, suffix: str) -> None:
    assert source_texts([file_of(tmp_path, f"file.{suffix}", 3)]) == ({}, [])


def test_the_bound_of_a_file_and_of_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastprof.report.sources.MAX_FILE_BYTES", 10)
    monkeypatch.setattr("fastprof.report.sources.MAX_TOTAL_BYTES", 20)
    sizes = {"a.py": 10, "large.py": 11, "b.py": 7, "over.py": 4, "last.py": 3, "none.py": 1}
    names = {name: file_of(tmp_path, name, size) for name, size in sizes.items()}
    texts, left_out = source_texts(names.values())
    assert [Path(name).name for name in texts] == ["a.py", "b.py", "last.py"]
    assert [Path(name).name for name in left_out] == ["large.py", "over.py", "none.py"]


def test_files_of_frames() -> None:
    assert frame_file("/a (b)/file.py(12): f") == "/a (b)/file.py"
    assert frame_file("<string>(1): <module>") == "<string>"
    assert frame_file("no frame") == frame_file("file.py(): f") == ""


def test_the_bounds_of_embedded_text(tmp_path: Path) -> None:
    """1 MiB a file, 8 MiB in all; what exceeds either is left out, and smaller files behind it are not."""
    mib = 1 << 20
    sizes = [mib, mib + 1, *[mib] * 7, 1, 0]
    files = [tmp_path / f"f{i}.py" for i in range(len(sizes))]
    for file, size in zip(files, sizes, strict=True):
        file.write_bytes(b"x" * size)
    texts, left_out = source_texts([str(file) for file in files])
    assert left_out == [str(files[1]), str(files[9])]
    assert [len(texts.get(str(file), "-")) for file in files] == [mib, 1, *[mib] * 7, 1, 0]
