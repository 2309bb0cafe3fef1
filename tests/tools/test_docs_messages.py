# SPDX-License-Identifier: Apache-2.0
"""docs/troubleshooting.md has an entry for each exception and for each message about unavailable features."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()
PACKAGE = ROOT / "python" / "fastprof"


def constant_pieces(node: ast.AST) -> list[str]:
    """Return the constant parts of a text: of literals, f-strings and sums of them."""
    return [
        part.value
        for part in ast.walk(node)
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    ]


def calls_of(name: str) -> Iterator[ast.Call]:
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                function = node.func
                called = getattr(function, "attr", getattr(function, "id", ""))
                if called == name:
                    yield node


def python_messages() -> list[list[str]]:
    """Return the constant pieces of each message of an UnavailableError that Python code raises."""
    return [constant_pieces(call.args[0]) for call in calls_of("UnavailableError") if call.args]


def cpp_messages() -> list[list[str]]:
    """Return the same of the C++ sources."""
    found = []
    for path in sorted(p for p in (ROOT / "csrc").rglob("*.?pp") if p.stem != "register_errors"):
        text = path.read_text()
        for match in re.finditer(r"raise<UnavailableError>\((.*?)\);\n", text, re.DOTALL):
            given = match[1]
            if re.fullmatch(r"k\w+", given):  # a constant of the file
                given = re.search(rf"\b{given}\b[^;=]*=([^;]*);", text)[1]  # type: ignore[index]
            pieces = re.findall(r'"((?:[^"\\]|\\.)*)"', given)
            found.append(["".join(pieces)] if "+" not in given else pieces)
    return found


def has_entry(pieces: list[str], page: str) -> bool:
    """Whether the page has the beginning of one of the message's pieces: its first words."""
    return any(
        len(words := piece.split(". ")[0].strip(" :;,.({").split()) >= 3
        and " ".join(words[: max(3, min(6, len(words)))]).rstrip(":;,.(") in page
        for piece in pieces
    )


def test_each_unavailable_message_has_an_entry() -> None:
    messages = python_messages() + cpp_messages()
    assert len(messages) >= 10
    assert [m for m in messages if not has_entry(m, PAGE)] == []


def missing_keys() -> set[str]:
    """Return the keys that code gives to profile.missing."""
    keys = set()
    for call in (*calls_of("report_missing"), *calls_of("_report_missing"), *calls_of("partial")):
        named = [a.value for a in call.args[:2] if isinstance(a, ast.Constant)]
        keys |= {str(name) for name in named if re.fullmatch(r"[a-z_]+", str(name))}
    for path in sorted(PACKAGE.rglob("*.py")):
        keys |= set(re.findall(r'\bmissing\["(\w+)"\] = ', path.read_text()))
    return keys


def test_each_key_of_missing_has_an_entry() -> None:
    keys = missing_keys()
    assert {"spill", "torch_ops", "with_modules", "trace_only"} <= keys
    assert [key for key in sorted(keys) if f"`{key}`" not in PAGE] == []


def test_each_exception_has_an_entry() -> None:
    from fastprof import errors

    assert [name for name in errors.__all__ if f"| `{name}` |" not in PAGE] == []
