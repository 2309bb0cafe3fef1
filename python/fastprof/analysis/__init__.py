# SPDX-License-Identifier: Apache-2.0
"""What is computed of a table or of one op beyond its times: FLOPs, memory by range. One analysis a file."""
