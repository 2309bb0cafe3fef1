# SPDX-License-Identifier: Apache-2.0
"""read_header: the declarations of a C++ header with their comments, without bodies and private members.

A lexical reader for this project's own headers, as formatted by clang-format; it needs no compiler and no Doxygen.
It keeps the text of the header, so signatures in the reference are those that compile.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Declaration", "file_comment", "macros", "read_header"]


@dataclass
class Declaration:
    """A class, function, constant or alias: its comment, its text without a body, its public members."""

    name: str
    comment: str
    text: str
    members: list[Declaration] = field(default_factory=list)
    trailing: str = ""  # a comment behind it on the same line
    is_type: bool = False


_RECORD = re.compile(
    r"^(?:template\s*<.*?>\s*)?(?:inline\s+)?(class|struct|enum class|enum|union|namespace)\s+"
    r"(?:FASTPROF_\w+\s+)?(\w+)[^()]*$",
    re.DOTALL,
)
_ATTRIBUTES = re.compile(
    r"\bFASTPROF_(?:ALWAYS_INLINE|NOINLINE|COLD|HOT|HIDDEN|VISIBLE)\s+(?:inline\s+)?"
)
_ACCESS = re.compile(r"^(public|private|protected):$")


def file_comment(path: Path) -> str:
    """Return the comment at the top of a header without the licence line."""
    lines = []
    for line in path.read_text().splitlines()[1:]:
        if not line.startswith("//"):
            break
        lines.append(line[2:].removeprefix(" "))
    return "\n".join(lines)


def macros(path: Path) -> list[str]:
    """Return the names of the macros that a header defines for users, in order, each once."""
    names = re.findall(r"^#define (FASTPROF_\w+)", path.read_text(), re.MULTILINE)
    inner = re.compile(r"FASTPROF_(DETAIL_|UNIQUE_|LOCAL_|CONCAT)|_$")
    return list(dict.fromkeys(name for name in names if not inner.search(name)))


def read_header(path: Path) -> list[Declaration]:
    """Return what a header declares in fastprof's namespace."""
    text = re.sub(r"^#(?:.*\\\n)*.*$", "", path.read_text(), flags=re.MULTILINE)
    text = re.sub(r"^(?:FASTPROF_NAMESPACE_(?:BEGIN|END)|__extension__ .*)$", "", text, flags=re.M)
    return list(_declarations(text, public=True))


def _declarations(text: str, public: bool) -> Iterator[Declaration]:
    position = 0
    comment: list[str] = []
    while position < len(text):
        line_end = text.find("\n", position)
        line_end = len(text) if line_end < 0 else line_end
        line = text[position:line_end].strip()
        if line.startswith("//"):
            comment.append(line[2:].removeprefix(" "))
            position = line_end + 1
        elif not line:
            comment = []
            position = line_end + 1
        elif access := _ACCESS.match(line):
            public = access[1] == "public"
            comment = []
            position = line_end + 1
        else:
            head, body, position = _statement(text, position)
            found = _declaration(head, body, "\n".join(comment))
            rest_end = text.find("\n", position)
            rest = text[position : rest_end if rest_end >= 0 else len(text)].strip()
            if rest.startswith("//"):
                lines = [rest[2:].strip()]
                position = rest_end + 1
                while (more := re.match(r" {20,}//(.*)\n", text[position:])) is not None:
                    lines.append(more[1].strip())
                    position += more.end()
                rest = " ".join(lines)
                if found is not None:
                    found.trailing = rest
            comment = []
            if public and found is not None:
                yield found


def _statement(text: str, start: int) -> tuple[str, str | None, int]:
    """Return the text of a statement up to its body, the body if it has one, and where the next begins."""
    depth = 0
    at = start
    while at < len(text):
        char = text[at]
        if text.startswith("//", at):
            at = text.find("\n", at)
            continue
        if char in "\"'" and not (char == "'" and text[at - 1].isalnum()):
            at = _string_end(text, at)
            continue
        if char in "([":
            depth += 1
        elif char in ")]":
            depth -= 1
        elif char == ";" and depth == 0:
            return text[start:at], None, at + 1
        elif char == "{" and depth == 0:
            end = _matching(text, at)
            head = text[start:at]
            is_value = re.search(r"(?:=|\breturn)\s*$", head) is not None
            # An initialiser of a member directly behind its name: x_{1}, or `= {..}`.
            if not is_value and not text[at - 1].isspace():
                is_value = re.search(r"[\w>]$", head) is not None
            if not is_value:
                after = end
                while after < len(text) and text[after] in " \n":
                    after += 1
                follows = text[after : after + 1] == ";" and _RECORD.match(head.strip())
                return head, text[at + 1 : end - 1], after + 1 if follows else end
            at = end
            continue
        at += 1
    return text[start:], None, len(text)


def _string_end(text: str, at: int) -> int:
    quote = text[at]
    at += 1
    while text[at] != quote:
        at += 2 if text[at] == "\\" else 1
    return at + 1


def _matching(text: str, at: int) -> int:
    """Return the position behind the brace that closes the one at `at`."""
    depth = 0
    while at < len(text):
        if text.startswith("//", at):
            at = text.find("\n", at)
            continue
        char = text[at]
        if char in "\"'" and not (char == "'" and text[at - 1].isalnum()):
            at = _string_end(text, at)
            continue
        depth += {"{": 1, "}": -1}.get(char, 0)
        at += 1
        if depth == 0:
            return at
    raise ValueError("a brace is not closed")


def _declaration(head: str, body: str | None, comment: str) -> Declaration | None:
    text = _ATTRIBUTES.sub("", textwrap.dedent(" " * _indent(head) + head.strip())).strip()
    record = _RECORD.match(text)
    if record is not None and body is not None:
        kind, name = record[1], record[2]
        if kind.startswith("enum"):
            values = textwrap.dedent(body).strip("\n")
            listed = (
                f" {{ {values.strip()} }}"
                if "\n" not in values
                else f" {{\n{_indented(values)}\n}}"
            )
            return Declaration(name, comment, text + listed, is_type=True)
        members = list(_declarations(body, public=kind != "class"))
        return Declaration(name, comment, text, members, is_type=True)
    if text.startswith(("friend", "static_assert", "template class")) or text.endswith("= delete"):
        return None
    if re.search(r"\)\s*(const\s*)?(noexcept\s*)?:\s", text):  # the initialisers of a constructor
        text = re.sub(r"(\)\s*(?:const\s*)?(?:noexcept\s*)?):\s.*$", r"\1", text, flags=re.DOTALL)
    name = _name(text)
    return None if name is None else Declaration(name, comment, text.strip())


def _name(text: str) -> str | None:
    plain = re.sub(r"^template\s*<.*?>\s*(?=[a-zA-Z~])", "", text, flags=re.DOTALL)
    function = re.search(r"(~?\w+|operator\s*[^\s(]+|operator\(\))\s*\(", plain)
    if using := re.match(r"using (\w+)", plain):
        return using[1]
    value = re.search(r"(\w+)\s*(?:\[[^]]*\])?\s*(?:=|\{|$)", plain)
    if function is not None and (value is None or function.start() <= value.start()):
        return function[1]
    return value[1] if value is not None else None


def _indent(head: str) -> int:
    """Return the indentation of the second line's statement, so that continuation lines keep theirs."""
    lines = [line for line in head.splitlines()[1:] if line.strip()]
    return min((len(line) - len(line.lstrip()) for line in lines), default=0) - 4 if lines else 0


def _indented(text: str) -> str:
    return textwrap.indent(text, "  ")
