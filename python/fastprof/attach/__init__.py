# SPDX-License-Identifier: Apache-2.0
"""attach: put fastprof into a running Python process that never imported it (docs/attach.md).

`processes` finds Python processes and their interpreters, `symbols` the addresses of functions in them, `tracer`
stops one and calls functions in it, `injection` runs a script there by that, `inside` is the script, `permission`
explains refusals.
"""
