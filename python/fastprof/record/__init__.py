# SPDX-License-Identifier: Apache-2.0
"""Annotating a program: ranges, marks and counters, work handed to other threads, kinds of activities."""
