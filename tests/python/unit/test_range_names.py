# SPDX-License-Identifier: Apache-2.0
"""Names of Python ranges: the limit of their memory, long names that are cut, and reclaiming between profiles."""

from __future__ import annotations

from fastprof import profile, record_function

SMALL = 65536  # bytes: names are reclaimed between profiles from 16 KB on


def names(prof: profile) -> list[str]:
    return [event.name for event in prof.events()]


def fill(prefix: str, count: int = 300) -> None:
    for i in range(count):
        with record_function(f"{prefix} {i}"):
            pass


def test_objects_are_used_again_after_their_names_were_reclaimed() -> None:
    plain = record_function("plain")
    full = record_function("full", text="some text", number=3, items=["a", "b"], shapes=[[1, 2]])

    @record_function("decorated")
    def work() -> None:
        pass

    for turn in range(6):
        with profile(max_name_bytes=SMALL) as prof:
            with plain, full:
                work()
            fill(f"turn {turn}")
        assert names(prof)[:3] == ["plain", "full", "decorated"]
        assert names(prof)[-1] == f"turn {turn} 299"
        assert "names" not in prof.event_table.dropped
        arguments = prof.events()[1].kwinputs
        assert arguments["text"] == "some text"
        assert arguments["number"] == 3


def test_a_range_left_open_over_profiles_ends_harmlessly() -> None:
    with profile(max_name_bytes=SMALL):
        kept = record_function("open", text="argument")
        kept.__enter__()
        fill("first")
    for turn in range(3):
        with profile(max_name_bytes=SMALL) as prof:
            fill(f"turn {turn}")
        assert len(prof.events()) == 300
    with profile(max_name_bytes=SMALL) as prof:
        kept.__exit__(None, None, None)
        fill("last")
    assert "open" not in names(prof)


def test_the_bound_is_counted_and_ends_with_the_profile() -> None:
    with profile(max_name_bytes=SMALL) as prof:
        fill("bounded", 3000)
    shared = prof.event_table.dropped["names"]
    assert names(prof).count("<too many names>") == shared > 1000
    assert f"at the bound of names: {shared}" in prof.key_averages().table()
    with profile(max_name_bytes=SMALL) as prof:
        fill("again")
    assert prof.event_table.dropped == {}


def test_long_names_and_arguments_are_cut_and_counted() -> None:
    with profile() as prof, record_function("n" * (10 << 20), text="t" * 100000):
        pass
    with profile() as other, record_function("list", items=["x" * 100] * 1000):
        pass
    assert names(prof) == ["n" * 65536 + "... [cut: 10485760 bytes]"]
    assert prof.event_table.dropped == {"names": 2}
    assert prof.events()[0].kwinputs["text"] == "t" * 65536 + "... [cut: 100000 bytes]"
    assert names(other) == ["list"]
    assert other.event_table.dropped == {"names": 1}
    assert "arguments left out" in other.events()[0].kwinputs


def test_full_table_of_names_and_json_arguments() -> None:
    with profile(max_name_bytes=SMALL) as prof:
        fill("bounded", 3000)
        with record_function("late", items=["a", "b"], text="some text"):
            pass
    assert names(prof)[-1] == "<too many names>"
