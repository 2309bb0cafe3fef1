# SPDX-License-Identifier: Apache-2.0
"""attach: put fastprof into a running Python process that never imported it (docs/attach.md).

`processes` finds Python processes and their interpreters, `symbols` the addresses of functions in them, `debugger`
drives gdb or lldb, `injection` runs a script in the process, `inside` is that script, `permission` explains refusals.
"""
