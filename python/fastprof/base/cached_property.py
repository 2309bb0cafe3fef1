# SPDX-License-Identifier: Apache-2.0
"""cached_property: a property that is computed once for each object and stored in its __dict__, without a lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

__all__ = ["cached_property"]

T = TypeVar("T")
C = TypeVar("C", bound="cached_property[Any]")


class cached_property(Generic[T]):  # noqa: N801
    """Like functools.cached_property, which before CPython 3.12 holds one lock per class while it computes.

    A process that forks while another thread computes inherits that lock locked, so that the child waits for ever on
    its own objects. Here two threads may both compute a value; both then get the one that was stored first. Any thread.
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        self.func = function
        self.__doc__ = function.__doc__

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self._name = name

    @overload
    def __get__(self: C, instance: None, owner: type[Any] | None = None) -> C: ...

    @overload
    def __get__(self, instance: object, owner: type[Any] | None = None) -> T: ...

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
        if instance is None:
            return self
        return instance.__dict__.setdefault(self._name, self.func(instance))
