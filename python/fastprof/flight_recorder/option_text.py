# SPDX-License-Identifier: Apache-2.0
"""options_of: the options of a flight recorder as text, from the environment or the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastprof.base import errors
from fastprof.base.formatting import suggestion

if TYPE_CHECKING:
    from inspect import Parameter

__all__ = ["option_named", "options_of"]

_TRUE, _FALSE = ("true", "yes", "on"), ("false", "no", "off")


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
    if name not in known or name == "profile_options":
        raise errors.ValueError(
            f"a flight recorder has no option {name!r}{suggestion(name, known, '. See flight_recorder.start()')}"
        )
    return known[name]


def _value_of(name: str, text: str, wanted: str) -> Any:
    """Return the value that a text stands for. wanted: the option's annotation."""
    word = text.lower()
    if word == "none":
        return None
    if word in _TRUE + _FALSE and ("bool" in wanted or word in ("true", "false")):
        return word in _TRUE
    try:
        return int(text) if text.lstrip("-").isdecimal() else float(text)
    except ValueError:
        if "str" not in wanted:
            use = "true or false" if "bool" in wanted else "a number"
            raise errors.ValueError(f"invalid {name}={text}. Use {use}.") from None
        return text
