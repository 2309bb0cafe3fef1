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
    "ActivityFile",
    "Capture",
    "DeviceCollection",
    "DeviceSink",
    "LegacyEvents",
    "ModuleCallsHold",
    "OpenRange",
    "PacketScanner",
    "PythonAllocations",
    "PythonCalls",
    "RangeEmission",
    "RowStore",
    "ScannedEvents",
    "ScannedPackets",
    "Session",
    "SignpostEmission",
    "TaskSwitches",
    "ThreadState",
    "TorchFastRangesHold",
    "TorchMemoryHold",
    "TorchModulesHold",
    "TorchOpsHold",
    "TorchPropagationHold",
    "TraceConventions",
    "TraceScanner",
    "abi_version",
    "activity_file_ended",
    "add_remote_events",
    "after_fork_in_child",
    "call_at_return",
    "call_in_sessions",
    "capture_of",
    "compiler",
    "counter",
    "counters_missing",
    "cuda_members",
    "default_node_id",
    "device_clock",
    "device_problem",
    "end_signal_watch",
    "enter_task",
    "flow_begin",
    "flow_end",
    "folder_in_memory",
    "forget_python_calls_in_child",
    "forget_tasks_in_child",
    "group_firsts",
    "group_floats",
    "group_times",
    "group_usage",
    "hide_calls_of_thread",
    "learn_task_steps",
    "leave_out_frames_of",
    "leave_out_python_allocations",
    "leave_task",
    "legacy_disable",
    "legacy_enable",
    "legacy_enabled",
    "legacy_mark",
    "legacy_state_missing",
    "libraries_of_other_abi",
    "listed_rows",
    "load_cupti",
    "load_device_plugin",
    "look_for_modules",
    "mark",
    "memory_usage",
    "merge_captures",
    "metal_capture_enabled",
    "metal_is_capturing",
    "metal_options",
    "metal_problem",
    "metal_set_log_options",
    "metal_start",
    "metal_start_capture",
    "metal_statistics",
    "metal_stop",
    "metal_stop_capture",
    "metal_tables",
    "metal_wait_for_pending",
    "missing_causes",
    "native_numbers",
    "nested_codes",
    "note_running_task",
    "now_ns",
    "objects_of_types",
    "pause_signal_watch",
    "process_start",
    "python_memory_after_fork_in_child",
    "range_tool_mark",
    "range_tool_pop",
    "range_tool_problem",
    "range_tool_push",
    "record_function",
    "recover",
    "register_cuda",
    "register_cuda_events",
    "register_metal",
    "register_rocm",
    "report_memory_usage",
    "report_out_of_memory",
    "rocm_members",
    "running_task_left",
    "save_sessions",
    "scan_sqlite_table",
    "select_device_stubs",
    "set_default_node_id",
    "set_sessions_variable",
    "set_thread_name",
    "summed_calls",
    "task_steps_known",
    "thread_id",
    "throw_error",
    "torch_adopt_input_layout",
    "torch_adopt_storage_offset",
    "torch_after_fork_in_child",
    "torch_known_input_layout",
    "torch_known_layout",
    "torch_known_memory_layout",
    "torch_memory_after_fork_in_child",
    "torch_memory_hide_thread",
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
    "torch_propagation_start",
    "torch_propagation_stop",
    "torch_release_fast_ranges",
    "torch_self_test",
    "torch_start_observing",
    "torch_stop_observing",
    "torch_take_paused_id",
    "torch_try_inputs",
    "torch_try_memory",
    "torch_try_outputs",
    "unix_offset_ns",
    "untracked_python_allocations",
    "version",
    "watch_signal",
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


class DeviceSink:
    """
    Receives the activities of one collection of a device of Python. Invalid ones are left out, counted and reported. Use from one thread at a time.
    """

    def __init__(
        self,
        device_kind: str,
        device_type: typing.SupportsInt | typing.SupportsIndex,
        types: collections.abc.Sequence[str],
    ) -> None:
        """
        device_kind: name of the device. types: the requested types of traces.
        """

    def add(
        self,
        kind: typing.Any,
        place: typing.Any,
        begin: typing.Annotated[numpy.typing.ArrayLike, numpy.uint64],
        end: typing.Annotated[numpy.typing.ArrayLike, numpy.uint64],
        correlation: typing.Any = 0,
        text: typing.Any = 4294967295,
        arguments: typing.Any = None,
    ) -> int:
        """
        Add activities, one for each value of begin and end (uint64, stamps of the device's clock); the other columns may be one value for all. arguments: a row of uint64 words for each. Return how many were accepted. errors.ValueError for columns that do not fit.
        """

    def dropped(self, count: typing.SupportsInt | typing.SupportsIndex) -> None:
        """
        Count activities that the device had no room for.
        """

    def finish(
        self,
        begin: tuple[
            typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex
        ],
        end: tuple[
            typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex
        ],
        device_begin: tuple[
            typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex
        ],
        device_end: tuple[
            typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex
        ],
        hz: typing.SupportsFloat | typing.SupportsIndex,
    ) -> list[str]:
        """
        End: convert stamps by readings of device_clock(), of time.monotonic_ns() for calls and of the device's clock of hz Hz for work. Return what failed; errors.ValueError unless hz > 0.
        """

    def kind(
        self,
        name: str,
        type: typing.SupportsInt | typing.SupportsIndex,
        arguments: collections.abc.Sequence[
            tuple[str, typing.SupportsInt | typing.SupportsIndex]
        ] = [],
    ) -> int:
        """
        Return the index of a kind of activities. type and the types of arguments: numbers of fastprof/device_plugin.h.
        """

    def problem(self, text: str) -> None:
        """
        Report something that is missing in the profile, and why.
        """

    def queue(
        self,
        device: typing.SupportsInt | typing.SupportsIndex,
        number: typing.SupportsInt | typing.SupportsIndex,
        name: str = "",
    ) -> int:
        """
        Return the index of a queue of a device; 2**32 - 1 if it is invalid.
        """

    def text(self, json: str) -> int:
        """
        Return the index of further arguments, a JSON object; 2**32 - 1 for any other text.
        """

    def thread(self, thread_id: typing.SupportsInt | typing.SupportsIndex) -> int:
        """
        Return the index of a thread of this process, by threading.get_native_id().
        """


class DeviceCollection:
    """
    A backend's collection, open from the constructor to end(). Use from one thread at a time.
    """

    def __init__(
        self, name: str, types: collections.abc.Sequence[str], shares_tool: bool = False
    ) -> None:
        """
        Begin. types: of traces ("kernel", ...). shares_tool: use the device's tool although another client holds it, which must not be recording. errors.UnavailableError if that is impossible now, errors.ValueError for an unknown backend.
        """

    def abandon(self) -> None:
        """
        End without reading what was collected. No effect when ended.
        """

    def collect_so_far(self) -> list[str]:
        """
        Take what was completed since the begin or the last call, which end() does not return then, and return what went wrong. Does not wait for the device. Nothing for backends that know their activities at the end alone, and when ended.
        """

    def end(self) -> list[str]:
        """
        Wait for the device, end, and return what failed. No effect when called again.
        """

    def is_full(self) -> bool:
        """
        Return whether activities are lost because the memory for them is full; False when ended.
        """


class ActivityFile:
    """
    A file for device activities, next to a backing file. Use from one thread at a time.
    """

    def __init__(self, path: bytes) -> None:
        """
        Create the file. errors.IoError if it exists or cannot be made.
        """

    def add_activities(self, collection: DeviceCollection) -> None:
        """
        Append the activities of a collection, so that they survive the process.
        """

    def add_sink(self, sink: DeviceSink) -> None:
        """
        Append the activities of a finished sink.
        """

    def finish(self) -> None:
        """
        Append the end mark and close the file. No effect when called again.
        """

    @property
    def problem(self) -> str:
        """
        Why parts are missing; empty if none are.
        """


class Capture:
    """
    The records of one session; see capture/capture.hpp.
    """

    def __len__(self) -> int: ...
    def columns(self) -> dict[str, numpy.ndarray[typing.Any, numpy.dtype[typing.Any]]]:
        """
        Return the columns by name: read-only arrays that share the capture's memory.
        """

    def cross_thread_end_row(self) -> numpy.ndarray[typing.Any, numpy.dtype[typing.Any]]: ...
    def cross_thread_end_track(self) -> numpy.ndarray[typing.Any, numpy.dtype[typing.Any]]: ...
    def device_links(
        self,
    ) -> tuple[
        numpy.typing.NDArray[numpy.int64],
        numpy.typing.NDArray[numpy.int64],
        numpy.typing.NDArray[numpy.int64],
        numpy.typing.NDArray[numpy.int64],
    ]:
        """
        Return (row, call, range, correlation) of each row of a device or its runtime, as int64 arrays: the row of the call that started it and of the range that made the call, -1 for none.
        """

    def dropped(self) -> dict[str, int]:
        """
        Return the number of missing events by cause.
        """

    def find_blocks(
        self, types: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex]
    ) -> list[tuple[numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.int64]]]:
        """
        Return (rows, at) for each of `types`: the rows with a detail block of the type, ascending, and the index in payload_words of the block's first content word.
        """

    def flops_of(
        self,
        inputs: typing.Annotated[numpy.typing.ArrayLike, numpy.int32],
        site_inputs: collections.abc.Sequence[
            tuple[
                typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex
            ]
        ],
        estimates: collections.abc.Sequence[typing.SupportsFloat | typing.SupportsIndex],
        wrappers: collections.abc.Sequence[bool],
    ) -> numpy.typing.NDArray[numpy.float64]:
        """
        Return FLOPs by row: the estimate of the row's pair (site, code of inputs); 0 for pairs not in site_inputs, and for rows of sites marked in wrappers that contain a row of another site with FLOPs.
        """

    def payload_words(self) -> numpy.ndarray[typing.Any, numpy.dtype[typing.Any]]: ...
    def read_details(self, pair_sites: collections.abc.Sequence[bool]) -> dict[str, typing.Any]:
        """
        Return the decoded details of all rows by name, read in one pass; kinds that no row has are omitted. sequence_nr, fwd_thread, node_id: columns, -1 if absent; record_function_id: column, 0 if absent. stack, modules, json, overload: (codes, indices into strings by code), code -1 if absent. inputs: (1 + code by row, 0 if absent; the words of each distinct block by code; the distinct pairs (site, code) of the sites marked in pair_sites).
        """

    def sites(self) -> dict[str, list[typing.Any]]:
        """
        Return one list per field of fastprof.model.sites.Site.
        """

    def strings(self) -> list[str]:
        """
        Return the table that string arguments index.
        """

    def tracks(self) -> list[tuple[int, int, int, str, bool, int, str]]:
        """
        Return (id, pid, tid, name, alive, thread_id, device_kind) of each track.
        """

    def write_chrome_trace(
        self,
        path: bytes,
        metadata: collections.abc.Sequence[tuple[str, str]],
        trace_name: str,
        progress: collections.abc.Callable[[int], typing.Any] | None = None,
        event_ids: bool | None = None,
        call_stacks: bool = False,
    ) -> int:
        """
        Write Chrome JSON; return the number of bytes. path: as returned by os.fsencode. progress: called with the number of bytes written so far; an exception that it raises cancels the export. event_ids: whether to write Kineto's event ids; None: if the capture contains ops. call_stacks: whether calls have "Python thread" and "Call stack".
        """

    def write_perfetto_trace(
        self, path: bytes, progress: collections.abc.Callable[[int], typing.Any] | None = None
    ) -> int:
        """
        Write a trace in Perfetto's protobuf format; return the number of bytes. path, progress: as in write_chrome_trace.
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
        Node id of rows that have none of their own; -1 if unset.
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
    A recording session; see session/session.hpp.
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
        native_frames: bool = False,
        counters: collections.abc.Sequence[str] = [],
        max_name_bytes: typing.SupportsInt | typing.SupportsIndex = 0,
        record_shapes: bool = False,
        spill_folder: bytes = b"",
        backing_file: bytes = b"",
        keep_backing_file: bool = False,
        backing_metadata: collections.abc.Sequence[tuple[str, str]] = [],
    ) -> None: ...
    def abandon(self) -> None:
        """
        End without reading what was recorded. No effect unless it runs.
        """

    def add_activities(self, collection: DeviceCollection) -> None:
        """
        Add the activities of an ended collection to the next stop(); once per kind of device. errors.StateError if the session does not run.
        """

    def add_backing_metadata(self, key: str, value: str) -> None:
        """
        Store a fact about the process for readers of the backing file; of equal keys, the last value counts. No effect without a backing file.
        """

    def add_sink(self, sink: DeviceSink) -> None:
        """
        Add the activities of a finished sink to the next stop(). errors.StateError if the session does not run.
        """

    def capture_so_far(self, thread_names: dict[int, str], program: str = "") -> Capture:
        """
        Return a capture of what has been recorded so far, while recording goes on. Any thread. Raises StateError if the session does not run, spills or was drained.
        """

    def drain(self) -> int:
        """
        Read finished records so that their memory can be reused; return the number of rows so far.
        """

    def start(self) -> None: ...
    def stop(self, thread_names: dict[int, str], program: str = "") -> Capture:
        """
        Stop and return the capture; later calls return the same one. thread_names: names by kernel thread id, for threads without a name of their own. program: name of the process; empty: the kernel's. Raises StateError if the session was never started.
        """

    def warm_up(self) -> None:
        """
        Fault in memory for 32 MB of records, or max_bytes if that is less.
        """

    @property
    def backing_problem(self) -> str:
        """
        Why records are missing from the backing file: known at start() if there was no room for it, else after stop(). Empty if none are.
        """

    @property
    def has_capture(self) -> bool:
        """
        Whether stop() has returned a capture.
        """

    @property
    def running(self) -> bool: ...
    @property
    def spill_error(self) -> str:
        """
        Why writing the spill file of the last stopped session failed; empty if it did not.
        """

    @property
    def spilled_bytes(self) -> int:
        """
        Size in bytes of the spill file of the last stopped session.
        """


class ScannedEvents:
    """
    Columns of the events of one buffer; each can be taken once.
    """

    def others(self) -> list[tuple[int, int, int, int]]:
        """
        (begin, end, rows before it, events before it) of events left to the caller.
        """

    def take_args(self) -> numpy.typing.NDArray[numpy.int32]: ...
    def take_end_ns(self) -> numpy.typing.NDArray[numpy.int64]: ...
    def take_flow(
        self,
    ) -> tuple[numpy.typing.NDArray[numpy.uint32], numpy.typing.NDArray[numpy.int64]]: ...
    def take_site(self) -> numpy.typing.NDArray[numpy.uint32]: ...
    def take_sparse(
        self,
    ) -> list[tuple[numpy.typing.NDArray[numpy.uint32], numpy.typing.NDArray[numpy.int64]]]:
        """
        (rows, values) of each known arg: numbers, then codes of lists and texts.
        """

    def take_start_ns(self) -> numpy.typing.NDArray[numpy.int64]: ...
    def take_track(self) -> numpy.typing.NDArray[numpy.uint32]: ...
    @property
    def consumed(self) -> int: ...
    @property
    def events(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def stop(self) -> int:
        """
        0: the buffer ends; 1: the last of `others` must be interpreted before scanning on; 2: what follows is not readable here.
        """


class TraceConventions:
    """
    Conventions of traces; see core/trace_rows/row_store.hpp.
    """

    def __init__(
        self,
        *,
        numbers: collections.abc.Sequence[str],
        lists: collections.abc.Sequence[str],
        texts: collections.abc.Sequence[str],
        states: collections.abc.Sequence[str],
        engine_prefix: str,
        op_category: str,
        forward_thread: typing.SupportsInt | typing.SupportsIndex,
        other_pid: typing.SupportsInt | typing.SupportsIndex,
    ) -> None: ...


class RowStore:
    """
    Interned names, sites, tracks and args; see core/trace_rows/row_store.hpp.
    """

    def add_backward(self, arg0: bytes) -> None: ...
    def args_text(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> bytes: ...
    def site(
        self, arg0: typing.SupportsInt | typing.SupportsIndex
    ) -> tuple[int, int, str, int, int, int]:
        """
        Return (name, category, phase, scope, state, place).
        """

    def text(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> bytes: ...
    def track(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> tuple[int, int]: ...
    @property
    def args(self) -> int: ...
    @property
    def backward_names(self) -> list[int]: ...
    @property
    def bytes(self) -> int: ...
    @property
    def sites(self) -> int: ...
    @property
    def texts(self) -> int: ...
    @property
    def tracks(self) -> int: ...


class TraceScanner:
    """
    Reads events of Chrome traces; see core/trace_json/event_scanner.hpp.
    """

    def __init__(self, conventions: TraceConventions) -> None: ...
    def scan(
        self, data: bytes, begin: typing.SupportsInt | typing.SupportsIndex, after_value: bool
    ) -> ScannedEvents:
        """
        Scan events from data[begin], the begin of a value or (after_value) of the comma after one. Offsets in the result count from there.
        """

    @property
    def store(self) -> RowStore: ...


class ScannedPackets(ScannedEvents):
    """
    Columns of the packets of one buffer.
    """

    def take_links(
        self,
    ) -> tuple[
        numpy.typing.NDArray[numpy.uint32],
        numpy.typing.NDArray[numpy.uint64],
        numpy.typing.NDArray[numpy.uint8],
    ]:
        """
        (rows of the table, flow ids, steps) of rows that take part in flows.
        """


class PacketScanner:
    """
    Reads Perfetto's packets; see core/trace_proto/packet_scanner.hpp.
    """

    def __init__(self, conventions: TraceConventions, is_sorted: bool) -> None: ...
    def begin_slice(
        self,
        stack: typing.SupportsInt | typing.SupportsIndex,
        time_ns: typing.SupportsInt | typing.SupportsIndex,
        row: typing.SupportsInt | typing.SupportsIndex,
        name: typing.SupportsInt | typing.SupportsIndex,
        category: typing.SupportsInt | typing.SupportsIndex,
        stays_unfinished: bool,
    ) -> None: ...
    def clock_ns(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> int | None:
        """
        Return the last time in ns of a clock; None if it is not set.
        """

    def end_slice(
        self,
        stack: typing.SupportsInt | typing.SupportsIndex,
        time_ns: typing.SupportsInt | typing.SupportsIndex,
        name: typing.SupportsInt | typing.SupportsIndex,
        category: typing.SupportsInt | typing.SupportsIndex,
        tag: typing.SupportsInt | typing.SupportsIndex,
    ) -> int:
        """
        Return the row of the slice; -1 if there is none or it is found later.
        """

    def finish_slices(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    def forget_clocks(self) -> None: ...
    def forget_counter(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    def forget_texts(self, arg0: typing.SupportsInt | typing.SupportsIndex) -> None: ...
    def intern(
        self,
        sequence: typing.SupportsInt | typing.SupportsIndex,
        kind: typing.SupportsInt | typing.SupportsIndex,
        iid: typing.SupportsInt | typing.SupportsIndex,
        text: str,
    ) -> None: ...
    def running_clocks(self) -> list[tuple[int, int]]: ...
    def scan(
        self,
        data: bytes,
        begin: typing.SupportsInt | typing.SupportsIndex,
        first_row: typing.SupportsInt | typing.SupportsIndex,
        max_packet_bytes: typing.SupportsInt | typing.SupportsIndex,
    ) -> ScannedPackets:
        """
        Scan packets from data[begin], the begin of one. Offsets in the result count from there.
        """

    def set_clock(
        self,
        key: typing.SupportsInt | typing.SupportsIndex,
        unit_ns: typing.SupportsInt | typing.SupportsIndex,
        is_incremental: bool,
        last_ns: typing.SupportsInt | typing.SupportsIndex,
        first_ns: typing.SupportsInt | typing.SupportsIndex,
        end_ns: typing.SupportsInt | typing.SupportsIndex,
        offset_ns: typing.SupportsInt | typing.SupportsIndex,
    ) -> None: ...
    def set_counter(
        self,
        uuid: typing.SupportsInt | typing.SupportsIndex,
        name: str,
        track: typing.SupportsInt | typing.SupportsIndex,
    ) -> None: ...
    def set_location(
        self,
        arg0: typing.SupportsInt | typing.SupportsIndex,
        arg1: typing.SupportsInt | typing.SupportsIndex,
        arg2: typing.SupportsInt | typing.SupportsIndex,
    ) -> None: ...
    def set_own(self) -> None: ...
    def set_place(
        self,
        arg0: typing.SupportsInt | typing.SupportsIndex,
        arg1: typing.SupportsInt | typing.SupportsIndex,
        arg2: typing.SupportsInt | typing.SupportsIndex,
    ) -> None: ...
    def set_sequence(
        self,
        id: typing.SupportsInt | typing.SupportsIndex,
        is_valid: bool,
        clock: typing.SupportsInt | typing.SupportsIndex,
        track_uuid: typing.SupportsInt | typing.SupportsIndex,
        stack: typing.SupportsInt | typing.SupportsIndex,
        track: typing.SupportsInt | typing.SupportsIndex,
    ) -> None:
        """
        stack: -1 if the place is not known yet.
        """

    def take_closings(
        self,
    ) -> tuple[
        numpy.typing.NDArray[numpy.uint32],
        numpy.typing.NDArray[numpy.int64],
        numpy.typing.NDArray[numpy.uint8],
    ]:
        """
        (rows, end ns, whether finished), once each.
        """

    def text_code(self, text: str) -> int: ...
    @property
    def bytes(self) -> int: ...
    @property
    def in_order(self) -> bool: ...
    @property
    def lost_ends(self) -> tuple[int, int]: ...
    @property
    def store(self) -> RowStore: ...
    @property
    def tagged(self) -> tuple[list[int], list[int]]: ...


class ThreadState:
    """
    A snapshot of the creating thread's thread-local sessions, callbacks and debug info.
    """

    def __init__(self) -> None: ...
    def call(
        self, function: typing.Any, args: tuple[typing.Any, ...], kwargs: dict[str, typing.Any]
    ) -> typing.Any:
        """
        Call function(*args, **kwargs) with this state on the calling thread.
        """


class PythonCalls:
    """
    One profile's tracing of Python calls.
    """

    def __init__(
        self,
        *,
        files: collections.abc.Sequence[str] = [],
        excluded_files: collections.abc.Sequence[str] = [],
        modules: collections.abc.Sequence[str] = [],
        excluded_modules: collections.abc.Sequence[str] = [],
        c_calls: bool = True,
        max_depth: typing.SupportsInt | typing.SupportsIndex = 4294967295,
        sum_frequent: bool = False,
        own_folder: str = "",
        library_folder: str = "",
    ) -> None: ...
    def begin(self) -> tuple[str, str]:
        """
        Trace the calls of all threads while a session records them. Return the owners of other profile functions, and why other filters apply; empty texts for neither.
        """

    def end(self) -> str:
        """
        Stop tracing, if it is on; return when other profile functions were in the place of ours, and on which threads. The destructor does, too.
        """

    @property
    def active(self) -> bool: ...


class PythonAllocations:
    """
    One profile's recording of Python's allocator domains.
    """

    def __init__(self, exact: bool) -> None: ...
    def begin(self) -> None:
        """
        Record blocks of all threads while a session runs that records memory: each block (exact), or a sample of them.
        """

    def end(self) -> str:
        """
        Stop, if it is on, and return the domains whose hooks another tool has removed; empty for none. The destructor does, too.
        """

    @property
    def active(self) -> bool: ...


class TaskSwitches:
    """
    One profile's recording of task switches.
    """

    def __init__(self) -> None: ...
    def begin(self) -> None:
        """
        Record which task each thread runs.
        """

    def end(self) -> None:
        """
        Stop, if it is on. The destructor does, too.
        """

    @property
    def active(self) -> bool: ...


class LegacyEvents:
    """
    The records of a run of the exclusive profiler: one list of events per thread, then the remote lists.
    """

    @staticmethod
    def decode(bytes: bytes) -> LegacyEvents:
        """
        Return the events that encode() serialised, marked as remote. Raises errors.FormatError with the offset of the first invalid byte.
        """

    def encode(self) -> bytes:
        """
        Serialise the events for another process, in the format of csrc/include/fastprof/legacy/event_bytes.hpp.
        """

    def json(self) -> str:
        """
        Return all fields of all records as JSON.
        """

    def records(self) -> list[list[tuple[typing.Any, ...]]]:
        """
        Return lists of events as fields of fastprof.LegacyRecord; names are bytes.
        """


class RangeEmission:
    """
    An emission to a tool, from begin() to end(). Use from one thread at a time.
    """

    def __init__(self, kind: str) -> None:
        """
        kind: "NVTX" or "ITT".
        """

    def begin(self, shapes: bool) -> str:
        """
        Emit the ranges of all threads; return "" or why there is no tool. errors.StateError if ranges are being emitted to such a tool.
        """

    def begin_ops(self, shapes: bool, producers: bool) -> None:
        """
        Emit torch ops, too; their layout must have been verified. No effect without begin(). errors.StateError if ops are already being emitted to such a tool.
        """

    def end(self) -> None:
        """
        End both. No effect when called again.
        """


class SignpostEmission:
    """
    Signpost intervals of ranges, and of torch's ops, from begin() to end(). Use from one thread at a time.
    """

    def __init__(self) -> None: ...
    def begin(self) -> None:
        """
        Make intervals of the ranges of all threads. errors.StateError if they are made already, errors.UnavailableError without Metal.
        """

    def begin_ops(self, shapes: bool, producers: bool) -> None:
        """
        Make intervals of torch ops, too, which must have been proven. The arguments have no effect. No effect without begin().
        """

    def end(self) -> None:
        """
        End both. No effect when called again.
        """


class TorchOpsHold:
    """
    Records ops from begin() to end().
    """

    def __init__(self) -> None: ...
    def begin(self, inputs: bool = False) -> None:
        """
        Begin; inputs: record inputs, too. Raises StateError unless torch_prepare(), and for inputs torch_adopt_input_layout(), have succeeded.
        """

    def end(self) -> None:
        """
        Undo begin(), if it is in effect. The destructor calls it.
        """

    @property
    def active(self) -> bool: ...


class TorchMemoryHold:
    """
    Records allocations from begin() to end().
    """

    def __init__(self) -> None: ...
    def begin(self) -> bool:
        """
        Begin; return False if another profiler receives this thread's reports. Raises StateError unless torch_memory_prepare() has succeeded.
        """

    def end(self) -> None:
        """
        Undo begin(), if it is in effect. The destructor calls it.
        """

    @property
    def active(self) -> bool: ...


class TorchModulesHold:
    """
    Records the modules of ops from begin() to end().
    """

    def __init__(self) -> None: ...
    def begin(self) -> str:
        """
        Begin; return "" or the reason why modules of TorchScript are not recorded.
        """

    def end(self) -> None:
        """
        Undo begin(), if it is in effect. The destructor calls it.
        """

    @property
    def active(self) -> bool: ...


class ModuleCallsHold:
    """
    Records the calls of torch.nn.Module objects from begin() to end().
    """

    def __init__(self) -> None: ...
    def begin(self, call: typing.Any) -> bool:
        """
        Begin; return False if `call`, which is torch.nn.Module.__call__, is not a function written in Python, or is called through another tool's function.
        """

    def end(self) -> None:
        """
        Undo begin(), if it is in effect. The destructor calls it.
        """

    @property
    def active(self) -> bool: ...


class TorchPropagationHold:
    """
    From begin() to end(), propagates the thread-local sessions of the thread that called begin() to the work that it hands to libtorch's threads.
    """

    def __init__(self) -> None: ...
    def begin(self) -> bool:
        """
        Begin; return False if this thread belongs to no thread-local session. Raises StateError unless torch_memory_prepare() has succeeded.
        """

    def end(self) -> None:
        """
        Undo begin(), if it is in effect. The destructor calls it.
        """

    @property
    def active(self) -> bool: ...


class TorchFastRangesHold:
    """
    Records ranges of torch's _RecordFunctionFast from begin() to end().
    """

    def __init__(self) -> None: ...
    def begin(self, type: typing.Any) -> str:
        """
        Begin; return "" or the reason why not. type: torch._C._profiler._RecordFunctionFast.
        """

    def end(self) -> None:
        """
        Undo begin(), if it is in effect. The destructor calls it.
        """

    @property
    def active(self) -> bool: ...


def abi_version() -> tuple[int, int]:
    """
    Return the ABI version (major, minor) of the recorder that annotated libraries share.
    """


def activity_file_ended(path: bytes) -> bool:
    """
    Return whether the writer of a file has said that nothing follows. False if it cannot be read.
    """


def add_remote_events(bytes: bytes) -> None:
    """
    See fastprof.profiler_legacy.add_remote_events.
    """


def after_fork_in_child() -> None:
    """
    Discard state that belongs to the parent's sessions.
    """


def call_at_return(code: typing.Any, function: typing.Any) -> bool:
    """
    Call a function without arguments on this thread when the innermost call of a code object has returned, or the tracing ends. False if the profile function is not the tracer's.
    """


def call_in_sessions(
    saved: typing.Any,
    function: typing.Any,
    args: tuple[typing.Any, ...],
    kwargs: dict[str, typing.Any],
) -> typing.Any:
    """
    Call function(*args, **kwargs) in the sessions that save_sessions() returned.
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
    process_names: typing.Any = {},
) -> Capture:
    """
    Return a Capture with copies of the columns; capture/capture.hpp states the requirements. Raises ValueError if one is not met.
    """


def counter(name: str, value: float) -> None:
    """
    Record the current value of a counter track. Any thread.
    """


def counters_missing(names: collections.abc.Sequence[str]) -> str:
    """
    Return why these perf counters cannot be read together on this thread; empty if they can.
    """


def cuda_members(libraries: collections.abc.Sequence[str]) -> list[tuple[str, str]]:
    """
    Return (name, JSON text) of a trace's members that say which GPUs and libraries of NVIDIA's there are. libraries: as for load_cupti. Any thread.
    """


def default_node_id() -> int:
    """
    Return the node number of this process in a distributed program; -1 until set. Any thread.
    """


def device_clock(read: typing.Any) -> tuple[int, int]:
    """
    Return a reading of a clock, a callable without arguments (None: the recorder's own), and one of the recorder's clock, made at the same time.
    """


def device_problem(name: str) -> str:
    """
    Return why a backend cannot collect here, empty if it can; errors.ValueError for an unknown one. May load libraries. Any thread.
    """


def end_signal_watch(in_child: bool = False) -> None:
    """
    End the watch and its thread, if there is one; call it before signal.signal() takes the function away. in_child: in a forked child. Not from late(). Main thread.
    """


def enter_task(task: typing.Any) -> None:
    """
    Record that the calling thread runs a task from now on. For event loops whose steps cannot be observed.
    """


def flow_begin(id: int, name: str = "flow") -> None:
    """
    Record the start of the flow arrow `id`. Any thread.
    """


def flow_end(id: int, name: str = "flow") -> None:
    """
    Record the end of the flow arrow `id`. Any thread.
    """


def folder_in_memory() -> str | None:
    """
    Return the folder whose files lie in memory; None if there is none. Any thread.
    """


def forget_python_calls_in_child() -> None:
    """
    Forget the parent's tracing of calls in a forked child.
    """


def forget_tasks_in_child() -> None:
    """
    Forget the parent's recording of task switches in a forked child.
    """


def group_firsts(
    *,
    codes: numpy.ndarray[typing.Any, numpy.dtype[typing.Any]],
    groups: typing.SupportsInt | typing.SupportsIndex,
    parent: typing.Annotated[numpy.typing.ArrayLike, numpy.int32],
    order: typing.Annotated[numpy.typing.ArrayLike, numpy.int64] | None,
) -> numpy.typing.NDArray[numpy.int64]:
    """
    Return the first event of each group in list order, -1 for an empty group; see capture/group_sums.hpp.
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
    Return sums by group of a column of floats, added in list order, with NaN as 0; see capture/group_sums.hpp.
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
    Return (total ns, self ns, number of events) by group; see capture/group_sums.hpp.
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
    Return (total, self, number of non-zero values) by group for a column whose values include those of children; see capture/group_sums.hpp.
    """


def hide_calls_of_thread() -> None:
    """
    Leave out the calls of the calling thread, which has recorded none, for good.
    """


def learn_task_steps(task: typing.Any, step: typing.Any, wakeup: typing.Any) -> bool:
    """
    Find the functions that step asyncio's tasks, from the callbacks of one of them. False if they are not what is expected.
    """


def leave_out_frames_of(file: str) -> None:
    """
    Remove frames of this file from the inner end of recorded stacks (wrappers of decorators).
    """


def leave_out_python_allocations(on: bool) -> bool:
    """
    Do not record (True) allocations of this thread; frees are recorded. Return the old value.
    """


def leave_task(task: typing.Any, ended: bool = False) -> None:
    """
    Record that the calling thread has left the task that it entered last.
    """


def legacy_disable(cleanup_tls_state: bool = True, consolidate: bool = True) -> LegacyEvents:
    """
    Stop this thread's exclusive profiler; return its records. Raises errors.StateError if none runs.
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
    Start the exclusive profiler of this thread. Raises errors.StateError if it already runs and errors.UnavailableError if the state's device support is missing.
    """


def legacy_enabled() -> bool:
    """
    Return whether an exclusive profiler records on this thread.
    """


def legacy_mark(name: str, include_device: bool = True) -> None:
    """
    Record an instant with this thread's exclusive profiler; no effect if none runs.
    """


def legacy_state_missing(state: typing.SupportsInt | typing.SupportsIndex) -> str:
    """
    Return why a state cannot be enabled; empty if it can.
    """


def libraries_of_other_abi() -> list[str]:
    """
    Return the paths of loaded objects built with another major ABI of fastprof; "" is the executable.
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
    Return (listed rows or None for all, parent of each as a position in the list), without the repeated rows of wrappers; see capture/listed_rows.hpp.
    """


def load_cupti(libraries: collections.abc.Sequence[str]) -> str:
    """
    Load libcupti, once in a process, and call nothing in it but its version. libraries: paths at which it may lie; the first call counts. Return why there is none, else an empty text. Any thread.
    """


def load_device_plugin(path: str) -> tuple[str, int, bool]:
    """
    Load a library that exports fastprof_device_plugin_open, check its plug-in and register its backend. Return its name, its device type (PyTorch's number) and whether it has stubs. errors.UnavailableError or errors.ValueError, with the reason, if it is refused. Any thread.
    """


def look_for_modules() -> None:
    """
    Name calls of torch.nn.Module objects after the modules from now on, if torch was imported since the tracing began. No effect while no calls are traced.
    """


def mark(name: str) -> None:
    """
    Record an instant on the calling thread.
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
    Attribute memory records to the innermost enclosing ranges. Returns (CPU bytes by row or None, device bytes by row or None, memory rows outside all ranges, out-of-memory rows); see capture/memory_usage.hpp.
    """


def merge_captures(parts: typing.Any) -> Capture:
    """
    Return the rows of several processes as one Capture. parts: tuples of a Capture, the ns added to its times, the time until which its open ranges last (None: as recorded) and the name of its process. See capture/merge_captures.hpp.
    """


def metal_capture_enabled() -> bool:
    """
    Return whether this process may write captures. Any thread.
    """


def metal_is_capturing() -> bool:
    """
    Return whether a capture runs. Any thread.
    """


def metal_options() -> tuple[int, int, int]:
    """
    Return the bits of ProfileOptions, SignpostTypes and LogOptions in effect. Any thread.
    """


def metal_problem() -> str:
    """
    Return why Metal work cannot be profiled here, empty if it can; errors.ValueError if the environment has invalid options. Any thread.
    """


def metal_set_log_options(log: typing.SupportsInt | typing.SupportsIndex) -> None:
    """
    Replace what is logged: bits of LogOptions; errors.ValueError for others. Any thread.
    """


def metal_start(mode: str, wait_until_completed: bool) -> None:
    """
    Trace signposts: "interval", "event" or both joined by a comma. errors.ValueError for another mode, errors.StateError if they are traced already. Any thread.
    """


def metal_start_capture(name: str) -> str:
    """
    Start a capture of the device and return the path of its document. Any thread.
    """


def metal_statistics() -> dict[str, typing.Any]:
    """
    Return the sums of the Metal profiler as dictionaries and lists. Any thread.
    """


def metal_stop() -> None:
    """
    End the trace of signposts. Any thread.
    """


def metal_stop_capture() -> None:
    """
    Complete the captured work and close the document. Any thread.
    """


def metal_tables(log: typing.SupportsInt | typing.SupportsIndex) -> str:
    """
    Return the tables that bits of LogOptions name, as text. Any thread.
    """


def metal_wait_for_pending(timeout_s: typing.SupportsFloat | typing.SupportsIndex) -> int:
    """
    Commit what streams hold back, wait for it, and return how many command buffers had not completed after timeout_s seconds. Any thread.
    """


def missing_causes() -> dict[str, bool]:
    """
    Return for each drop cause whether its events are missing (True) or incomplete.
    """


def native_numbers() -> dict[str, dict[str, int]]:
    """
    Return the members of each enum, or namespace of constants, that Python uses: name -> value.
    """


def nested_codes(
    *,
    parent: typing.Annotated[numpy.typing.ArrayLike, numpy.int32],
    code: typing.Annotated[numpy.typing.ArrayLike, numpy.int32],
    codes: typing.SupportsInt | typing.SupportsIndex,
) -> numpy.typing.NDArray[numpy.bool]:
    """
    Mask of the rows inside a row of the same code, such as calls of a function by itself; capture/nested_codes.hpp.
    """


def note_running_task(task: typing.Any) -> None:
    """
    Record the task whose step is in progress on the calling thread since before the recording; None: no task.
    """


def now_ns() -> int:
    """
    Return the current time in the clock of captures: Unix ns, monotonic. Valid after the first session has started.
    """


def objects_of_types(types: collections.abc.Iterable[type]) -> list[typing.Any]:
    """
    Return the objects tracked by the garbage collector whose class is one of `types`; instances of subclasses are not. Runs no code of the objects. Any thread.
    """


def pause_signal_watch(pause: bool) -> None:
    """
    End the thread of the watch before a fork, start it again after. The thread that forks.
    """


def process_start(pid: typing.SupportsInt | typing.SupportsIndex) -> int | None:
    """
    Return when a process started, in 1/100 s of an epoch of the system's; None if it has ended or is a zombie. Any thread.
    """


def python_memory_after_fork_in_child() -> None: ...
def range_tool_mark(kind: str, text: str) -> None:
    """
    Mark an instant. No effect without a tool.
    """


def range_tool_pop(kind: str) -> None:
    """
    End the innermost range that this thread pushed.
    """


def range_tool_problem(kind: str) -> str:
    """
    Return why no tool of this kind ("NVTX", "ITT") receives ranges; "" if one does. Loads the tool that the environment names. Any thread.
    """


def range_tool_push(kind: str, text: str) -> None:
    """
    Push a range of the calling thread to the tool. No effect without a tool.
    """


def recover(
    path: bytes,
    session_id: typing.SupportsInt | typing.SupportsIndex = 0,
    max_bytes: typing.SupportsInt | typing.SupportsIndex = 0,
    activities: bytes = b"",
) -> tuple[Capture, dict[str, typing.Any]]:
    """
    Read a session's backing file. Return the Capture and facts about the process and about missing records. session_id 0: the session that requested the file; max_bytes 0: 16 GB. activities: path of the process's activity file; empty: none. errors.IoError, errors.FormatError if a file cannot be read.
    """


def register_cuda(libraries: collections.abc.Sequence[str]) -> None:
    """
    Register the backend "CUDA"; the first call counts. libraries: paths at which libcupti may lie. Loads nothing. Any thread.
    """


def register_cuda_events(libraries: collections.abc.Sequence[str]) -> None:
    """
    Register the backend "CUDA events", and the exclusive profiler's support of CUDA unless there is one. libraries: paths at which libcudart may lie; the first call counts. Loads nothing. Any thread.
    """


def register_metal() -> None:
    """
    Register the backend "MPS"; the first call counts. Loads nothing. Any thread.
    """


def register_rocm(
    rocprofiler: collections.abc.Sequence[str], hip: collections.abc.Sequence[str]
) -> None:
    """
    Register the backends "ROCm" and "HIP events", and the exclusive profiler's support of CUDA unless there is one. rocprofiler, hip: paths at which librocprofiler-sdk and libamdhip64 may lie; the first call counts. Loads nothing. Any thread.
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


def rocm_members() -> list[tuple[str, str]]:
    """
    Return (name, JSON text) of a trace's members that say which GPUs and versions of AMD's there are. Any thread.
    """


def running_task_left(task: typing.Any, ended: bool = False) -> None:
    """
    Record that the step given to note_running_task() is over.
    """


def save_sessions() -> typing.Any:
    """
    Return the thread-local sessions of the calling thread, opaque; None if it is in none.
    """


def scan_sqlite_table(
    file: typing.SupportsInt | typing.SupportsIndex,
    root: typing.SupportsInt | typing.SupportsIndex,
    columns: collections.abc.Sequence[
        tuple[
            typing.SupportsInt | typing.SupportsIndex,
            bool,
            typing.SupportsInt | typing.SupportsIndex,
        ]
    ],
    max_rows: typing.SupportsInt | typing.SupportsIndex,
) -> list[numpy.typing.NDArray[numpy.int64]] | None:
    """
    Return columns (index, may_be_null, absent) of a table as int64 arrays; None if SQLite must read it.
    """


def select_device_stubs(name: str) -> None:
    """
    Make the stubs of a plug-in those of the exclusive profiler's state PRIVATEUSE1; errors.UnavailableError if it has none.
    """


def set_default_node_id(node_id: typing.SupportsInt | typing.SupportsIndex) -> None:
    """
    See fastprof.set_default_node_id.
    """


def set_sessions_variable(variable: typing.Any) -> None:
    """
    Run the steps of tasks in the sessions that this context variable holds; None: no more.
    """


def set_thread_name(name: str) -> None:
    """
    Set the calling thread's name in captures that are read from now on.
    """


def summed_calls() -> list[tuple[str, int]]:
    """
    Return (name, number of calls) of the functions whose calls were counted instead of recorded. Only while the session runs.
    """


def task_steps_known() -> bool:
    """
    Return whether learn_task_steps() has succeeded.
    """


def thread_id() -> int:
    """
    Return the calling thread's id in captures (FunctionEvent.thread).
    """


def throw_error(name: str, message: str) -> None:
    """
    Throw the C++ error `name` (Error for an unknown name), to test the mapping to Python.
    """


def torch_adopt_input_layout(
    layout: typing.Annotated[
        collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex], "FixedSize(24)"
    ],
) -> None:
    """
    Read inputs by `layout` from now on. The first adopted layout is kept.
    """


def torch_adopt_storage_offset(offset: typing.SupportsInt | typing.SupportsIndex) -> None:
    """
    Read the storages of tensors at this offset while allocations are recorded; 0: do not.
    """


def torch_after_fork_in_child() -> None: ...
def torch_known_input_layout(
    version: str, cxx11_abi: bool
) -> typing.Annotated[list[int], "FixedSize(24)"] | None:
    """
    Return a version's input layout in the order of fastprof.adapters.torch.layout.INPUTS; None for an unlisted version.
    """


def torch_known_layout(
    version: str, cxx11_abi: bool
) -> typing.Annotated[list[int], "FixedSize(8)"] | None:
    """
    Return a version's offsets from the table of layouts; None for an unlisted version.
    """


def torch_known_memory_layout(version: str) -> typing.Annotated[list[int], "FixedSize(2)"] | None:
    """
    Return (size of a debug info kind in bytes, number of PROFILER_STATE if kinds are an enumeration) of a version; None for an unlisted version.
    """


def torch_memory_after_fork_in_child() -> None: ...
def torch_memory_hide_thread() -> None:
    """
    Leave out what the calling thread allocates, for good.
    """


def torch_memory_prepare(
    version: str,
    layout: typing.Annotated[
        collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex], "FixedSize(2)"
    ]
    | None = None,
) -> str:
    """
    Test whether allocations of the loaded libtorch can be observed; return "" or the reason why not. Requires torch_prepare(). layout: the numbers found by fastprof.adapters.torch.layout, for an unlisted version.
    """


def torch_memory_self_test(
    forged: typing.SupportsInt | typing.SupportsIndex = 0,
    layout: typing.Annotated[
        collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex], "FixedSize(2)"
    ] = [8, 0],
) -> str:
    """
    Run the self-test of memory reports; return "" if it passes, else the reason. forged: simulate 1 a different order of virtual functions, 2 different fields of a link.
    """


def torch_memory_start() -> bool:
    """
    Record allocations from now on; return False if another profiler receives this thread's reports. Each call needs a torch_memory_stop().
    """


def torch_memory_stop() -> None: ...
def torch_memory_withdraw() -> bool:
    """
    Yield this thread's memory reports to another profiler; return False if fastprof did not receive them. They resume with the first op after the other profiler has stopped.
    """


def torch_modules_start() -> str:
    """
    Record the TorchScript modules of ops from now on; return "" or the reason why not. Each successful call needs a torch_modules_stop().
    """


def torch_modules_stop() -> None: ...
def torch_newest_release() -> tuple[int, int]:
    """
    Return (major, minor) of the newest torch release in the tables of layouts.
    """


def torch_observe(
    work: collections.abc.Callable[[], typing.Any],
) -> tuple[int, list[tuple[str, int, int, int, int]]]:
    """
    Call work(); return libtorch's id of this thread and (name, scope, sequence number, thread, forward thread) of each op it ran.
    """


def torch_observe_fast_ranges(type: typing.Any) -> str:
    """
    Record the ranges of torch._C._profiler._RecordFunctionFast from now on; return "" or the reason why not. Each successful call needs a torch_release_fast_ranges().
    """


def torch_pause_ops(paused: bool) -> bool:
    """
    Pause (True) or resume (False) recording of the ops that begin on this thread; return the previous setting.
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
    Test whether ops of the loaded libtorch can be observed; return "" or the reason why not. layout: the offsets found by fastprof.adapters.torch.layout, for a version that the table of layouts does not list.
    """


def torch_propagation_start() -> int:
    """
    Propagate this thread's thread-local sessions to the work that it hands to libtorch's threads from now on; return the id for torch_propagation_stop().
    """


def torch_propagation_stop(id: typing.SupportsInt | typing.SupportsIndex) -> None: ...
def torch_release_fast_ranges() -> None:
    """
    Undo one torch_observe_fast_ranges().
    """


def torch_self_test(
    version: str, cxx11_abi: bool, shift: typing.SupportsInt | typing.SupportsIndex = 0
) -> str:
    """
    Run the self-test on a version's layout with the offset of the sequence number moved by `shift` bytes; return "" if it passes, else the reason.
    """


def torch_start_observing(inputs: bool = False) -> None:
    """
    Record ops from now on, with their inputs if `inputs`. Calls are counted: each needs a torch_stop_observing() with the same argument.
    """


def torch_stop_observing(inputs: bool = False) -> None: ...
def torch_take_paused_id() -> int:
    """
    Return libtorch's RecordFunction number of the last op that began on this thread while ops were paused, and forget it; 0 if there was none, or nothing requested numbers.
    """


def torch_try_inputs(
    layout: typing.Annotated[
        collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex], "FixedSize(24)"
    ],
    work: collections.abc.Callable[[], typing.Any],
    storage: typing.SupportsInt | typing.SupportsIndex = 0,
) -> list[tuple[str, str, list[int], list[str]]]:
    """
    Call work(), reading inputs by `layout` with every memory access checked, and the storages of tensors if `storage`, their offset in a tensor, is not 0. Returns (name, overload, words of inputs, positional texts) of each op it ran; the words are empty if an access failed. Raises ValueError if libtorch contradicts the layout.
    """


def torch_try_memory(work: collections.abc.Callable[[], typing.Any]) -> list[int]:
    """
    Call work() and return the changes of memory, in bytes, that libtorch reported on this thread meanwhile, which are not recorded; at most 16. Requires torch_memory_prepare().
    """


def torch_try_outputs(
    work: collections.abc.Callable[[], typing.Any],
) -> list[tuple[str, list[int]]]:
    """
    Run work() and return, for each op, its name and the addresses of the tensors that it returned, read with checks. For the self-test of fastprof.adapters.torch.emission.
    """


def unix_offset_ns() -> int:
    """
    Return what the clock of captures adds to CLOCK_MONOTONIC. Valid as now_ns() is.
    """


def untracked_python_allocations() -> int:
    """
    Return the number of blocks that were not recorded since the begin, for lack of memory.
    """


def watch_signal(
    number: typing.SupportsInt | typing.SupportsIndex,
    grace_ms: typing.SupportsInt | typing.SupportsIndex,
    limit_ms: typing.SupportsInt | typing.SupportsIndex,
    late: collections.abc.Callable[[], None],
) -> bool:
    """
    Call late() in a thread of its own if the main thread has not ended the watch grace_ms after the signal, for which signal.signal() has a function. A second signal kills the process, and so do limit_ms (Linux) if no Python code could run. False if there is no such function, or a watch. Main thread.
    """


compiler: str
version: str
