# SPDX-License-Identifier: Apache-2.0
"""Views of an EventTable: EventList, FunctionEvent, FunctionEventAvg and their parts."""

from __future__ import annotations

from fastprof.model.event_metadata import EventMetadata
from fastprof.views.event_list import EventList
from fastprof.views.function_event import FunctionEvent
from fastprof.views.function_event_avg import FunctionEventAvg
from fastprof.views.interval import Interval, Kernel, MemRecordsAcc
from fastprof.views.measures import EventViewError, FormattedTimesMixin
from fastprof.views.names import StringTable

__all__ = [
    "EventList",
    "EventMetadata",
    "EventViewError",
    "FormattedTimesMixin",
    "FunctionEvent",
    "FunctionEventAvg",
    "Interval",
    "Kernel",
    "MemRecordsAcc",
    "StringTable",
]
