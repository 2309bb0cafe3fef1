# SPDX-License-Identifier: Apache-2.0
"""What a program records: annotations (ranges, marks, counters, flows), Python calls and memory, devices.

Also the sources outside of the thread: work handed to other threads, child processes, NVTX and ITT.
"""
