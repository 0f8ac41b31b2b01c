"""Stages that pack the chunks of a zarr array, each with the parameters it may have and the sizes it makes.

A codec that is not listed here is refused, and so is a parameter that is not listed beside it: what this gate does not
understand might run code or claim memory. Version 2 names a codec by ``id``, version 3 by ``name``, and each is read
from that field alone, as zarr does.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["Refusal", "Stage", "item_size", "number_size", "parse_stages_2", "parse_stages_3"]

Kind = Literal["packer", "checksum", "filter", "text", "bytes", "order", "shard"]

_PARAMETERS: dict[str, tuple[Kind, frozenset[str]]] = {
    "blosc": ("packer", frozenset({"cname", "clevel", "shuffle", "blocksize", "typesize"})),
    "zlib": ("packer", frozenset({"level"})),
    "gzip": ("packer", frozenset({"level"})),
    "zstd": ("packer", frozenset({"level", "checksum"})),
    "lz4": ("packer", frozenset({"acceleration"})),
    "crc32c": ("checksum", frozenset({"location"})),
    "crc32": ("checksum", frozenset({"location"})),
    "adler32": ("checksum", frozenset({"location"})),
    "fletcher32": ("checksum", frozenset()),
    "shuffle": ("filter", frozenset({"elementsize"})),
    "delta": ("filter", frozenset({"dtype", "astype"})),
    "fixedscaleoffset": ("filter", frozenset({"offset", "scale", "dtype", "astype"})),
    "quantize": ("filter", frozenset({"digits", "dtype", "astype"})),
    "bitround": ("filter", frozenset({"keepbits"})),
    "astype": ("filter", frozenset({"encode_dtype", "decode_dtype"})),
    "packbits": ("filter", frozenset()),
    "vlen-utf8": ("text", frozenset()),
    "vlen-bytes": ("text", frozenset()),
    "bytes": ("bytes", frozenset({"endian"})),
    "endian": ("bytes", frozenset({"endian"})),
    "transpose": ("order", frozenset({"order"})),
    "sharding_indexed": ("shard", frozenset({"chunk_shape", "codecs", "index_codecs", "index_location"})),
}
# Version 3 knows these by their bare name, the others of numcodecs with a prefix.
_BARE_3 = {"blosc", "gzip", "zstd", "crc32c", "vlen-utf8", "vlen-bytes", "bytes", "endian", "transpose",
           "sharding_indexed"}  # fmt: skip
_ONLY_3 = {"bytes", "endian", "transpose", "sharding_indexed"}
_PREFIX = "numcodecs."
# Checksums that stand before what they check, unless their configuration says otherwise.
_FIRST = ("crc32", "adler32")
_MOST_STAGES = 8
_MOST_RESIZING = 2
_LONGEST_TEXT = 1 << 16  # bytes of one item of fixed length
_POINTER = 8

_NUMBER = re.compile(r"[<>|=]?(?:b1|[iu](?P<whole>[1248])|f(?P<real>2|4|8|16)|c(?P<complex>8|16))")
_NAME = re.compile(r"(?:u?int(?P<whole>8|16|32|64)|float(?P<real>16|32|64)|complex(?P<complex>64|128)|bool)")
_TIME = re.compile(r"[<>]?[mM]8(?:\[[0-9]{0,9}[A-Za-z]{0,7}\])?")
_TEXT = re.compile(r"[<>|]?(?P<kind>[SU])(?P<length>[0-9]{1,6})")


class Refusal(Exception):  # noqa: N818 - a signal inside the readers, turned into a typed error by them
    """Reason why a description is not accepted.

    ``is_codec`` marks what might run code, ``is_trap`` packing that may inflate beyond what the sizes say.
    """

    def __init__(self, why: str, *, is_codec: bool = False, is_trap: bool = False) -> None:
        super().__init__(why)
        self.is_codec, self.is_trap = is_codec, is_trap


@dataclass(frozen=True, slots=True)
class Stage:
    """One codec. Packing changes the number of bytes by ``packed / plain``; checksums add four, first or last."""

    name: str
    kind: Kind
    plain: int = 1
    packed: int = 1
    leads: bool = False
    inner: tuple[Stage, ...] = ()
    chunk_shape: tuple[int, ...] = ()
    index_first: bool = False
    index_bytes: int = 0

    def encoded_size(self, size: int) -> int:
        """Return the bytes after this stage of packing, for a stage whose output has a size that is known."""
        if self.kind == "checksum":
            return size + 4
        if self.name == "packbits":
            return size // 8 + 2
        return -(-size * self.packed // self.plain)


def number_size(text: Any) -> int:
    """Return the bytes of a number whose type is given as text, such as ``<f4`` or ``float32``."""
    if isinstance(text, str):
        short = _NUMBER.fullmatch(text)
        if short:
            return int(next((n for n in short.groups() if n), 1))
        name = _NAME.fullmatch(text)
        if name:
            return int(next((n for n in name.groups() if n), 8)) // 8
    raise Refusal(f"the type {text!r:.40} is not one of a plain number")


def item_size(about: Any) -> tuple[int, bool]:
    """Return the bytes of an item of an array, of either version, and whether it is text of any length."""
    if isinstance(about, dict):
        return _named_size(about), False
    if not isinstance(about, str):
        raise Refusal("its items are records, which are not read")
    if about in ("|O", "string", "variable_length_utf8", "variable_length_bytes"):
        return _POINTER, True
    if _TIME.fullmatch(about):
        return 8, False
    text = _TEXT.fullmatch(about)
    if text:
        return _fixed(int(text["length"]) * (4 if text["kind"] == "U" else 1)), False
    return number_size(about), False


def _named_size(about: dict[str, Any]) -> int:
    _require_keys(about, {"name", "configuration"}, "a data type")
    name, inside = about.get("name"), about.get("configuration") or {}
    if not isinstance(inside, dict):
        raise Refusal("its data type is damaged")
    if name in ("numpy.datetime64", "numpy.timedelta64"):
        _require_keys(inside, {"unit", "scale_factor"}, "a data type")
        return 8
    if name in ("fixed_length_utf32", "null_terminated_bytes"):
        _require_keys(inside, {"length_bytes"}, "a data type")
        return _fixed(inside.get("length_bytes"))
    if inside:
        raise Refusal(f"its data type {name!r:.40} is not known")
    return number_size(name)


def _fixed(length: Any) -> int:
    if not isinstance(length, int) or isinstance(length, bool) or not 0 <= length <= _LONGEST_TEXT:
        raise Refusal(f"its items have {length!r:.20} bytes, at most {_LONGEST_TEXT:,} are read")
    return max(1, length)


def _require_keys(about: dict[str, Any], accepted: set[str], what: str) -> None:
    strange = sorted(set(about) - accepted)
    if strange:
        raise Refusal(f"{what} has the unknown key '{strange[0][:40]}'")


def parse_stages_2(compressor: Any, filters: Any, is_text: bool) -> tuple[Stage, ...]:
    """Return the stages of a version 2 array in the order of packing: its filters, then the compressor."""
    if filters is not None and not isinstance(filters, list):
        raise Refusal("its filters are no list")
    listed = [*(filters or []), *([] if compressor is None else [compressor])]
    stages = []
    for codec in listed:
        if not isinstance(codec, dict):
            raise Refusal("a codec is no table", is_codec=True)
        name = codec.get("id")
        if name in _ONLY_3:
            raise Refusal(f"it is packed with '{name}'", is_codec=True)
        stages.append(_stage(name, {key: value for key, value in codec.items() if key != "id"}))
    return _checked(stages, is_text, version=2)


def parse_stages_3(codecs: Any, is_text: bool, shape: Sequence[int], inside: bool = False) -> tuple[Stage, ...]:
    """Return the stages of a version 3 array in the order of packing; ``shape`` is that of a chunk."""
    if not isinstance(codecs, list) or not codecs:
        raise Refusal("its codecs are no list")
    stages = []
    for codec in codecs:
        about = {"name": codec} if isinstance(codec, str) else codec
        if not isinstance(about, dict):
            raise Refusal("a codec is no table", is_codec=True)
        _require_keys(about, {"name", "configuration"}, "a codec")
        name, settings = about.get("name"), about.get("configuration") or {}
        is_listed = isinstance(name, str) and (name in _BARE_3 or name.startswith(_PREFIX))
        bare = str(name).removeprefix(_PREFIX)
        if not is_listed or not isinstance(settings, dict) or (str(name).startswith(_PREFIX) and bare in _ONLY_3):
            raise Refusal(f"it is packed with '{str(name)[:40]}'", is_codec=True)
        if bare == "sharding_indexed":
            if inside:
                raise Refusal("it has shards inside shards")
            stages.append(_shard(settings, is_text, shape))
        else:
            stages.append(_stage(bare, settings))
    return _checked(stages, is_text, version=3)


def _stage(name: Any, settings: dict[str, Any]) -> Stage:
    if not isinstance(name, str) or name not in _PARAMETERS:
        raise Refusal(f"it is packed with '{str(name)[:40]}'", is_codec=True)
    kind, accepted = _PARAMETERS[name]
    _require_keys(settings, set(accepted), f"its codec '{name}'")
    if any(isinstance(value, (dict, list)) for key, value in settings.items() if key != "order"):
        raise Refusal(f"its codec '{name}' has a parameter that is a table or a list")
    if name == "astype":
        return Stage(name, kind, number_size(settings.get("decode_dtype")), number_size(settings.get("encode_dtype")))
    if "dtype" in settings or "astype" in settings:
        plain = number_size(settings.get("dtype"))
        # numcodecs takes the type of the numbers for that of the packed ones where it is absent or empty.
        return Stage(name, kind, plain, number_size(settings["astype"]) if settings.get("astype") else plain)
    leads = kind == "checksum" and settings.get("location", "start" if name in _FIRST else "end") != "end"
    return Stage(name, kind, leads=leads)


def _shard(settings: dict[str, Any], is_text: bool, shape: Sequence[int]) -> Stage:
    _require_keys(settings, set(_PARAMETERS["sharding_indexed"][1]), "a shard")
    inner = settings.get("chunk_shape")
    good = isinstance(inner, list) and len(inner) == len(shape) and all(isinstance(n, int) and n > 0 for n in inner)
    if not good or not isinstance(inner, list) or any(whole % part for whole, part in zip(shape, inner)):
        raise Refusal("its shards do not hold whole chunks")
    place = settings.get("index_location", "end")
    index = settings.get("index_codecs", [{"name": "bytes"}, {"name": "crc32c"}])
    stages = parse_stages_3(index, False, (1,), inside=True)
    if place not in ("start", "end") or [stage.kind for stage in stages] not in (["bytes"], ["bytes", "checksum"]):
        raise Refusal("the index of its shards is not known")
    settings_of = index[0].get("configuration") or {} if isinstance(index[0], dict) else {}
    if settings_of.get("endian", "little") != "little" or stages[-1].name not in ("bytes", "endian", "crc32c"):
        raise Refusal("the index of its shards is not known")
    if stages[-1].leads:
        raise Refusal("the index of its shards is not known")
    count = math.prod(whole // part for whole, part in zip(shape, inner))
    return Stage(
        "sharding_indexed", "shard", inner=parse_stages_3(settings.get("codecs"), is_text, inner, inside=True),
        chunk_shape=tuple(inner), index_first=place == "start",
        index_bytes=16 * count + 4 * (len(stages) - 1),
    )  # fmt: skip


def _checked(stages: list[Stage], is_text: bool, version: int) -> tuple[Stage, ...]:
    """Refuse an order of stages whose sizes cannot be known before unpacking."""
    kinds = [stage.kind for stage in stages]
    if len(stages) > _MOST_STAGES:
        raise Refusal(f"it is packed in {len(stages)} stages, at most {_MOST_STAGES} are read")
    if kinds.count("packer") > 1:
        raise Refusal("it is compressed twice, which is taken for a trap", is_trap=True)
    if "packer" in kinds and any(kind != "checksum" for kind in kinds[kinds.index("packer") + 1 :]):
        raise Refusal("a filter follows the compression")
    resizing = sum(stage.name == "packbits" or stage.plain != stage.packed for stage in stages)
    if resizing > _MOST_RESIZING:
        raise Refusal("its filters change the type of the numbers again and again", is_trap=True)
    if ("text" in kinds) != (is_text and "shard" not in kinds) or kinds.count("text") > 1:
        raise Refusal("its texts are packed in a way that is not known")
    if "text" in kinds and "filter" in kinds:
        raise Refusal("its texts are packed in a way that is not known")
    if version == 3:
        makers = [kind for kind in kinds if kind in ("bytes", "text", "shard")]
        if len(makers) != 1 or ("shard" in kinds and set(kinds) - {"shard", "order"}):
            raise Refusal("its codecs do not make bytes of numbers once")
    return tuple(stages)
