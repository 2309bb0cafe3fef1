# SPDX-License-Identifier: Apache-2.0
"""Analyses of tables and ops beyond times: FLOP estimates, memory attribution. One module each."""
