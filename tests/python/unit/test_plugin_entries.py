# SPDX-License-Identifier: Apache-2.0
"""Devices that packages and the environment name: what an entry stands for, and one that is refused."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fastprof import ProfilerActivity, devices, errors
from fastprof.record import devices as registry

MODULE = """
class Chip:
    def __init__(self, name="one", activity="mtia"):
        self.name, self.activity = name, activity
    def begin(self, types): return 0
    def end(self, collection, sink): pass
    def abandon(self, collection): pass
class Inner:
    chip = Chip("inner", "hpu")
chip = Chip()
def make(): return Chip("made", "xpu")
def several(): return [Chip("first"), Chip("second")]
def pair(): return (Chip("third"),)
def registers():
    from fastprof import devices
    devices.register(Chip("registered"))
def fails(): raise RuntimeError("no such chip")
"""


@pytest.fixture
def chips(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of sys.path with a module of devices, and a registry that has loaded nothing yet."""
    (tmp_path / "some_chips.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "_devices", {})
    monkeypatch.setattr(registry, "_refused", {})
    monkeypatch.setattr(registry, "_installed_are_loaded", False)
    monkeypatch.setattr(registry, "_tried", set())
    yield tmp_path
    sys.modules.pop("some_chips", None)


def named(*entries: str) -> list[str]:
    os.environ["FASTPROF_DEVICE_PLUGINS"] = os.pathsep.join(entries)
    try:
        return [device.name for device in devices.registered()]
    finally:
        del os.environ["FASTPROF_DEVICE_PLUGINS"]


@pytest.mark.parametrize(
    ("entries", "found"),
    [
        (["some_chips:chip"], ["one"]),
        (["some_chips:Inner.chip"], ["inner"]),
        (["some_chips:Chip"], ["one"]),  # a class is called, as a function is
        (["some_chips:make", "", "some_chips:several"], ["made", "first", "second"]),
        (["some_chips:pair"], ["third"]),
        (["some_chips:registers"], ["registered"]),
        ([""], []),
    ],
)
def test_what_an_entry_stands_for(chips: Path, entries: list[str], found: list[str]) -> None:
    assert named(*entries) == found
    assert devices.refused() == {}
    assert named("some_chips:make") == found  # the first call decides


def test_activities_of_devices_by_name(chips: Path) -> None:
    named("some_chips:several", "some_chips:make", "some_chips:Inner.chip")
    kinds = [device.activity for device in devices.registered()]
    assert kinds == [
        ProfilerActivity.MTIA, ProfilerActivity.MTIA, ProfilerActivity.XPU, ProfilerActivity.HPU,
    ]  # fmt: skip
    origins = {device.origin for device in devices.registered()}
    assert origins == {"some_chips.Chip"}
    assert registry.find("second") == devices.registered()[1]
    assert registry.find("third") is None


def test_one_that_is_refused_is_warned_of_and_the_others_are_used(chips: Path) -> None:
    with pytest.warns(UserWarning, match="the device plug-in") as warned:
        assert named(
            "some_chips:fails", "absent_module:x", "some_chips:none", "some_chips:chip"
        ) == ["one"]
    assert devices.refused() == {
        "some_chips:fails": "RuntimeError: no such chip",
        "absent_module:x": "ModuleNotFoundError: No module named 'absent_module'",
        "some_chips:none": "AttributeError: module 'some_chips' has no attribute 'none'",
    }
    assert [str(each.message) for each in warned] == [
        "the device plug-in some_chips:fails is not used: no such chip",
        "the device plug-in absent_module:x is not used: No module named 'absent_module'",
        "the device plug-in some_chips:none is not used: module 'some_chips' has no attribute 'none'",
    ]


def test_a_library_is_found_by_its_path(chips: Path) -> None:
    with pytest.raises(
        errors.UnavailableError, match=rf"plug-in {os.getcwd()}/no\.so does not exist"
    ):
        devices.register("no.so")
    with pytest.warns(
        UserWarning, match="is not used: the device plug-in .*/gone.so does not exist"
    ):
        assert named(f"{chips}/gone.so") == []


def test_entry_points_of_packages(chips: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the text of a package that has some is read by importlib.metadata."""
    monkeypatch.delenv("FASTPROF_DEVICE_PLUGINS", raising=False)
    for package, text in [
        ("alpha-1.0.dist-info", "[console_scripts]\na = a:main\n"),
        ("chips-2.0.dist-info", "[fastprof.devices]\nmine = some_chips:make\n"),
    ]:
        folder = chips / package
        folder.mkdir()
        (folder / "entry_points.txt").write_text(text)
        name, _, version = package.removesuffix(".dist-info").partition("-")
        (folder / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        )
    (chips / "without-3.0.egg-info").mkdir()
    assert [device.name for device in devices.registered()] == ["made"]
