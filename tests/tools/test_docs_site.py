# SPDX-License-Identifier: Apache-2.0
"""The documentation's links, menu, references and tables of options agree with the tree. Needs no site builder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from markdown_pages import anchors, broken_links, links, prose
from test_house_rules import repository_files

import build_site
import command_options
import cpp_reference
import header_reader
import python_reference

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

PAGES = [
    *sorted(DOCS.glob("*.md")),
    *(path for path in repository_files() if path.suffix == ".md" and path.parent != DOCS),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert broken_links(page) == []


def test_pages_named_in_prose_exist() -> None:
    named = {
        (page.name, name)
        for page in PAGES
        for name in re.findall(r"`(docs/\w+\.md)`", prose(page.read_text()))
    }
    assert len(named) > 5
    assert [pair for pair in named if not (ROOT / pair[1]).is_file()] == []


def test_what_the_checker_of_links_sees(tmp_path: Path) -> None:
    (tmp_path / "b.md").write_text("# A `b()` and: C\n## A b and c\n## A b and c\n")
    page = tmp_path / "a.md"
    page.write_text(
        "# T\n[x](b.md#a-b-and-c) [x](b.md#a-b-and-c-2) [y](#t) [z](https://a.b/c) [w](b.md)\n"
        "```\n[code](none.md)\n```\n![p](no.png) [q](b.md#none) [`r`](c.md) `[s](d.md)` [t](#u)\n"
    )
    assert anchors((tmp_path / "b.md").read_text()) == {"a-b-and-c", "a-b-and-c-1", "a-b-and-c-2"}
    assert broken_links(page) == ["no.png", "b.md#none", "c.md", "#u"]
    assert len(links(page.read_text())) == 9


def test_every_page_is_in_the_menu() -> None:
    listed = [page for pages in build_site.MENU.values() for page in pages]
    own = {path.stem for path in (*DOCS.glob("*.md"), *ROOT.glob("*.md"))} - {"README"}
    assert set(listed) == own | {"python_reference", "cpp_reference"}
    assert len(listed) == len(set(listed))


def test_links_are_moved_to_where_the_site_has_the_page() -> None:
    pages = {DOCS / "report.md", ROOT / "README.md", ROOT / "ARCHITECTURE.md"}
    text = "[a](docs/report.md#keys) [b](Makefile) [c](docs/images/report.png) [d](none.md) [e](#f)"
    moved = build_site.staged(text, ROOT, pages)
    assert moved == (
        f"[a](report.md#keys) [b]({build_site.REPOSITORY}Makefile) [c](images/report.png)"
        " [d](none.md) [e](#f)"
    )
    assert build_site.staged("[a](../ARCHITECTURE.md)", DOCS, pages) == "[a](ARCHITECTURE.md)"
    assert build_site.staged("[a](../README.md)", DOCS, pages) == "[a](index.md)"


def test_tables_of_options_are_those_of_the_parsers() -> None:
    text = command_options.PAGE.read_text()
    assert "`--max-total-growth PERCENT`" in text
    assert text == command_options.with_tables(text), (
        "run: python docs/site/command_options.py --write"
    )


def test_options_named_in_pages_exist() -> None:
    known = set(re.findall(r"`(--[\w-]+)", command_options.option_tables())) | {"--help"}
    lines = [
        line
        for page in [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]
        for line in re.findall(
            r"(?:^|`)((?:python -m )?fastprof (?:run|report|explain|recover|diff|convert|doctor) [^`\n#]*)",
            page.read_text(),
            re.MULTILINE,
        )
    ]
    assert len(lines) > 15
    unknown = []
    for line in lines:
        # What follows the program belongs to it.
        words = (
            re.split(r"\s\S+\.py\b| -m \S+", line)[0].split() if " run " in line else line.split()
        )
        unknown += [w for w in words if w.startswith("--") and w.partition("=")[0] not in known]
    assert unknown == []


def test_the_python_reference_has_every_public_name() -> None:
    import fastprof

    public = {name for name in dir(fastprof) if not name.startswith("_")}
    assert python_reference.documented_names() == public
    assert all(name in python_reference.reference_page() for name in public)


def test_docstrings_become_markup_that_means_their_text() -> None:
    given = ["Make `a` and ``b``.", "", "    code(*args)", "", "x_ and *.json | y"]
    assert python_reference.as_rst(given) == [
        "Make ``a`` and ``b``.",
        "",
        "::",
        "",
        "    code(*args)",
        "",
        "",
        r"x\_ and \*.json \| y",
    ]


def test_the_cpp_reference_shows_the_headers() -> None:
    page = cpp_reference.reference_page()
    for text in (
        "explicit Session(SessionOptions options = {});",
        "FASTPROF_RANGE_ARGS(name, key, value, ...)",
        "`FASTPROF_RECORD_OUTPUTS`",
        "bool thread_local_only = false;",
        "inline Propagated<std::decay_t<Callable>> propagate(Callable&& f);",
        "constexpr uint32_t user = 1u << 0;  // ranges written by users",
        "enum class OverflowPolicy",
        "class UnavailableError",
    ):
        assert text in page, text
    assert "index_" not in page and "spill_thread_" not in page  # private members
    assert "return index_" not in page  # bodies


def test_names_that_pages_use_are_in_the_cpp_reference() -> None:
    used = {
        name
        for page in sorted(DOCS.glob("*.md"))
        for code in re.findall(r"^```cpp\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
        for name in re.findall(r"fastprof::(\w+)|\b(FASTPROF_\w+)\(", code)
        for name in name
        if name
    }
    assert {"Session", "propagate", "FASTPROF_RANGE"} <= used
    assert used - cpp_reference.documented_names() - {"v0_1_0"} == set()


def test_every_macro_for_users_is_documented() -> None:
    text = header_reader.file_comment(cpp_reference.HEADERS / "macros.hpp")
    for name in header_reader.macros(cpp_reference.HEADERS / "macros.hpp"):
        assert f"  {name}(" in text, name


HEADER = """// SPDX
// What it is.
#pragma once
#define FASTPROF_X(a) \\
  do { class Hidden {}; } while (false)
FASTPROF_NAMESPACE_BEGIN

// A comment.
struct Options {
  int plain = 0;  // behind
  std::string text{"};"};  // with a brace
};

class Thing final : public Base {
 public:
  explicit Thing(int a) : a_(a), b_{a} {}
  // Doc of f.
  FASTPROF_ALWAYS_INLINE int f(const char* s = "{") const noexcept { return s[0] == '}' ? 1 : a_; }
  Thing(const Thing&) = delete;
  bool operator()(int) { return true; }

 private:
  int a_, b_{0};
};
enum class Kind : uint8_t { a, b };

template <class T, class U = int>
inline auto g(T t) -> decltype(t) {
  return t;
}
constexpr int k = 3;
using Alias = int;
FASTPROF_NAMESPACE_END
"""


def test_reading_a_header(tmp_path: Path) -> None:
    path = tmp_path / "x.hpp"
    path.write_text(HEADER)
    assert header_reader.file_comment(path) == "What it is."
    assert header_reader.macros(path) == ["FASTPROF_X"]
    found = {declaration.name: declaration for declaration in header_reader.read_header(path)}
    assert list(found) == ["Options", "Thing", "Kind", "g", "k", "Alias"]
    assert found["Options"].comment == "A comment."
    assert [(m.name, m.trailing) for m in found["Options"].members] == [
        ("plain", "behind"),
        ("text", "with a brace"),
    ]
    members = found["Thing"].members
    assert [m.text for m in members] == [
        "explicit Thing(int a)",
        'int f(const char* s = "{") const noexcept',
        "bool operator()(int)",
    ]
    assert members[1].comment == "Doc of f."
    assert found["Kind"].text == "enum class Kind : uint8_t { a, b }"
    assert found["g"].text == "template <class T, class U = int>\ninline auto g(T t) -> decltype(t)"
