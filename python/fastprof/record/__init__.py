# SPDX-License-Identifier: Apache-2.0
"""Annotate a program: ranges, marks, counters and flows; propagate to other threads; activity kinds."""
