# SPDX-License-Identifier: Apache-2.0
"""options_of: the options of a flight recorder as text, from the environment or the command line."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from fastprof.base import errors
from fastprof.base.formatting import suggestion

if TYPE_CHECKING:
    from inspect import Parameter

__all__ = ["option_named", "options_of"]

_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def options_of(text: str) -> dict[str, Any]:
    """Return the arguments of start() that a text "NAME=VALUE,..." gives ("1": none).

    Raises errors.ValueError for what start() and profile() do not take. Any thread.
    """
    options: dict[str, Any] = {}
    for part in [] if text == "1" else text.split(","):
        name, equals, value = part.strip().partition("=")
        if not equals:
            raise errors.ValueError(f"{part!r} is not NAME=VALUE. Use 1, or options of start().")
        options[name] = _value_of(name, value, str(option_named(name).annotation))
    return options


def option_named(name: str) -> Parameter:
    """Return an option of start() or profile(). Raises errors.ValueError if there is none. Any thread."""
    from inspect import signature

    from fastprof.flight_recorder import start
    from fastprof.profiler import profile

    known = {**signature(profile).parameters, **signature(start).parameters}
    del known["profile_options"]
    if name not in known:
        raise errors.ValueError(
            f"a flight recorder has no option {name!r}{suggestion(name, known, '. See flight_recorder.start()')}"
        )
    return known[name]


def _value_of(name: str, text: str, wanted: str) -> Any:
    """Return the value that a text stands for. wanted: the option's annotation."""
    word = text.lower()
    if word == "none":
        return None
    if "bool" in wanted and word in _TRUE + _FALSE:
        return word in _TRUE
    if "int" in wanted or "float" in wanted:
        with suppress(ValueError):
            return int(text) if text.lstrip("-").isdecimal() else float(text)
    if "str" in wanted:
        return text
    use = "true or false" if "bool" in wanted else "a number"
    raise errors.ValueError(f"invalid {name}={text}. Use {use}.")
