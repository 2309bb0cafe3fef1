# SPDX-License-Identifier: Apache-2.0
"""Our declarations of Metal (tests/doubles/metal) against the metadata in pyobjc-framework-Metal."""

from __future__ import annotations

import ast
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from processes import python

pytestmark = pytest.mark.integrations

ROOT = Path(__file__).resolve().parents[3]
HEADER = ROOT / "tests" / "doubles" / "metal" / "apple" / "Metal" / "Metal.h"
# What the package does not list: classes whose methods take and return nothing but objects.
UNLISTED = {
    "MTLCaptureDescriptor": None,
    "MTLCaptureManager": {"sharedCaptureManager", "stopCapture"},
}
# Our types -> encodings of Objective-C that are right for them. An enumeration may be signed or not.
ENCODINGS = {
    "void": {"v"}, "BOOL": {"Z"}, "double": {"d"}, "CFTimeInterval": {"d"}, "NSUInteger": {"Q"}, "uint64_t": {"Q"},
    "void*": {"^v"}, "NSError**": {"^@"}, "MTLSize": {"{MTLSize=QQQ}"}, "MTLCommandBufferHandler": {"@?"},
    "MTLCommandBufferStatus": {"Q", "q"}, "MTLCaptureDestination": {"Q", "q"}, "MTLResourceOptions": {"Q", "q"},
}  # fmt: skip


@pytest.fixture(scope="module")
def metadata() -> Iterator[str]:
    """Return the text of the package's metadata, downloaded once into build/."""
    folder = ROOT / "build" / "pyobjc"
    if not list(folder.glob("*.whl")):
        done = python(
            "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--platform",
            "macosx_11_0_universal2", "--python-version", "3.12", "--implementation", "cp", "--dest", folder,
            "pyobjc-framework-Metal",
        )  # fmt: skip
        if done.returncode != 0:
            pytest.skip(
                f"pyobjc-framework-Metal cannot be downloaded: {done.stderr.strip()[-200:]}"
            )
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        yield archive.read("Metal/_metadata.py").decode()


def listed_methods(text: str) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Return what the package says of each (class, selector); methods of protocols are NSObject's."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "r":
            owner, selector, info = (ast.literal_eval(argument) for argument in node.args)
            found.setdefault((owner.decode(), selector.decode()), []).append(info)
    return found


def declared_methods() -> Iterator[tuple[str, str, str, list[str]]]:
    """Yield (protocol or class, selector, type of the result, types of the arguments) of our header."""
    text = re.sub(r"//.*", "", HEADER.read_text())
    for block in re.finditer(
        r"@(?:protocol|interface) (\w+) (?:<NSObject>|: NSObject)(.*?)@end", text, re.S
    ):
        for method in re.finditer(r"[-+]\s*\(([^)]*)\)([^;]*);", block[2]):
            body = method[2].strip()
            pieces = re.findall(r"(\w+):\(([^)]*(?:\([^)]*\))?[^)]*)\)\w+", body)
            selector = "".join(f"{name}:" for name, _ in pieces) or body
            yield block[1], selector, method[1].strip(), [kind.strip() for _, kind in pieces]


def encodings(kind: str) -> set[str]:
    """Return the encodings that are right for one of our types; of an object, that of objects."""
    return ENCODINGS.get(kind.replace(" ", ""), {"@"})


def disagreements(text: str) -> list[str]:
    """Return what of our header the metadata contradicts."""
    listed = listed_methods(text)
    wrong = []
    for owner, selector, result, arguments in declared_methods():
        unlisted = UNLISTED.get(owner, set())
        if unlisted is None or selector in unlisted:
            continue
        infos = listed.get((owner if owner in UNLISTED else "NSObject", selector))
        if infos is None:
            wrong.append(f"{owner} has no method {selector}")
            continue

        def agrees(
            info: dict[str, Any], result: str = result, arguments: list[str] = arguments
        ) -> bool:
            pairs = [(result, info.get("retval", {}).get("type"))]
            pairs += [
                (kind, info.get("arguments", {}).get(i, {}).get("type"))
                for i, kind in enumerate(arguments, 2)
            ]
            return all(
                code is None
                or (code.decode() if isinstance(code, bytes) else code) in encodings(kind)
                for kind, code in pairs
            )

        if not any(map(agrees, infos)):
            wrong.append(f"{owner} {selector}: {result} {arguments} is not {infos}")
    for name, value in re.findall(r"^  (MTL\w+) = (\d+),", HEADER.read_text(), re.M):
        found = re.search(rf"\b{name}@(-?\d+)", text)
        if found is None or found[1] != value:
            wrong.append(f"{name} is {found[1] if found else 'unknown'}, not {value}")
    return wrong


def test_declarations_agree_with_the_framework(metadata: str) -> None:
    methods = list(declared_methods())
    assert len(methods) > 30
    assert disagreements(metadata) == []


def test_a_wrong_declaration_is_noticed(
    metadata: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = HEADER.read_text()
    for old, new in (
        ("MTLCommandBufferStatusError = 5", "MTLCommandBufferStatusError = 6"),
        ("- (CFTimeInterval)GPUEndTime;", "- (uint64_t)GPUEndTime;"),
        ("addScheduledHandler:(MTL", "addScheduleHandler:(MTL"),
        ("dispatchThreads:(MTLSize)", "dispatchThreads:(NSUInteger)"),
    ):
        assert text.count(old) == 1
        changed = tmp_path / "Metal.h"
        changed.write_text(text.replace(old, new))
        monkeypatch.setattr(sys.modules[__name__], "HEADER", changed)
        assert len(disagreements(metadata)) == 1, new
