# SPDX-License-Identifier: Apache-2.0
"""From the words that the native part recorded to a table: columns, details of rows, inputs of ops."""
