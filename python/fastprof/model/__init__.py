# SPDX-License-Identifier: Apache-2.0
"""What was recorded, as immutable columns: the table, its sites and tracks, the tree over it, sums by group."""
