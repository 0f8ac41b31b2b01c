"""Layers of a configuration as plain nested tables: shipped presets, TOML files, and one table laid over another."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from fields.atomic import NotRegularFileError, read_regular
from stationpde.errors import ConfigError

__all__ = ["leaves", "merged", "nested", "read_toml", "shipped", "without_none"]

# Larger files are no configuration.
_MOST_BYTES = 1 << 20
# Tables whose keys the user chooses; an override replaces such a table instead of joining it.
_FREE_FORM = frozenset({"missing"})


def shipped(name: str) -> dict[str, Any]:
    """Read a preset, variant or recipe that the package ships."""
    text = resources.files(__package__).joinpath("presets", f"{name}.toml").read_text("utf-8")
    return tomllib.loads(text)


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file of a user.

    Raises
    ------
    ConfigError
        If there is none, or if it is too large, not UTF-8 or not TOML.
    """
    where = str(path)
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ConfigError(f"{path.name} is larger than 1 MiB: no configuration", code="SPDE-C003", where=where)
        text = read_regular(path).decode("utf-8").removeprefix("\ufeff")
        return tomllib.loads(text)
    except FileNotFoundError:
        raise ConfigError(
            f"there is no file {path.name}", code="SPDE-C003", where=where,
            do=f"stationpde config init {shlex.quote(where)}   writes one",
        ) from None  # fmt: skip
    except NotRegularFileError:
        if path.is_dir():
            raise ConfigError(
                f"{path.name} is a directory, a configuration is a TOML file", code="SPDE-C003", where=where,
                do="name the file, for a run its config.toml",
            ) from None  # fmt: skip
        raise ConfigError(
            f"{path.name} is a pipe or a device, no regular file", code="SPDE-C003", where=where,
            do="save the configuration to a file and name that",
        ) from None  # fmt: skip
    except UnicodeDecodeError as problem:
        line = problem.object[: problem.start].count(b"\n") + 1
        raise ConfigError(f"line {line} is not UTF-8 text", code="SPDE-C003", where=where,
                          do="save it as UTF-8") from None  # fmt: skip
    except (tomllib.TOMLDecodeError, RecursionError) as problem:
        raise ConfigError(f"not valid TOML: {problem}", code="SPDE-C003", where=where,
                          do="correct that line") from None  # fmt: skip


def merged(base: Mapping[str, Any], change: Mapping[str, Any], replace: bool = False) -> dict[str, Any]:
    """Lay ``change`` over ``base``, table by table; with ``replace`` free-form tables are replaced, not joined."""
    tree = dict(base)
    for key, value in change.items():
        if isinstance(value, Mapping) and isinstance(tree.get(key), Mapping) and not (replace and key in _FREE_FORM):
            tree[key] = merged(tree[key], value, replace)
        else:
            tree[key] = value
    return tree


def nested(keys: Sequence[str], value: Any) -> dict[str, Any]:
    """Return a value as the only leaf of nested tables."""
    for key in reversed(keys):
        value = {key: value}
    return dict(value)


def without_none(tree: Any) -> Any:
    """Return a tree without the leaves that are None, as TOML has no such value."""
    if isinstance(tree, Mapping):
        return {key: without_none(value) for key, value in tree.items() if value is not None}
    return tree


def leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every leaf with its dotted key; an empty table is a leaf."""
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
