# SPDX-License-Identifier: Apache-2.0
"""Small faults of Python and C++ sources: every way in which one place of a file could be wrong.

An `Edit` replaces the bytes [start, end) of a file. Texts that only people read (messages of errors, docstrings, help,
texts of five words and more), annotations and lists of names for the language itself are left alone.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

__all__ = [
    "Edit",
    "Mutant",
    "changes_python",
    "cpp_edits",
    "lines_of_functions",
    "python_edits",
    "without_texts",
]


class Edit(NamedTuple):
    start: int
    end: int
    new: bytes

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.new + source[self.end :]

    def line(self, source: bytes) -> int:
        """Number of the line that it changes, from 1."""
        return source.count(b"\n", 0, self.start) + 1

    def shown(self, source: bytes) -> str:
        """`old line => new line`, without the indentation: what identifies a mutant in a list."""
        first = source.rfind(b"\n", 0, self.start) + 1
        last = source.find(b"\n", self.end)
        last = len(source) if last < 0 else last
        old = source[first:last]
        new = source[first : self.start] + self.new + source[self.end : last]
        old_text, new_text = (b" ".join(text.split()).decode() for text in (old, new))
        return f"{old_text} => {new_text}"


class Mutant(NamedTuple):
    """An edit of a file of the tree. path: from the root; shown: what identifies it in a list."""

    path: str
    edit: Edit
    line: int
    shown: str


_COMPARE = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"), ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"), ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}  # fmt: skip
_BINARY = {
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "+"), ast.Div: ("/", "*"), ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "+"), ast.LShift: ("<<", ">>"), ast.RShift: (">>", "<<"), ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"), ast.BitXor: ("^", "&"), ast.Pow: ("**", "*"),
}  # fmt: skip
_FOR_PEOPLE = {"help", "description", "epilog", "metavar", "usage", "title", "prog"}  # argparse
_MESSAGES = {"warn", "add_argument_group"}
_DESCRIBED = {"ColumnSpec"}  # their last argument describes them
_ASSERTIONS = {"strict"}  # of zip(): fails only after another fault
_WORDS_OF_SENTENCES = 5
_NAMES = {"__all__", "__slots__", "__doc__"}


class _Python(ast.NodeVisitor):
    def __init__(self, source: bytes) -> None:
        self.source = source
        self.starts = [0]
        for line in source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.found: list[Edit] = []
        self.in_message = 0

    def span(self, node: ast.AST) -> tuple[int, int]:
        first = self.starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
        return first, self.starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]

    def replace(self, node: ast.AST, new: str) -> None:
        self.found.append(Edit(*self.span(node), new.encode()))

    def operator(self, left: ast.AST, right: ast.AST, old: str, new: str) -> None:
        """Replace an operator, which has no place of its own in the tree: it lies between its operands."""
        first, end = self.span(left)[1], self.span(right)[0]
        at = self.source[first:end].find(old.encode())
        if at >= 0:
            self.found.append(Edit(first + at, first + at + len(old), new.encode()))

    def visit_Compare(self, node: ast.Compare) -> None:
        left = node.left
        for operator, right in zip(node.ops, node.comparators, strict=True):
            self.operator(left, right, *_COMPARE[type(operator)])
            left = right
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if (
            type(node.op) in _BINARY
            and not self._is_text(node.left)
            and not self._is_text(node.right)
        ):
            self.operator(node.left, node.right, *_BINARY[type(node.op)])
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if type(node.op) in _BINARY:
            old, new = _BINARY[type(node.op)]
            self.operator(node.target, node.value, f"{old}=", f"{new}=")
        self.replace(node, "pass")
        self.visit(node.value)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self.operator(left, right, old, new)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, (ast.Not, ast.USub)):
            first, _ = self.span(node)
            self.found.append(Edit(first, self.span(node.operand)[0], b""))
        self.generic_visit(node)

    def _condition(self, node: ast.If | ast.IfExp | ast.While) -> None:
        if not (isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            first, end = self.span(node.test)
            self.found.append(Edit(first, end, b"not (" + self.source[first:end] + b")"))
            self.generic_visit(node)

    visit_If = visit_IfExp = visit_While = _condition  # noqa: N815

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self.replace(node, str(not node.value))
        elif isinstance(node.value, int):
            self.replace(node, str(node.value + 1))
        elif isinstance(node.value, float):
            self.replace(node, repr(node.value + 1))
        elif isinstance(node.value, str) and node.value and not self.in_message:
            first, end = self.span(node)
            text = self.source[first:end]
            if (
                text[:1] in (b'"', b"'")
                and text[:3] not in (b'"""', b"'''")
                and _is_name(node.value)
            ):
                self.found.append(
                    Edit(first, end, b'"XX' + text[1:])
                    if text[:1] == b'"'
                    else Edit(first, first + 1, b"'XX")
                )

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None and not (
            isinstance(node.value, ast.Constant) and node.value.value is None
        ):
            self.replace(node.value, "None")
            self.visit(node.value)

    def visit_Break(self, node: ast.Break) -> None:
        self.replace(node, "continue")

    def visit_Continue(self, node: ast.Continue) -> None:
        self.replace(node, "break")

    def visit_Raise(self, node: ast.Raise) -> None:
        self.replace(node, "pass")
        self.in_message += 1
        self.generic_visit(node)
        self.in_message -= 1

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Ignore formatted texts: before Python 3.12 their constant parts have no positions."""

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return  # a docstring
        if isinstance(node.value, (ast.Call, ast.Await)):
            self.replace(node, "pass")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in ("TypeVar", "cast", "NewType"):
            return
        is_message = isinstance(node.func, ast.Attribute) and node.func.attr in _MESSAGES
        self.in_message += is_message
        self.visit(node.func)
        described = isinstance(node.func, ast.Name) and node.func.id in _DESCRIBED
        for argument in node.args[:-1] if described else node.args:
            self.visit(argument)
        for keyword in node.keywords:
            if keyword.arg in _FOR_PEOPLE or keyword.arg in _ASSERTIONS:
                continue
            if keyword.arg is not None:
                self._drop(keyword)
            self.visit(keyword.value)
        self.in_message -= is_message

    def _drop(self, keyword: ast.keyword) -> None:
        first, end = self.span(keyword)
        comma = re.match(rb"\s*,\s*", self.source[end:])
        self.found.append(Edit(first, end + (comma.end() if comma else 0), b""))

    def visit_Assign(self, node: ast.Assign) -> None:
        if any(isinstance(target, ast.Name) and target.id in _NAMES for target in node.targets):
            return
        if not isinstance(node.value, ast.Constant) or node.value.value is not None:
            value = "None"
            self.replace(node.value, value)
        self.visit(node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None and "TypeAlias" not in ast.dump(node.annotation):
            self.visit(node.value)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for default in [*node.args.defaults, *node.args.kw_defaults]:
            if default is not None:
                self.visit(default)
        for statement in node.body:
            self.visit(statement)

    visit_FunctionDef = visit_AsyncFunctionDef = _function  # noqa: N815

    def _is_text(self, node: ast.AST) -> bool:
        return isinstance(node, ast.JoinedStr) or (
            isinstance(node, ast.Constant) and isinstance(node.value, str)
        )


def _is_name(text: str) -> bool:
    """Return whether programs could depend on a text: a sentence is for people."""
    return len(text.split()) < _WORDS_OF_SENTENCES


def python_edits(source: bytes) -> Iterator[Edit]:
    """Yield candidate faults of a Python file; changes_python() tells which of them change it."""
    visitor = _Python(source)
    visitor.visit(ast.parse(source))
    yield from sorted(set(visitor.found))


def lines_of_functions(source: bytes) -> set[int]:
    """Return the numbers, from 1, of the lines in bodies of functions, which importing the file does not run."""
    return {
        line
        for node in ast.walk(ast.parse(source))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        for line in range(node.body[0].lineno, (node.end_lineno or 0) + 1)
    }


def without_texts(source: bytes) -> bytes:
    """Return a Python file in a form that comments, docstrings and the layout of lines do not change."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        first = body[0] if isinstance(body, list) and body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            first.value.value = None
    return ast.dump(tree).encode()


def changes_python(source: bytes, edit: Edit) -> bool:
    """Whether the file still compiles with an edit, to something else."""
    try:
        return ast.dump(ast.parse(edit.apply(source))) != ast.dump(ast.parse(source))
    except SyntaxError:
        return False


_CPP = [
    (rb" == ", b" != "), (rb" != ", b" == "), (rb" < ", b" <= "), (rb" <= ", b" < "), (rb" > ", b" >= "),
    (rb" >= ", b" > "), (rb" \+ ", b" - "), (rb" - ", b" + "), (rb" && ", b" || "), (rb" \|\| ", b" && "),
    (rb" & ", b" | "), (rb" \| ", b" & "), (rb" << ", b" >> "), (rb" >> ", b" << "), (rb" \+= ", b" -= "),
    (rb" -= ", b" += "), (rb"\btrue\b", b"false"), (rb"\bfalse\b", b"true"), (rb"\+\+", b"--"),
    (rb"(?<=[(\s])!(?=\w)", b""),    (rb"\bcontinue;", b"break;"), (rb"\bbreak;", b"continue;"), (rb"\breturn;", b";"),
]  # fmt: skip
_CPP_NUMBER = re.compile(rb"(?<![\w.'\"])(\d+)(?![\w.'\"])")
_CPP_HIDDEN = re.compile(
    rb"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'", re.DOTALL
)
_CPP_ELSE = re.compile(rb"^[ \t]*#[^\n]*(?:\\\n[^\n]*)*|static_assert\s*\([^;]*;", re.MULTILINE)


def cpp_edits(source: bytes) -> Iterator[Edit]:
    """Faults of a C++ file, whether or not they compile; not in comments, texts, directives and static_assert."""

    def blank(match: re.Match[bytes]) -> bytes:
        return re.sub(rb"[^\n]", b"\0", match[0])

    code = _CPP_ELSE.sub(blank, _CPP_HIDDEN.sub(blank, source))
    for pattern, new in _CPP:
        for match in re.finditer(pattern, code):
            yield Edit(match.start(), match.end(), new)
    for match in _CPP_NUMBER.finditer(code):
        yield Edit(match.start(), match.end(), b"%d" % (int(match[0]) + 1))
    for match in re.finditer(rb"\bif \(([^\n]*)\) (?:return|continue|break|\{)", code):
        if match[1].count(b"(") == match[1].count(b")") and b";" not in match[1]:
            yield Edit(
                match.start(1), match.end(1), b"!(" + source[match.start(1) : match.end(1)] + b")"
            )
