# SPDX-License-Identifier: Apache-2.0
"""split_magic_line: which words of a magic's line are options, and where the statement begins."""

from __future__ import annotations

import argparse

import pytest

from fastprof import errors
from fastprof.cli.magic_line import split_magic_line

PARSER = argparse.ArgumentParser()
PARSER.add_argument("--calls", action="store_true")
PARSER.add_argument("--html")
PARSER.add_argument("--as", dest="name")


def split(line: str) -> tuple[list[str], str]:
    return split_magic_line(line, PARSER._option_string_actions)


@pytest.mark.parametrize(
    ("line", "words", "statement"),
    [
        ("", [], ""),
        ("   ", [], ""),
        ("fit(x)", [], "fit(x)"),
        ("  fit( x,  y ) ", [], "fit( x,  y )"),
        ("--calls fit(x) --html a", ["--calls"], "fit(x) --html a"),
        ("--html a.html fit(x)", ["--html", "a.html"], "fit(x)"),
        ("--html 'my file.html' --calls x", ["--html", "my file.html", "--calls"], "x"),
        ('--html "it\'s".html x', ["--html", "it's.html"], "x"),
        ("--html a'b c'd x", ["--html", "ab cd"], "x"),
        ("--html --calls x", ["--html", "--calls"], "x"),  # argparse says what is wrong
        ("--calls -- -x + 1", ["--calls"], "-x + 1"),
        ("-- --calls", [], "--calls"),
        ("- 1", [], "- 1"),
        ("--unknown x", ["--unknown"], "x"),
        ("-x", ["-x"], ""),
        ("--html=a.html fit()", ["--html=a.html"], "fit()"),
        ("--calls 'text'.upper()", ["--calls"], "'text'.upper()"),
        ("--calls 'open", ["--calls"], "'open"),
        ("--html ''  x", ["--html", ""], "x"),
    ],
)
def test_words_and_statement(line: str, words: list[str], statement: str) -> None:
    assert split(line) == (words, statement)


@pytest.mark.parametrize("line", ["--html", "--calls --html  ", "--html 'open"])
def test_a_value_is_missing(line: str) -> None:
    with pytest.raises(errors.ValueError, match="--html needs a value"):
        split(line)
