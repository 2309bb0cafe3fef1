# SPDX-License-Identifier: Apache-2.0
"""The data model: event tables of immutable columns, sites and tracks, the tree over them, sums by group."""
