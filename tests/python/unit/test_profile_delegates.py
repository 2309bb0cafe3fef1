# SPDX-License-Identifier: Apache-2.0
"""What a profile hands on to the list of its events, with every argument, and to the page of a report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import fastprof
from fastprof import ProfilerActivity, errors
from fastprof.profiler.profiling import _first_device
from fastprof.report import export, facts


class Events:
    """Notes what is called of it, and with what."""

    self_cpu_time_total = 7.5

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        def called(*args: Any, **kwargs: Any) -> str:
            self.calls.append((name, args, kwargs))
            return f"result of {name}"

        return called

    def __repr__(self) -> str:
        return "the events"

    def __str__(self) -> str:
        return "the table"


class Profile(fastprof.profile):
    """A profile that ended, with a list of events that notes what is called of it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.given = Events()
        with self:
            pass

    def events(self) -> Any:
        return self.given if self._ended else super().events()


@pytest.mark.parametrize(
    ("method", "args", "kwargs", "expected_args", "expected_kwargs"),
    [
        ("key_averages", (), {}, (False, 0, False, False), {}),
        ("key_averages", (True, 3, True, True), {}, (True, 3, True, True), {}),
        ("total_average", (), {}, (), {}),
        ("table", ("cpu_time", 5), {"header": "h"}, ("cpu_time", 5), {"header": "h"}),
        ("tree_text", (2,), {"max_width": 80}, (2,), {"max_width": 80}),
        ("plot", (), {}, ("timeline",), {"ax": None, "limit": None}),
        ("plot", ("memory",), {"ax": "axes", "limit": 9}, ("memory",), {"ax": "axes", "limit": 9}),
    ],
)
def test_what_is_handed_on_to_the_events(
    method: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    expected_args: tuple[Any, ...],
    expected_kwargs: dict[str, Any],
) -> None:
    prof = Profile()
    assert getattr(prof, method)(*args, **kwargs) == f"result of {method}"
    assert prof.given.calls == [(method, expected_args, expected_kwargs)]
    assert (prof.self_cpu_time_total, repr(prof), str(prof)) == (7.5, "the events", "the table")


def test_stacks_need_stacks() -> None:
    with pytest.raises(errors.StateError, match="make the profile with with_stack=True"):
        Profile().export_stacks("path")
    prof = Profile(with_stack=True)
    prof.export_stacks("path")
    prof.export_stacks("path", "self_device_time_total")
    assert [args for _, args, _ in prof.given.calls] == [
        ("path", "self_cpu_time_total"), ("path", "self_device_time_total"),
    ]  # fmt: skip


def test_a_profile_that_never_ran() -> None:
    prof = fastprof.profile()
    assert repr(prof) == str(prof) == "<unfinished fastprof.profile>"
    with pytest.raises(errors.StateError):
        prof.python_calls()


def test_options_of_a_page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(facts, "machine_facts", lambda: {"CPU": "made up", "memory": "much"})
    pages: list[tuple[Any, ...]] = []
    monkeypatch.setattr(export, "export_html", lambda *args, **kwargs: pages.append((args, kwargs)))
    monkeypatch.setattr(export, "html_page", lambda *args, **kwargs: (args, kwargs))
    with fastprof.profile() as prof, fastprof.record_function("work"):
        pass
    prof.add_metadata("memory", "little")
    events = prof.events()
    path = str(tmp_path / "page.html")
    prof.export_html(path)
    prof.export_html(path, title="run 7", sources=False)
    plain = {
        "title": "", "sources": True, "facts": {"CPU": "made up", "memory": "little"}, "missing": prof.missing,
        "memory": None,
    }  # fmt: skip
    assert pages == [
        ((events, path), plain),
        ((events, path), {**plain, "title": "run 7", "sources": False}),
    ]
    assert prof._html_page() == ((events,), plain)  # type: ignore[comparison-overlap]
    assert prof._html_page("t", False) == ((events,), {**plain, "title": "t", "sources": False})  # type: ignore[comparison-overlap]


def test_the_first_device_of_activities() -> None:
    kinds = [*ProfilerActivity]
    order = ["cuda", "xpu", "mtia", "hpu", "privateuse1", "mps"]
    assert _first_device([]) is None and _first_device([ProfilerActivity.CPU]) is None
    while len(kinds) > 1:
        assert _first_device(kinds) == _first_device(kinds[::-1]) == order[0]
        kinds = [kind for kind in kinds if kind.name.lower() != order[0]]
        order = order[1:]
    assert kinds == [ProfilerActivity.CPU]
