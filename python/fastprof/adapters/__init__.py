# SPDX-License-Identifier: Apache-2.0
"""What is known of other programs in this process, a folder each, and how their import is awaited."""
