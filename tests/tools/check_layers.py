# SPDX-License-Identifier: Apache-2.0
"""Check includes and imports against ``layer_rules.py``; print each violation, and exit with status 1 if there are any.

``check_layers.py [root]``; the root defaults to the repository this file lies in.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

sys.path.insert(0, str(Path(__file__).resolve().parent))  # also when run as a program

from layer_rules import COMPILED, FOREIGN, GROUND, NATIVE, PROGRAMS, PUBLIC, PYTHON, ROOT

CPP_SUFFIXES = {".hpp", ".h", ".cpp", ".cc", ".mm", ".cu", ".inl"}
# A module, and perhaps a name in it, as text that is imported when it is needed.
NAMED = re.compile(r"fastprof((?:\.\w+)+)(?::\w+)?")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def includes(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield (line, quote, name) of each include of a C++ file."""
    text = path.read_text()
    for match in INCLUDE.finditer(text):
        yield text.count("\n", 0, match.start(2)) + 1, match[1], match[2]


def folder_below(name: str, below: str) -> str | None:
    """Return the folder of the file ``name`` relative to ``below``: "." for files directly in it, None if outside."""
    path = PurePosixPath(name)
    return path.relative_to(below).parent.as_posix() if path.is_relative_to(below) else None


def allows(allowed: set[str], folder: str) -> bool:
    """Return whether a set of folders contains ``folder`` or one of its parents."""
    return any(folder == name or folder.startswith(f"{name}/") for name in allowed)


def check_cpp_file(root: Path, path: Path) -> Iterator[str]:
    """Yield a message for each include of ``path`` that is not allowed in its folder."""
    relative = path.relative_to(root).as_posix()
    inside = relative.removeprefix("csrc/")
    here = folder_below(inside, "include/fastprof")
    public = here is not None
    rules, table = (PUBLIC, "PUBLIC") if public else (COMPILED, "COMPILED")
    if here is None:
        here = folder_below(inside, ".")
    if here is None or here not in rules:
        yield f"{relative}: folder {here!r} is not in {table} of layer_rules.py: add it with what it may include"
        return

    for line, quote, name in includes(path):
        where = f"{relative}:{line}: "
        for pattern, places in FOREIGN.items():
            if re.fullmatch(pattern, name) and not any(re.fullmatch(p, relative) for p in places):
                yield f"{where}<{name}> belongs only in {' or '.join(places)}"
        there = folder_below(name, "fastprof")
        if there is not None:
            if public and there != here and not allows(rules[here], there):
                yield f'{where}"{name}": {here} may not include {there}'
        elif public and quote == '"':
            yield f'{where}"{name}": public headers include "fastprof/..." and the standard library only'
        elif quote == '"' and "/" in name:
            there = PurePosixPath(name).parent.as_posix()
            if there != here and not allows(rules[here], there):
                yield f'{where}"{name}": {here} may not include {there}'


def imported_modules(path: Path, package: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield (line, dotted parts) of each module that a Python file imports, relatively or not, or names in a string."""
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name.split(".")
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - (node.level - 1)] if node.level else []
            parts = base + (node.module.split(".") if node.module else [])
            if len(parts) > 1:
                yield node.lineno, parts
            else:  # `from fastprof import views` imports a folder
                for alias in node.names:
                    yield node.lineno, [*parts, alias.name]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            named = NAMED.fullmatch(node.value)
            if named and (parts := ["fastprof", *named[1].split(".")[1:]])[1] in PYTHON:
                yield node.lineno, parts


def check_python_file(root: Path, path: Path) -> Iterator[str]:
    """Yield a message for each import of ``path`` that is not allowed in its folder, or for a module of the root."""
    relative = path.relative_to(root).as_posix()
    inside = path.relative_to(root / "python" / "fastprof")
    here = inside.parts[0].removesuffix(".py")
    in_root = len(inside.parts) == 1
    rules, table = (ROOT, "ROOT") if in_root else (PYTHON, "PYTHON")
    if here not in rules:
        what = "module" if in_root else "folder"
        yield f"{relative}: {what} {here!r} is not in {table} of layer_rules.py: add it with what it may import"
        return
    allowed = rules[here]
    for line, parts in imported_modules(path, ["fastprof", *inside.parent.parts]):
        if parts[0] != "fastprof":
            continue
        there = parts[1] if len(parts) > 1 else ""
        where = f"{relative}:{line}: "
        if there == "_core":
            if not {here, inside.as_posix()} & NATIVE:
                yield f"{where}only {', '.join(sorted(NATIVE))} may import fastprof._core"
        elif there in PYTHON:
            if allowed is not None and there not in allowed and (in_root or there != here):
                yield f"{where}{here} may not import fastprof.{there}"
        elif there in GROUND or (in_root and allowed is None):
            continue
        elif there in ROOT:
            yield f"{where}fastprof.{there} is for programs: {here} imports the folder that has it"
        elif not {here, inside.as_posix()} & PROGRAMS or in_root:
            yield f"{where}{here} may not import names of the package itself, which imports everything"


def check(root: Path) -> list[str]:
    """Return one message for each violation below ``root``, in the order of the paths."""
    found: list[str] = []
    for path in sorted((root / "csrc").rglob("*")):
        if path.suffix in CPP_SUFFIXES:
            found += check_cpp_file(root, path)
    for path in sorted((root / "python" / "fastprof").rglob("*.py")):
        found += check_python_file(root, path)
    return found


def main() -> int:
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[2]
    found = check(root)
    for message in found:
        print(message)
    print(f"layers: {len(found)} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
