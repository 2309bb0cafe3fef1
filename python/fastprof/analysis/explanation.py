# SPDX-License-Identifier: Apache-2.0
"""explain(): where the time of a step went, what changed, which steps were slow and why, what to do first.

Every claim has its figure and the table rows behind it. The constants here are the limits below which nothing is
claimed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from fastprof.analysis.between_ranges import between_ranges, is_sampled
from fastprof.analysis.blocked_loop import Blocked, blocked_loops
from fastprof.analysis.breakdown import Share, by_category, by_module
from fastprof.analysis.communication import REMEDY, Described, communication, describe
from fastprof.analysis.costs import Cost, by_own_code, find_costs
from fastprof.analysis.device_use import DeviceUse, device_uses
from fastprof.analysis.evaluation import table_of
from fastprof.analysis.memory_claims import MemoryClaim, growth_claims, memory_claims
from fastprof.analysis.named_rows import NamedRows
from fastprof.analysis.patterns import find_anti_patterns
from fastprof.analysis.steps import StepTimes
from fastprof.analysis.wait_kinds import KINDS
from fastprof.analysis.waits import Wait, find_waits, meanwhile, things_awaited
from fastprof.base import errors
from fastprof.base.formatting import counted, format_time
from fastprof.base.short_paths import shorten_paths
from fastprof.base.visible_text import visible_text
from fastprof.model.blocking_calls import awaited
from fastprof.model.call_origins import call_origins

__all__ = ["Claim", "Explanation", "explain"]

_SHOWN_PERCENT = 0.1  # least share of the steps' time that is listed, in percent
_SHOWN_NAMES, _SHOWN_STEPS, _SHOWN_EVENTS = 8, 3, 5
_SLOW = 1.5  # multiple of the median duration from which a step is slow
_CHANGE = 0.2  # relative difference of the medians of the first and last third of the steps
_MOST_OF_EXCESS = 0.3  # share of a slow step's excess from which a name is given as its reason
_WAIT = 0.05  # share of the steps' time from which a wait is claimed
_WAIT_NS = 2_000_000  # least time of a wait that is claimed of a recording without steps
# Share and time of the recording from which imports are listed.
_IMPORTS, _IMPORTS_NS = 0.02, 5_000_000
# Time of imports, and its ratio to that of the program, from which they are a finding.
_SLOW_IMPORTS, _SLOW_IMPORTS_NS = 0.5, 200_000_000
_IMPORT_LATER = "Import what is not always needed in the functions that use it"
_IDLE = 0.2  # share of its time from which a device's idleness is a finding
_GAIN = 0.01  # share of the steps' time from which an anti-pattern's gain is claimed


@dataclass(frozen=True)
class Claim:
    """A sentence, its figure in ns, and the table rows behind it."""

    text: str
    ns: int
    rows: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Explanation:
    """Result of explain(); lists are empty where nothing is wrong. first: what to do first, None for nothing."""

    steps: int
    median_step_ns: int
    total_ns: int
    where: list[Claim]
    modules: list[Claim]
    categories: list[Claim]
    memory: list[MemoryClaim]
    waits: list[Claim]
    changed: list[Claim]
    slowest: list[Claim]
    anti_patterns: list[dict[str, Any]]
    first: Claim | None
    imports: list[Claim] = field(default_factory=list)
    growth: list[MemoryClaim] = field(default_factory=list)
    blocked: list[Claim] = field(default_factory=list)
    costs: list[Claim] = field(default_factory=list)
    devices: list[Claim] = field(default_factory=list)
    idle_devices: list[Claim] = field(default_factory=list)
    communication: list[Claim] = field(default_factory=list)
    exposed: list[Claim] = field(default_factory=list)
    unnamed: list[Claim] = field(default_factory=list)
    steps_by: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; "findings": the texts of findings()."""
        return {**asdict(self), "findings": [text for text, _ in self.findings()]}

    def findings(self) -> list[tuple[str, list[int]]]:
        """Return (sentence, table rows) of what is unusual: a blocked event loop, waits, costs, changes, ..."""
        first = sorted(
            (*self.waits, *self.costs, *self.idle_devices, *self.exposed),
            key=lambda claim: -claim.ns,
        )
        found = [(c.text, c.rows) for c in (*self.blocked, *first, *self.changed, *self.slowest)]
        found += [(c.text, c.rows) for c in self.unnamed]
        found += [(c.text, c.rows) for c in self.growth]
        found += [
            (_pattern_text(p), [event["row"] for event in p["events"]]) for p in self.anti_patterns
        ]
        return found + [(c.text, c.rows) for c in _slow_imports(self.imports, self.total_ns)]

    def text(self) -> str:
        """Return one page of text. Paths of calls are relative to the working directory or to installed packages."""
        lines = [
            f"{counted(self.steps, 'step')}, median {_time(self.median_step_ns)}"
            + (f"; a step is from one end of {self.steps_by} to the next" if self.steps_by else "")
            if self.steps
            else f"no steps; the whole recording took {_time(self.total_ns)}"
            + (", without imports" if self.imports else "")
        ]
        parts: tuple[tuple[str, Sequence[str]], ...] = (
            ("Where the time went (self time)", [c.text for c in self.where]),
            ("By module (self time)", [c.text for c in self.modules]),
            ("By category (self time)", [c.text for c in self.categories]),
            ("Imports", [c.text for c in self.imports]),
            ("Memory", [c.text for c in self.memory]),
            ("Devices", [c.text for c in self.devices]),
            ("Communication", [c.text for c in self.communication]),
            ("Event loop", [c.text for c in self.blocked]),
            ("Waits", [c.text for c in self.waits]),
            ("Costs", [c.text for c in self.costs]),
            ("What changed over the steps", [c.text for c in self.changed]),
            ("Outside of ranges", [c.text for c in self.unnamed]),
            ("Slowest steps", [c.text for c in self.slowest]),
            ("Memory that grows", [c.text for c in self.growth]),
            ("Anti-patterns", [_pattern_text(p) for p in self.anti_patterns]),
            ("What to do first", [self.first.text] if self.first else []),
        )
        for title, texts in parts:
            if texts:
                lines += ["", title, *(f"  {visible_text(text)}" for text in texts)]
        if not self.findings():
            lines += ["", "Nothing unusual was found."]
        return shorten_paths("\n".join(lines))


def explain(
    prof: Any, *, step: str | None = None, breakdown: bool = True, my_code: bool = False
) -> Explanation:
    """Explain a profile that has ended, an EventList, or a table from fastprof.load().

    step: name of the ranges that are steps; default: the "ProfilerStep#N" of a schedule, or from one end of a step
    of torch's optimizer to the next. breakdown: False finds
    only what is unusual, without where the time went and memory. my_code: where the time went lists only the
    program's own calls; the time of others is their callers'. Raises errors.ValueError if no range has the
    name `step`. Any thread.

        print(fastprof.analysis.explain(prof).text())
    """
    rows = NamedRows(table_of(prof))
    loops = _blocked(rows)
    blocked = [claim for claim, _ in loops]
    times = StepTimes(rows, step)
    if times.inside_task:
        rows = NamedRows(rows.table, by_task=True)
        times = StepTimes(rows, step)
    if step is not None and not len(times.rows):
        raise errors.ValueError(
            f"no range is named {step!r}. Pass the name of a range, or leave out the step's name."
        )
    total = int(times.duration.sum())
    least = max(_WAIT * total, 1 if times.count else _WAIT_NS)
    found_waits = [w for w in find_waits(times) if w.ns >= least]
    waits = [
        Claim(_wait_text(w, total, by_own_code(times, w.rows)), w.ns, _table_rows(rows, w.rows))
        for w in found_waits
    ]
    patterns = [
        finding.to_dict()
        for finding in find_anti_patterns(prof, rows=rows)
        if finding.gain_ns >= _GAIN * max(total, 1)
    ]
    slowest = _slowest(times)
    devices = device_uses(rows.table, times.start, times.end)
    idle = [claim for use in devices for claim in _idle(use)]
    comm = _communication(times, total)
    exposed = [
        Claim(line.text, line.exposed_ns, line.rows)
        for line in comm
        if line.device is not None and line.exposed_ns >= _WAIT * max(total, 1)
    ]
    costs = find_costs(times, total)
    imports = _imports(rows)
    return Explanation(
        steps=times.count,
        steps_by=times.by_optimizer,
        median_step_ns=int(np.median(times.duration)),
        total_ns=total,
        where=_where(_own_times(rows, step) if my_code else times, total) if breakdown else [],
        modules=_shares(times, by_module(times), total) if breakdown else [],
        categories=_shares(times, by_category(times), total) if breakdown else [],
        memory=memory_claims(prof, times) if breakdown else [],
        waits=waits,
        changed=_changed(times),
        slowest=slowest,
        imports=imports,
        blocked=blocked,
        anti_patterns=patterns,
        costs=[Claim(c.text, c.ns, _table_rows(rows, c.rows)) for c in costs],
        devices=[Claim(t, use.busy_ns, use.rows) for use in devices for t in use.texts()],
        idle_devices=[Claim(text, ns, claimed) for text, _, ns, claimed in idle],
        first=_unblock(loops)
        or _first(
            waits,
            found_waits,
            costs,
            patterns,
            slowest,
            total,
            [
                *_remedies(idle),
                *(Claim(f"{REMEDY} ({c.text})", c.ns, c.rows) for c in exposed),
                *(
                    Claim(f"{_IMPORT_LATER}: {c.text}", c.ns, c.rows)
                    for c in _slow_imports(imports, total)
                ),
            ],
        ),
        communication=[Claim(line.text, line.exposed_ns, line.rows) for line in comm],
        exposed=exposed,
        growth=growth_claims(rows.tree.table),
        unnamed=_unnamed(times),
    )


def _communication(times: StepTimes, total: int) -> list[Described]:
    found = communication(times.events.table, times.start, times.end)
    return describe(
        found, [times.name(step) for step in range(times.count)] if found else [], total
    )


def _idle(use: DeviceUse) -> list[tuple[str, str, int, list[int]]]:
    """Return (sentence, remedy, ns, rows) of the main reason why a device was idle; [] if it hardly was."""
    if not use.idle or use.span_ns - use.busy_ns < _IDLE * use.span_ns:
        return []
    reason, remedy, ns = use.idle[0]
    text = f"device {use.device} was idle {_time(ns)} ({100 * ns / use.span_ns:.1f} %) because {reason}"
    return [(text, remedy, ns, use.rows)]


def _remedies(idle: list[tuple[str, str, int, list[int]]]) -> list[Claim]:
    return [Claim(f"{remedy} ({text})", ns, rows) for text, remedy, ns, rows in idle]


def _blocked(rows: NamedRows) -> list[tuple[Claim, Blocked]]:
    span_ns = max(int(rows.table.t1_ns - rows.table.t0_ns), 1)
    found = [one for one in blocked_loops(rows) if one.lengths.sum() >= _WAIT * span_ns]
    return [(_blocked_claim(one, span_ns), one) for one in found]


def _blocked_claim(one: Blocked, span_ns: int) -> Claim:
    whole = int(one.lengths.sum())
    by = f" by {one.by}" if one.by else ""
    text = (
        f"the event loop was blocked {_time(float(np.median(one.lengths)))} at {one.place}{by}, "
        f"{counted(len(one.lengths), 'time')}: {_time(whole)} ({100 * whole / span_ns:.1f} %)"
    )
    return Claim(text, whole, one.rows[one.rows >= 0].tolist())


def _unblock(loops: list[tuple[Claim, Blocked]]) -> Claim | None:
    if not loops:
        return None
    worst, loop = loops[0]
    call = "trio.to_thread.run_sync" if loop.is_trio else "asyncio.to_thread"
    text = f"Await an asynchronous call there, or move the work to a thread ({call})"
    return Claim(f"{text}: {worst.text}", worst.ns, worst.rows)


def _imports(rows: NamedRows) -> list[Claim]:
    found = rows.imports
    processes = rows.table.metadata.get("processes")  # of a file: any value
    count = max(len(processes), 1) if isinstance(processes, (list, tuple)) else 1
    span_ns = int(rows.table.t1_ns - rows.table.t0_ns) * count  # each process imports
    if found.total_ns < max(_IMPORTS * span_ns, _IMPORTS_NS):
        return []
    longest = np.flatnonzero(rows.is_import)
    longest = longest[np.argsort(rows.start[longest] - rows.end[longest], kind="stable")]
    whole = f"the time of {count} processes" if count > 1 else "the recording"
    text = (
        f"imports took {found.text()} ({100 * found.total_ns / max(span_ns, 1):.1f} % of {whole})"
    )
    return [Claim(text, found.total_ns, _table_rows(rows, longest))]


def _slow_imports(imports: list[Claim], total: int) -> list[Claim]:
    return [claim for claim in imports if claim.ns >= max(_SLOW_IMPORTS * total, _SLOW_IMPORTS_NS)]


def _time(ns: float) -> str:
    return format_time(ns / 1000)


def _table_rows(rows: NamedRows, events: Any) -> list[int]:
    return [rows.tree.table_row(int(row)) for row in events[:_SHOWN_EVENTS]]


def _pattern_text(found: dict[str, Any]) -> str:
    gain = _time(found["estimated_gain_ns"])
    return f"{found['name']}: {counted(found['count'], 'event')}, gain about {gain}. {found['message']}"


def _wait_text(wait: Wait, total: int, by: str) -> str:
    share = 100 * wait.ns / max(total, 1)
    text = f"{wait.what}: {_time(wait.ns)} ({share:.1f} %) in {counted(len(wait.rows), 'call')}{by}"
    text += f", for {wait.things}" if wait.things else ""
    return text + (f"; meanwhile {wait.meanwhile}" if wait.meanwhile else "")


def _own_times(rows: NamedRows, step: str | None) -> StepTimes:
    return StepTimes(rows.without(np.isin(call_origins(rows.table), ("c", "installed"))), step)


def _where(times: StepTimes, total: int) -> list[Claim]:
    """Return the names with the most self time; calls that wait for a thread or for events come last, in one claim."""
    sums = times.self_ns.sum(axis=0)
    names = times.events.names
    waits = [bool(awaited(names[code])) for code in times.names.tolist()]
    sampled = is_sampled(times)
    claims = []
    for column in [n for n, wait in enumerate(waits) if not wait][:_SHOWN_NAMES]:
        code = int(times.names[column])
        events = times.events_of(code)
        share = 100 * sums[column] / max(total, 1)
        if share < _SHOWN_PERCENT:
            break
        # The number of rows of samples is not one of calls.
        of_samples = len(events) > 0 and bool(sampled[events[0]])
        calls = "sampled" if of_samples else counted(len(events), "call")
        text = f"{share:5.1f} %  {_time(sums[column]):>10}  {names[code]}  ({calls})"
        claims.append(Claim(text, int(sums[column]), _table_rows(times.events, events)))
    waited = int(sums[np.array(waits, np.bool_)].sum()) if waits else 0
    if waited >= _SHOWN_PERCENT / 100 * max(total, 1):
        codes = times.names[np.array(waits, np.bool_)]
        events = np.flatnonzero((times.step_of >= 0) & np.isin(times.events.name_id, codes))
        events = times.events.outermost(events)
        text = f"{100 * waited / max(total, 1):5.1f} %  {_time(waited):>10}  waiting for "
        text += things_awaited(times, events)
        events = events[np.argsort(times.events.start[events] - times.events.end[events])]
        claims.append(Claim(text, waited, _table_rows(times.events, events)))
    rest = int(times.unmeasured_ns.sum())
    if rest > _WAIT * max(total, 1):
        share = 100 * rest / total
        claims.append(Claim(f"{share:5.1f} %  {_time(rest):>10}  outside of any event", rest))
    return claims


def _unnamed(times: StepTimes) -> list[Claim]:
    found = between_ranges(times)
    if found is None:
        return []
    return [Claim(found.text, found.ns, _table_rows(times.events, found.rows))]


def _shares(times: StepTimes, shares: list[Share], total: int) -> list[Claim]:
    claims = []
    for share in shares[:_SHOWN_NAMES]:
        percent = 100 * share.ns / max(total, 1)
        if percent < _SHOWN_PERCENT:
            break
        text = f"{percent:5.1f} %  {_time(share.ns):>10}  {share.what}"
        claims.append(Claim(text, share.ns, _table_rows(times.events, share.rows)))
    return claims


def _changed(times: StepTimes) -> list[Claim]:
    third = times.count // 3
    if third < 3:
        return []
    before, after = times.duration[:third], times.duration[-third:]
    low, high = float(np.median(before)), float(np.median(after))
    noise = float(np.median(np.abs(before - low)) + np.median(np.abs(after - high)))
    if abs(high - low) < max(_CHANGE * low, 3 * noise):
        return []
    grew = np.median(times.self_ns[-third:], axis=0) - np.median(times.self_ns[:third], axis=0)
    word = "longer" if high > low else "shorter"
    text = f"steps became {word}: median {_time(low)} in the first third, {_time(high)} in the last"
    rows: list[int] = []
    if len(grew):
        part = grew * np.sign(high - low)  # what changed the other way is negative
        column = int(np.argmax(part))
        code = int(times.names[column])
        if part[column] >= _MOST_OF_EXCESS * abs(high - low):
            text += f"; {_time(part[column])} of it in {times.events.names[code]}"
            rows = _table_rows(times.events, times.events_of(code))
    return [Claim(text, int(high - low), rows)]


def _slowest(times: StepTimes) -> list[Claim]:
    if times.count < 3:
        return []
    median = float(np.median(times.duration))
    usual = np.median(times.self_ns, axis=0)
    claims = []
    for step in np.argsort(-times.duration, kind="stable")[:_SHOWN_STEPS].tolist():
        duration = int(times.duration[step])
        if duration < _SLOW * median:
            break
        excess = duration - median
        name = times.name(step)
        text = f"{name} took {_time(duration)}, {_time(excess)} more than the median"
        more = times.self_ns[step] - usual
        rows = _table_rows(times.events, times.marks[step : step + 1])
        column = int(np.argmax(more)) if len(more) else -1
        if column >= 0 and more[column] >= _MOST_OF_EXCESS * excess:
            code = int(times.names[column])
            reason = times.events.names[code]
            longest = times.events_of(code, step)
            kind = int(times.wait_kind[longest[0]]) if len(longest) else -1
            label = f"{reason} ({KINDS[kind].what})" if kind >= 0 else reason
            text += f": {_time(more[column])} of it in {label}"
            rows += _table_rows(times.events, longest)
        else:
            rest = float(times.unmeasured_ns[step] - np.median(times.unmeasured_ns))
            if rest >= _MOST_OF_EXCESS * excess:
                text += f": {_time(rest)} of it outside of any event"
                ran = meanwhile(times, *(edge[:1] for edge in times.gaps_of(step)))
                text += f"; meanwhile {ran}" if ran else ""
        claims.append(Claim(text, int(excess), rows))
    return claims


def _first(
    claims: list[Claim],
    waits: list[Wait],
    costs: list[Cost],
    patterns: list[dict[str, Any]],
    slowest: list[Claim],
    total: int,
    others: list[Claim],
) -> Claim | None:
    """Return the remedy that saves the most time; None without any."""
    options = [
        Claim(f"{wait.remedy} (up to {_time(wait.ns)})", wait.ns, claim.rows)
        for wait, claim in zip(waits, claims, strict=True)
    ]
    options += [
        Claim(
            f"{p['message']} (about {_time(p['estimated_gain_ns'])})",
            p["estimated_gain_ns"],
            [event["row"] for event in p["events"][:_SHOWN_EVENTS]],
        )
        for p in patterns
    ]
    options += [Claim(f"{c.remedy} (up to {_time(c.ns)})", c.ns, []) for c in costs]
    options += others
    lost = sum(claim.ns for claim in slowest)
    if slowest and lost >= _WAIT * total:
        options.append(Claim(f"Look at the slow steps: {slowest[0].text}", lost, slowest[0].rows))
    return max(options, key=lambda claim: claim.ns, default=None)
