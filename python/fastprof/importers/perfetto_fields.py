# SPDX-License-Identifier: Apache-2.0
"""Field numbers of Perfetto's trace format that the reader decodes, one class per message.

Source: protos/perfetto/trace/*.proto of the Perfetto project; numbers of published fields never
change. tests/python/integration/test_perfetto_oracle.py compares them with Perfetto's descriptors.
"""

from __future__ import annotations

__all__ = [
    "PACKET_NAMES",
    "Annotation",
    "Clock",
    "ClockSnapshot",
    "Counter",
    "Defaults",
    "Event",
    "EventDefaults",
    "EventType",
    "Interned",
    "InternedData",
    "LegacyEvent",
    "Location",
    "Nested",
    "Packet",
    "Process",
    "SequenceFlag",
    "Thread",
    "TrackDescriptor",
]


class Packet:
    """TracePacket."""

    TRUSTED_UID = 3
    CLOCK_SNAPSHOT = 6
    TIMESTAMP = 8
    TRUSTED_PACKET_SEQUENCE_ID = 10
    TRACK_EVENT = 11
    INTERNED_DATA = 12
    SEQUENCE_FLAGS = 13
    SYNCHRONIZATION_MARKER = 36
    INCREMENTAL_STATE_CLEARED = 41
    PREVIOUS_PACKET_DROPPED = 42
    PROCESS_DESCRIPTOR = 43
    THREAD_DESCRIPTOR = 44
    COMPRESSED_PACKETS = 50
    TIMESTAMP_CLOCK_ID = 58
    TRACE_PACKET_DEFAULTS = 59
    TRACK_DESCRIPTOR = 60
    SERVICE_EVENT = 69
    TRUSTED_PID = 79
    FIRST_PACKET_ON_SEQUENCE = 87


# Common packets that are not decoded; they are counted by name instead of by number.
PACKET_NAMES = {
    1: "ftrace_events",
    2: "process_tree",
    5: "chrome_events",
    7: "sys_stats",
    9: "process_stats",
    33: "trace_config",
    34: "ftrace_stats",
    35: "trace_stats",
    37: "profile_packet",
    39: "android_log",
    45: "system_info",
    46: "trigger",
    51: "chrome_metadata",
    52: "gpu_counter_event",
    53: "gpu_render_stage_event",
    66: "perf_sample",
    67: "cpu_info",
    72: "extension_descriptor",
    89: "trace_uuid",
}


class SequenceFlag:
    """TracePacket.SequenceFlags."""

    INCREMENTAL_STATE_CLEARED = 1
    NEEDS_INCREMENTAL_STATE = 2


class Defaults:
    """TracePacketDefaults."""

    TRACK_EVENT_DEFAULTS = 11
    TIMESTAMP_CLOCK_ID = 58


class EventDefaults:
    """TrackEventDefaults."""

    TRACK_UUID = 11
    EXTRA_COUNTER_TRACK_UUIDS = 31
    EXTRA_DOUBLE_COUNTER_TRACK_UUIDS = 45


class ClockSnapshot:
    """ClockSnapshot."""

    CLOCKS = 1
    PRIMARY_TRACE_CLOCK = 2


class Clock:
    """ClockSnapshot.Clock."""

    CLOCK_ID = 1
    TIMESTAMP = 2
    IS_INCREMENTAL = 3
    UNIT_MULTIPLIER_NS = 4


class TrackDescriptor:
    """TrackDescriptor."""

    UUID = 1
    NAME = 2
    PROCESS = 3
    THREAD = 4
    PARENT_UUID = 5
    COUNTER = 8
    STATIC_NAME = 10
    ATRACE_NAME = 13


class Process:
    """ProcessDescriptor."""

    PID = 1
    CMDLINE = 2
    PROCESS_NAME = 6


class Thread:
    """ThreadDescriptor."""

    PID = 1
    TID = 2
    THREAD_NAME = 5
    REFERENCE_TIMESTAMP_US = 6


class Counter:
    """CounterDescriptor."""

    TYPE = 1
    UNIT_MULTIPLIER = 4
    IS_INCREMENTAL = 5


class Event:
    """TrackEvent."""

    TIMESTAMP_DELTA_US = 1
    CATEGORY_IIDS = 3
    DEBUG_ANNOTATIONS = 4
    LEGACY_EVENT = 6
    TYPE = 9
    NAME_IID = 10
    TRACK_UUID = 11
    EXTRA_COUNTER_VALUES = 12
    TIMESTAMP_ABSOLUTE_US = 16
    CATEGORIES = 22
    NAME = 23
    COUNTER_VALUE = 30
    EXTRA_COUNTER_TRACK_UUIDS = 31
    SOURCE_LOCATION = 33
    SOURCE_LOCATION_IID = 34
    FLOW_IDS_OLD = 36
    TERMINATING_FLOW_IDS_OLD = 42
    DOUBLE_COUNTER_VALUE = 44
    EXTRA_DOUBLE_COUNTER_TRACK_UUIDS = 45
    EXTRA_DOUBLE_COUNTER_VALUES = 46
    FLOW_IDS = 47
    TERMINATING_FLOW_IDS = 48


class EventType:
    """TrackEvent.Type."""

    SLICE_BEGIN = 1
    SLICE_END = 2
    INSTANT = 3
    COUNTER = 4


class LegacyEvent:
    """TrackEvent.LegacyEvent."""

    NAME_IID = 1
    PHASE = 2
    DURATION_US = 3
    UNSCOPED_ID = 6
    ID_SCOPE = 7
    BIND_ID = 8
    LOCAL_ID = 10
    GLOBAL_ID = 11
    BIND_TO_ENCLOSING = 12
    FLOW_DIRECTION = 13
    INSTANT_EVENT_SCOPE = 14
    PID_OVERRIDE = 18
    TID_OVERRIDE = 19


class Annotation:
    """DebugAnnotation."""

    NAME_IID = 1
    BOOL_VALUE = 2
    UINT_VALUE = 3
    INT_VALUE = 4
    DOUBLE_VALUE = 5
    STRING_VALUE = 6
    POINTER_VALUE = 7
    NESTED_VALUE = 8
    LEGACY_JSON_VALUE = 9
    NAME = 10
    DICT_ENTRIES = 11
    ARRAY_VALUES = 12
    STRING_VALUE_IID = 17


class Nested:
    """DebugAnnotation.NestedValue."""

    NESTED_TYPE = 1
    DICT_KEYS = 2
    DICT_VALUES = 3
    ARRAY_VALUES = 4
    INT_VALUE = 5
    DOUBLE_VALUE = 6
    BOOL_VALUE = 7
    STRING_VALUE = 8


class InternedData:
    """InternedData."""

    EVENT_CATEGORIES = 1
    EVENT_NAMES = 2
    DEBUG_ANNOTATION_NAMES = 3
    SOURCE_LOCATIONS = 4
    DEBUG_ANNOTATION_STRING_VALUES = 29


class Interned:
    """EventCategory, EventName, DebugAnnotationName and InternedString."""

    IID = 1
    NAME = 2


class Location:
    """SourceLocation."""

    IID = 1
    FILE_NAME = 2
    FUNCTION_NAME = 3
    LINE_NUMBER = 4
