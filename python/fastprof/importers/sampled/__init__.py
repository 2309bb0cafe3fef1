# SPDX-License-Identifier: Apache-2.0
"""Profiles of other tools that contain sampled call stacks: each frame becomes a row while it stays on the stack."""

from __future__ import annotations

import re
from collections.abc import Callable

from fastprof.importers.sampled.perf_script import PERF_SAMPLE
from fastprof.importers.source import Source
from fastprof.model.table import EventTable

__all__ = ["SAMPLED_FORMATS", "read_sampled", "sampled_format"]

SAMPLED_FORMATS = (
    "cpuprofile",
    "speedscope",
    "gecko",
    "self-profile",
    "hatchet",
    "perf-script",
    "collapsed",
    "pprof",
    "mojo",
    "tachyon",
)

# Writers put these members first; a Chrome trace has none of them before its events.
_CPUPROFILE = re.compile(
    rb'\s*\{\s*"(?:nodes|startTime|endTime|samples|timeDeltas|head|title|typeId|uid)"\s*:'
)
_SPEEDSCOPE = re.compile(rb'speedscope\.app/file-format-schema|\{\s*"shared"\s*:\s*\{\s*"frames"')
_GECKO = re.compile(rb'"(?:stackwalk|preprocessedProfileVersion|gecko_profile_version)"\s*:')
_SELF_PROFILE = re.compile(
    rb'\s*\{\s*"(?:(?:frames|resources|stacks)"\s*:\s*\[|samples"\s*:\s*\[\s*\{\s*"(?:timestamp|stackId)")'
)
_HATCHET = re.compile(rb'\[\s*\{\s*"(?:children"\s*:\s*\[|frame"\s*:\s*\{|metrics"\s*:\s*\{)')
# MessagePack: a list of maps whose first member is the frame, a map that begins with its name.
_PACKED_HATCHET = re.compile(
    rb"(?:[\x91-\x9f]|\xdc..)[\x82\x83]\xa5frame[\x81\x82]\xa4name", re.DOTALL
)
# A first field that is a ValueType of two indexes into the table of texts.
_PPROF = re.compile(rb"\x0a[\x02-\x0c]\x08[\x00-\xff]{1,5}?\x10")
_MOJO = re.compile(rb"MOJ[\x00-\x0f]")
_TACHYON = re.compile(rb"HCAT[\x00-\xff]\x00{3}|TACH\x00{3}")
# The first lines of a header that `perf script --header` prints, or a sample with its first frame.
_PERF_SCRIPT = re.compile(
    r"# ========\n# captured on |(?:#[^\n]*\n|\s*\n)*"
    rf"{PERF_SAMPLE}[^\n]*(?:\n[ \t]+|\s)[0-9a-f]{{1,16}} ".encode()
)
# Stacks may begin with a frame such as <module> or [unknown], but not like a page, a picture or JSON. A number alone in
# a line before them is py-spy's count of samples without a frame.
_COLLAPSED = re.compile(
    rb"(?:#[^\n]*\n|\s*\n|[ \t]*\d+\r?\n)*(?!<[!?]|<(?:html|svg)\b|\[(?![\w.: -]+\][; ]))"
    rb"[^\s\x00-\x1f][^\n\x00-\x08]* \d+(?:\.\d+)?[ \t]*\r?\n"
)


def sampled_format(head: bytes) -> str | None:
    """Return which of SAMPLED_FORMATS a file's first bytes (4,096 or all) are; None for others."""
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text[:1] == b"{":
        if b'"traceEvents"' in head:
            return None
        for name, pattern in (("speedscope", _SPEEDSCOPE), ("gecko", _GECKO)):
            if pattern.search(text):
                return name
        if _SELF_PROFILE.match(text):
            return "self-profile"
        return "cpuprofile" if _CPUPROFILE.match(text) else None
    if _HATCHET.match(text) or _PACKED_HATCHET.match(head):
        return "hatchet"
    if _PPROF.match(head):
        return "pprof"
    if _MOJO.match(head):
        return "mojo"
    if _TACHYON.match(head):
        return "tachyon"
    if _PERF_SCRIPT.match(text):
        return "perf-script"
    if _COLLAPSED.match(text if text.endswith(b"\n") else text + b"\n"):
        return "collapsed"
    return None


def read_sampled(source: Source, kind: str) -> EventTable:
    """Read a profile of one of SAMPLED_FORMATS.

    metadata["stack_samples"] is the number of samples, metadata["format"] the kind. The times of rows are the sampler's
    estimates; the number of rows is not one of calls: a function that returns and is called again between two samples
    has one row. Raises errors.FormatError for a malformed file.
    """
    from fastprof.importers.sampled import (
        collapsed,
        gecko,
        hatchet,
        mojo,
        perf_script,
        pprof,
        self_profile,
        speedscope,
        tachyon,
        v8_profile,
    )

    readers: dict[str, Callable[[Source], EventTable]] = {
        "cpuprofile": v8_profile.read_cpuprofile,
        "speedscope": speedscope.read_speedscope,
        "gecko": gecko.read_gecko,
        "self-profile": self_profile.read_self_profile,
        "hatchet": hatchet.read_hatchet,
        "perf-script": perf_script.read_perf_script,
        "collapsed": collapsed.read_collapsed,
        "pprof": pprof.read_pprof,
        "mojo": mojo.read_mojo,
        "tachyon": tachyon.read_tachyon,
    }
    return readers[kind](source)
