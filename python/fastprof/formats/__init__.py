# SPDX-License-Identifier: Apache-2.0
"""Layouts of files that a writer and a reader share: one home for each, so that the two cannot differ."""
