# SPDX-License-Identifier: Apache-2.0
# Written by `make stubs` from the built module; do not edit.
"""
The native part of fastprof. Private: use the names that `fastprof` exports.
"""

from __future__ import annotations
import collections.abc
import numpy
import numpy.typing
import typing

__all__: list[str] = [
    "Capture",
    "LegacyEvents",
    "OpenRange",
    "Session",
    "ThreadState",
    "TorchFastRangesHold",
    "TorchMemoryHold",
    "TorchModulesHold",
    "TorchOpsHold",
    "TorchTravelHold",
    "abi_version",
    "add_remote_events",
    "after_fork_in_child",
    "capture_of",
    "compiler",
    "counter",
    "counters_missing",
    "default_node_id",
    "flow_begin",
    "flow_end",
    "group_firsts",
    "group_floats",
    "group_times",
    "group_usage",
    "leave_out_frames_of",
    "legacy_disable",
    "legacy_enable",
    "legacy_enabled",
    "legacy_mark",
    "legacy_state_missing",
    "libraries_of_other_abi",
    "listed_rows",
    "mark",
    "memory_usage",
    "now_ns",
    "record_function",
    "report_memory_usage",
    "report_out_of_memory",
    "set_default_node_id",
    "set_thread_name",
    "thread_id",
    "throw_error",
    "torch_after_fork_in_child",
    "torch_known_input_layout",
    "torch_known_layout",
    "torch_known_memory_layout",
    "torch_memory_after_fork_in_child",
    "torch_memory_prepare",
    "torch_memory_self_test",
    "torch_memory_start",
    "torch_memory_stop",
    "torch_memory_withdraw",
    "torch_modules_start",
    "torch_modules_stop",
    "torch_newest_release",
    "torch_observe",
    "torch_observe_fast_ranges",
    "torch_pause_ops",
    "torch_prepare",
    "torch_release_fast_ranges",
    "torch_self_test",
    "torch_start_observing",
    "torch_stop_observing",
    "torch_travel_start",
    "torch_travel_stop",
    "torch_trust_inputs",
    "torch_try_inputs",
    "version",
]


class OpenRange:
    """
    A begun range, ended by end() on any thread.
    """

    @property
    def active(self) -> bool:
        """
        Recorded and not ended.
        """

    def end(self) -> bool:
        """
        Record the end, on whatever thread; False when it was ended before.
        """


_F = typing.TypeVar("_F", bound=collections.abc.Callable[..., typing.Any])


class record_function:
    """
    A named range: a context manager and a decorator.
    """

    def __init__(
        self,
        name: str,
        args: str | None = None,
        *,
        shapes: collections.abc.Sequence[collections.abc.Sequence[int]] | None = None,
        flops: float | None = None,
        node_id: int | None = None,
        **kwargs: typing.Any,
    ) -> None: ...
    @property
    def name(self) -> str:
        """
        The name given.
        """

    def __enter__(self) -> record_function:
        """
        Begin the range on the calling thread.
        """

    def __exit__(self, kind: object = None, error: object = None, trace: object = None, /) -> None:
        """
        End it. Exceptions pass through.
        """

    def __call__(self, function: _F) -> _F:
        """
        Decorate: a range around each call.
        """

    def _call_end_callbacks_on_future(self, future: typing.Any) -> typing.Any:
        """
        End the range when the future completes; see fastprof.record.ranges.
        """

    def _detach(self) -> OpenRange:
        """
        Hand the end of the open range to what is returned.
        """

    def _begin_async(self) -> OpenRange:
        """
        Begin a range that may overlap others of its thread; what is returned ends it.
        """


class Capture:
    """
    What one session saw; see capture/capture.hpp.
    """

    def __len__(self) -> int: ...
    def columns(self) -> dict[str, numpy.ndarray[typing.Any, numpy.dtype[typing.Any]]]:
        """
        The columns by name: read-only arrays over the capture, no copy.
        """

    def dropped(self) -> dict[str, int]:
        """
        Missing events by cause.
        """

    def find_blocks(
        self, types: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]
    ) -> list[tuple[numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.int64]]]:
        """
        (rows, at) for each of these types: the rows with such a detail block, ascending, and the index in payload_words of its first content word.
        """

    def flops_of(
        self,
        inputs: typing.Annotated[numpy.typing.ArrayLike, numpy.int32],
        pairs: collections.abc.Sequence[
            tuple[
                typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex
            ]
        ],
        estimates: collections.abc.Sequence[typing.SupportsFloat | typing.SupportsIndex],
        covering: collections.abc.Sequence[bool],
    ) -> numpy.typing.NDArray[numpy.float64]:
        """
        FLOPs by row: the estimate of its (site, code) of inputs, 0 for what is not among the pairs, and for rows of the sites that covering marks which have rows with FLOPs of other sites inside.
        """

    def foreign_end_track(self) -> numpy.ndarray[typing.Any, numpy.dtype[typing.Any]]: ...
    def foreign_row(self) -> numpy.ndarray[typing.Any, numpy.dtype[typing.Any]]: ...
    def payload_words(self) -> numpy.ndarray[typing.Any, numpy.dtype[typing.Any]]: ...
    def read_details(self, pair_sites: collections.abc.Sequence[bool]) -> dict[str, typing.Any]:
        """
        What the details of the rows say, found in one walk; what no row has is left out. sequence_nr, fwd_thread, node_id: columns, -1 for none; record_function_id: 0 for none. stack, modules, json, overload: (codes, indices into strings by code), -1 for none. inputs: (1 + code, 0 for none; the words of the distinct blocks by code; the distinct (site, code) of sites that pair_sites marks).
        """

    def sites(self) -> dict[str, list[typing.Any]]:
        """
        One list per field of fastprof.model.sites.Site.
        """

    def strings(self) -> list[str]:
        """
        What string arguments point into.
        """

    def tracks(self) -> list[tuple[int, int, int, str, bool]]:
        """
        (id, pid, tid, name, alive) of each track.
        """

    def write_chrome_trace(
        self,
        path: bytes,
        metadata: collections.abc.Sequence[tuple[str, str]],
        trace_name: str,
        progress: collections.abc.Callable[[int], typing.Any] | None = None,
        event_ids: bool | None = None,
    ) -> int:
        """
        Write Chrome JSON; returns the bytes written. `path` as os.fsencode gives it. progress: called with the bytes written so far; what it raises ends the writing. event_ids: whether events carry Kineto's ids; None: when there are ops.
        """

    def write_perfetto_trace(
        self, path: bytes, progress: collections.abc.Callable[[int], typing.Any] | None = None
    ) -> int:
        """
        Write Perfetto's protobuf format; returns the bytes written.
        """

    @property
    def clock_error_ns(self) -> int: ...
    @property
    def counter_names(self) -> list[str]: ...
    @property
    def exact_stop(self) -> bool: ...
    @property
    def node_id(self) -> int:
        """
        Node of the rows without one of their own, -1 for none.
        """

    @property
    def pid(self) -> int: ...
    @property
    def process_name(self) -> str: ...
    @property
    def t0_ns(self) -> int: ...
    @property
    def t1_ns(self) -> int: ...


class Session:
    """
    A stretch of time whose records you get back; see session/session.hpp.
    """

    def __init__(
        self,
        *,
        categories: typing.SupportsInt | typing.SupportsIndex = 16777215,
        thread_local_only: bool = False,
        max_bytes: typing.SupportsInt | typing.SupportsIndex = 0,
        overflow: typing.SupportsInt | typing.SupportsIndex = 0,
        include_open: bool = False,
        python_stacks: bool = False,
        counters: collections.abc.Sequence[str] = [],
        max_name_bytes: typing.SupportsInt | typing.SupportsIndex = 0,
        record_shapes: bool = False,
        spill_folder: bytes = b"",
    ) -> None: ...
    def drain(self) -> int:
        """
        Read what is finished, so that its memory serves again; the rows so far.
        """

    def start(self) -> None: ...
    def stop(self, thread_names: dict[int, str]) -> Capture:
        """
        End and read. Called again, it returns the same capture. StateError if the session was never started.
        """

    def warm_up(self) -> None:
        """
        Fault in memory for 32 MB of records, or max_bytes if that is less.
        """

    @property
    def has_capture(self) -> bool:
        """
        Whether stop() has read what was recorded.
        """

    @property
    def running(self) -> bool: ...
    @property
    def spill_error(self) -> str:
        """
        Why the spill file of the last stop() refused a write; empty when it did not.
        """

    @property
    def spilled_bytes(self) -> int:
        """
        Bytes that the session of the last stop() had in its spill file.
        """


class ThreadState:
    """
    Thread-local sessions, callbacks and debug info of the thread that makes it.
    """

    def __init__(self) -> None: ...
    def call(
        self, function: typing.Any, args: tuple[typing.Any, ...], kwargs: dict[str, typing.Any]
    ) -> typing.Any:
        """
        Call it with that state on this thread.
        """


class LegacyEvents:
    """
    What a run of the exclusive profiler recorded: a list of events for each thread, then the remote lists.
    """

    @staticmethod
    def decode(bytes: bytes) -> LegacyEvents:
        """
        Events from the bytes of encode(); they are remote. errors.FormatError naming the byte that does not follow the format.
        """

    def encode(self) -> bytes:
        """
        The events as bytes for another process: csrc/include/fastprof/legacy/event_bytes.hpp.
        """

    def json(self) -> str:
        """
        Every field of every record as JSON.
        """

    def records(self) -> list[list[tuple[typing.Any, ...]]]:
        """
        The fields of fastprof.LegacyRecord of each event of each list; names are bytes.
        """


class TorchOpsHold:
    """
    Ops are recorded from begin() to end().
    """

    def __init__(self) -> None: ...
    def begin(self, inputs: bool = False) -> None:
        """
        inputs: with their inputs. After torch_prepare(), and for inputs torch_trust_inputs(), have succeeded; else StateError.
        """

    def end(self) -> None:
        """
        End it if it is on. Its destructor does, too.
        """

    @property
    def active(self) -> bool: ...


class TorchMemoryHold:
    """
    Allocations are recorded from begin() to end().
    """

    def __init__(self) -> None: ...
    def begin(self) -> bool:
        """
        False: another profiler has this thread's reports. After torch_memory_prepare() has succeeded, else StateError.
        """

    def end(self) -> None:
        """
        End it if it is on. Its destructor does, too.
        """

    @property
    def active(self) -> bool: ...


class TorchModulesHold:
    """
    Ops have the TorchScript modules that they run in from begin() to end().
    """

    def __init__(self) -> None: ...
    def begin(self) -> str:
        """
        Empty, or the reason why not.
        """

    def end(self) -> None:
        """
        End it if it is on. Its destructor does, too.
        """

    @property
    def active(self) -> bool: ...


class TorchTravelHold:
    """
    From begin() to end(), work that the thread of begin() gives to libtorch's threads belongs to the thread-local sessions that this thread belongs to.
    """

    def __init__(self) -> None: ...
    def begin(self) -> bool:
        """
        False if this thread belongs to no such session. After torch_memory_prepare() has succeeded, else StateError.
        """

    def end(self) -> None:
        """
        End it if it is on. Its destructor does, too.
        """

    @property
    def active(self) -> bool: ...


class TorchFastRangesHold:
    """
    Ranges of torch's _RecordFunctionFast are recorded from begin() to end().
    """

    def __init__(self) -> None: ...
    def begin(self, type: typing.Any) -> str:
        """
        type: torch._C._profiler._RecordFunctionFast. Empty, or the reason why not.
        """

    def end(self) -> None:
        """
        End it if it is on. Its destructor does, too.
        """

    @property
    def active(self) -> bool: ...


def abi_version() -> tuple[int, int]:
    """
    The (major, minor) version that annotated libraries of one process share.
    """


def add_remote_events(bytes: bytes) -> None:
    """
    See fastprof.profiler_legacy.add_remote_events.
    """


def after_fork_in_child() -> None:
    """
    Drop what belonged to the parent's sessions.
    """


def capture_of(
    *,
    columns: typing.Any,
    sites: typing.Any,
    tracks: typing.Any,
    strings: typing.Any,
    t0_ns: typing.SupportsInt | typing.SupportsIndex,
    t1_ns: typing.SupportsInt | typing.SupportsIndex,
    clock_error_ns: typing.SupportsInt | typing.SupportsIndex,
    pid: typing.SupportsInt | typing.SupportsIndex,
    process_name: str,
    dropped: typing.Any,
    counter_names: collections.abc.Sequence[str] = [],
) -> Capture:
    """
    A Capture of given columns, copied; see capture/capture.hpp for what must hold of them.
    """


def counter(name: str, value: float) -> None:
    """
    A number over time.
    """


def counters_missing(names: collections.abc.Sequence[str]) -> str:
    """
    Why these perf counters cannot be read together on this thread; empty when they can.
    """


def default_node_id() -> int:
    """
    See fastprof.default_node_id.
    """


def flow_begin(id: int, name: str = "flow") -> None:
    """
    An arrow starts here.
    """


def flow_end(id: int, name: str = "flow") -> None:
    """
    The arrow of that id ends here.
    """


def group_firsts(
    *,
    codes: numpy.ndarray[typing.Any, numpy.dtype[typing.Any]],
    groups: typing.SupportsInt | typing.SupportsIndex,
    parent: typing.Annotated[numpy.typing.ArrayLike, numpy.int32],
    order: typing.Annotated[numpy.typing.ArrayLike, numpy.int64] | None,
) -> numpy.typing.NDArray[numpy.int64]:
    """
    The first event of each group in the list's order, -1 for none; capture/group_sums.hpp.
    """


def group_floats(
    *,
    codes: numpy.ndarray[typing.Any, numpy.dtype[typing.Any]],
    groups: typing.SupportsInt | typing.SupportsIndex,
    parent: typing.Annotated[numpy.typing.ArrayLike, numpy.int32],
    rows: typing.Annotated[numpy.typing.ArrayLike, numpy.int64] | None,
    on_cpu: typing.Annotated[numpy.typing.ArrayLike, numpy.bool] | None,
    is_async: typing.Annotated[numpy.typing.ArrayLike, numpy.bool] | None,
    order: typing.Annotated[numpy.typing.ArrayLike, numpy.int64] | None,
    values: typing.Annotated[numpy.typing.ArrayLike, numpy.float64],
) -> numpy.typing.NDArray[numpy.float64]:
    """
    Sums by group of a column of floats, added in the list's order, NaN as 0; capture/group_sums.hpp.
    """


def group_times(
    *,
    codes: numpy.ndarray[typing.Any, numpy.dtype[typing.Any]],
    groups: typing.SupportsInt | typing.SupportsIndex,
    parent: typing.Annotated[numpy.typing.ArrayLike, numpy.int32],
    rows: typing.Annotated[numpy.typing.ArrayLike, numpy.int64] | None,
    on_cpu: typing.Annotated[numpy.typing.ArrayLike, numpy.bool] | None,
    is_async: typing.Annotated[numpy.typing.ArrayLike, numpy.bool] | None,
    start: typing.Annotated[numpy.typing.ArrayLike, numpy.int64],
    end: typing.Annotated[numpy.typing.ArrayLike, numpy.int64],
) -> tuple[
    numpy.typing.NDArray[numpy.int64],
    numpy.typing.NDArray[numpy.int64],
    numpy.typing.NDArray[numpy.int64],
]:
    """
    (total, self, count) by group of the events' durations; capture/group_sums.hpp.
    """


def group_usage(
    *,
    codes: numpy.ndarray[typing.Any, numpy.dtype[typing.Any]],
    groups: typing.SupportsInt | typing.SupportsIndex,
    parent: typing.Annotated[numpy.typing.ArrayLike, numpy.int32],
    rows: typing.Annotated[numpy.typing.ArrayLike, numpy.int64] | None,
    on_cpu: typing.Annotated[numpy.typing.ArrayLike, numpy.bool] | None,
    is_async: typing.Annotated[numpy.typing.ArrayLike, numpy.bool] | None,
    values: typing.Annotated[numpy.typing.ArrayLike, numpy.int64],
) -> tuple[
    numpy.typing.NDArray[numpy.int64],
    numpy.typing.NDArray[numpy.int64],
    numpy.typing.NDArray[numpy.int64],
]:
    """
    (total, self, count of those that are not 0) by group of a column that includes children; capture/group_sums.hpp.
    """


def leave_out_frames_of(file: str) -> None:
    """
    Leave frames of this file out at the inner end of stacks: wrappers, which decorators make.
    """


def legacy_disable(cleanup_tls_state: bool = True, consolidate: bool = True) -> LegacyEvents:
    """
    End this thread's exclusive profiler. errors.StateError when there is none.
    """


def legacy_enable(
    *,
    state: typing.SupportsInt | typing.SupportsIndex,
    record_shapes: bool,
    profile_memory: bool,
    with_stack: bool,
    with_flops: bool,
    with_modules: bool,
    trace_id: str = "",
) -> None:
    """
    Put an exclusive profiler on this thread. errors.StateError when there is one, errors.UnavailableError when the state's device support is missing.
    """


def legacy_enabled() -> bool:
    """
    Whether this thread has an exclusive profiler that records.
    """


def legacy_mark(name: str, include_device: bool = True) -> None:
    """
    Record an instant with this thread's exclusive profiler; nothing without one.
    """


def legacy_state_missing(state: typing.SupportsInt | typing.SupportsIndex) -> str:
    """
    Why a state cannot be enabled; empty when it can.
    """


def libraries_of_other_abi() -> list[str]:
    """
    Paths of loaded objects whose fastprof has another ABI major; "" is the executable.
    """


def listed_rows(
    *,
    parent: typing.Annotated[numpy.typing.ArrayLike, numpy.int32],
    kind: typing.Annotated[numpy.typing.ArrayLike, numpy.uint8] | None,
    nests: typing.Annotated[numpy.typing.ArrayLike, numpy.bool] | None,
    hidden: typing.Annotated[numpy.typing.ArrayLike, numpy.bool] | None,
    site: typing.Annotated[numpy.typing.ArrayLike, numpy.uint32],
    name_of_site: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
) -> tuple[numpy.typing.NDArray[numpy.int64] | None, numpy.typing.NDArray[numpy.int32]]:
    """
    (rows or None for all, parent in the list): the tree of a list without the repeated rows of wrappers; capture/listed_rows.hpp.
    """


def mark(name: str) -> None:
    """
    An instant on the calling thread.
    """


def memory_usage(
    *,
    kind: typing.Annotated[numpy.typing.ArrayLike, numpy.uint8],
    parent: typing.Annotated[numpy.typing.ArrayLike, numpy.int32],
    nests: typing.Annotated[numpy.typing.ArrayLike, numpy.bool] | None,
    payload: typing.Annotated[numpy.typing.ArrayLike, numpy.uint32],
    site: typing.Annotated[numpy.typing.ArrayLike, numpy.uint32],
    words: typing.Annotated[numpy.typing.ArrayLike, numpy.uint64],
    cpu_sites: collections.abc.Sequence[bool],
) -> tuple[
    numpy.typing.NDArray[numpy.int64] | None,
    numpy.typing.NDArray[numpy.int64] | None,
    numpy.typing.NDArray[numpy.int64],
    numpy.typing.NDArray[numpy.int64],
]:
    """
    (CPU bytes by row or None, those of devices, rows left over, rows that failed): memory records told to the innermost ranges around them; capture/memory_usage.hpp.
    """


def now_ns() -> int:
    """
    The time now as captures give it: Unix ns, monotonic. Meaningful once a session was started.
    """


def report_memory_usage(
    ptr: typing.SupportsInt | typing.SupportsIndex,
    alloc_size_bytes: typing.SupportsInt | typing.SupportsIndex,
    total_allocated_bytes: typing.SupportsInt | typing.SupportsIndex,
    total_reserved_bytes: typing.SupportsInt | typing.SupportsIndex,
    device_type: typing.SupportsInt | typing.SupportsIndex,
    device_index: typing.SupportsInt | typing.SupportsIndex,
) -> None:
    """
    See fastprof.report_memory_usage.
    """


def report_out_of_memory(
    alloc_size_bytes: typing.SupportsInt | typing.SupportsIndex,
    total_allocated_bytes: typing.SupportsInt | typing.SupportsIndex,
    total_reserved_bytes: typing.SupportsInt | typing.SupportsIndex,
    device_type: typing.SupportsInt | typing.SupportsIndex,
    device_index: typing.SupportsInt | typing.SupportsIndex,
) -> None:
    """
    See fastprof.report_out_of_memory.
    """


def set_default_node_id(node_id: typing.SupportsInt | typing.SupportsIndex) -> None:
    """
    See fastprof.set_default_node_id.
    """


def set_thread_name(name: str) -> None:
    """
    Name the calling thread in everything recorded from now on.
    """


def thread_id() -> int:
    """
    The id of the calling thread in captures (FunctionEvent.thread).
    """


def throw_error(name: str, message: str) -> None:
    """
    Throw the C++ error of that name (any other name: Error), for the test of the mapping.
    """


def torch_after_fork_in_child() -> None: ...
def torch_known_input_layout(
    version: str, cxx11_abi: bool
) -> typing.Annotated[list[int], "FixedSize(24)"] | None:
    """
    The numbers of a version's input layout, in the order of fastprof.adapters.torch.layout.INPUTS; None for a version that is not in the table.
    """


def torch_known_layout(
    version: str, cxx11_abi: bool
) -> typing.Annotated[list[int], "FixedSize(8)"] | None:
    """
    The offsets in the table of layouts; None for a version that is not there.
    """


def torch_known_memory_layout(version: str) -> typing.Annotated[list[int], "FixedSize(2)"] | None:
    """
    Bytes of a kind of debug info, and the number of PROFILER_STATE where kinds are enumerated; None for a version that is not in the table.
    """


def torch_memory_after_fork_in_child() -> None: ...
def torch_memory_prepare(
    version: str,
    layout: typing.Annotated[
        collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex], "FixedSize(2)"
    ]
    | None = None,
) -> str:
    """
    Check how the loaded libtorch reports memory, after torch_prepare(); empty when its allocations can be observed, else the reason. layout: for a version that is not in the table, what fastprof.adapters.torch.layout has found.
    """


def torch_memory_self_test(
    forged: typing.SupportsInt | typing.SupportsIndex = 0,
    layout: typing.Annotated[
        collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex], "FixedSize(2)"
    ] = [8, 0],
) -> str:
    """
    What the self-test of memory reports says; empty: they hold. `forged`: 1 another order of functions, 2 other fields of a link.
    """


def torch_memory_start() -> bool:
    """
    Threads report memory from now on, until as many torch_memory_stop(). False: another profiler has this thread's reports.
    """


def torch_memory_stop() -> None: ...
def torch_memory_withdraw() -> bool:
    """
    Leave this thread's reports to another profiler; False when it had none of ours. They come back with the first op after that one has gone.
    """


def torch_modules_start() -> str:
    """
    Ops have the TorchScript modules that they run in from now on, until as many torch_modules_stop(). Empty, or the reason why not, when nothing is to be stopped.
    """


def torch_modules_stop() -> None: ...
def torch_newest_release() -> tuple[int, int]:
    """
    (major, minor) of the newest release of torch that the tables of layouts list.
    """


def torch_observe(
    work: collections.abc.Callable[[], typing.Any],
) -> tuple[int, list[tuple[str, int, int, int, int]]]:
    """
    Call work(); returns libtorch's id of this thread and (name, scope, sequence number, thread, forward thread) of each op it ran.
    """


def torch_observe_fast_ranges(type: typing.Any) -> str:
    """
    Record the ranges of torch._C._profiler._RecordFunctionFast; empty, or the reason why not.
    """


def torch_pause_ops(paused: bool) -> bool:
    """
    Leave out what libtorch begins on this thread (True), or record it again (False). Returns what was set before.
    """


def torch_prepare(
    version: str,
    cxx11_abi: bool,
    layout: typing.Annotated[
        collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex], "FixedSize(8)"
    ]
    | None = None,
) -> str:
    """
    Check the loaded libtorch; empty when its ops can be observed, else the reason. layout: for a version that is not in the table, the offsets that fastprof.adapters.torch.layout has found.
    """


def torch_release_fast_ranges() -> None:
    """
    As many end what torch_observe_fast_ranges() began.
    """


def torch_self_test(
    version: str, cxx11_abi: bool, shift: typing.SupportsInt | typing.SupportsIndex = 0
) -> str:
    """
    What the self-test says of a version's layout, its sequence number moved by `shift` bytes; empty: it holds.
    """


def torch_start_observing(inputs: bool = False) -> None:
    """
    Record ops from now on, with their inputs or without, until as many torch_stop_observing() of the same.
    """


def torch_stop_observing(inputs: bool = False) -> None: ...
def torch_travel_start() -> int:
    """
    Work that this thread gives to libtorch's threads from now on belongs to the thread-local sessions that it belongs to now. Returns what torch_travel_stop() takes.
    """


def torch_travel_stop(travel: typing.SupportsInt | typing.SupportsIndex) -> None: ...
def torch_trust_inputs(
    layout: typing.Annotated[
        collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex], "FixedSize(24)"
    ],
) -> None:
    """
    Inputs may be read by the layout from now on; the first that is trusted stays.
    """


def torch_try_inputs(
    layout: typing.Annotated[
        collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex], "FixedSize(24)"
    ],
    work: collections.abc.Callable[[], typing.Any],
) -> list[tuple[str, str, list[int], list[str]]]:
    """
    Call work(); returns (name, overload, words of inputs, texts given by position) of each op it ran, read by a layout with every access checked; no words where one failed. ValueError when libtorch does not agree with the layout.
    """


compiler: str
version: str
