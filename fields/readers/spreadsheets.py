"""Recognise spreadsheets, which are not read, and say how their sheets become tables."""

from __future__ import annotations

from pathlib import Path

from fields.errors import DataError
from fields.readers.safety import open_binary, shown

__all__ = ["ENDINGS", "refuse_spreadsheet"]

ENDINGS = (".xlsx", ".xlsm", ".xls", ".xlsb", ".ods")
_OLD_EXCEL = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ZIP = b"PK\x03\x04"
# What the first member of a workbook's archive is called; an OpenDocument begins with its type, uncompressed.
_PARTS = (b"[Content_Types].xml", b"xl/", b"_rels/", b"docProps/")
_NAME_AT = 30
_OPEN_DOCUMENT = b"mimetypeapplication/vnd.oasis.opendocument.spreadsheet"


def refuse_spreadsheet(path: Path) -> None:
    """Refuse a workbook, by its content and whatever its name is; other files are left to the readers.

    Raises
    ------
    DataError
        With what to do: cells of a spreadsheet are formatted for people, and a text keeps what they show.
    """
    with open_binary(path) as file:
        head = file.read(128)
        is_workbook = head.startswith(_OLD_EXCEL) or _OPEN_DOCUMENT in head
        if head.startswith(_ZIP) and not is_workbook:
            is_workbook = path.suffix.lower() in ENDINGS or head[_NAME_AT:].startswith(_PARTS)
    if is_workbook:
        raise DataError(
            f"{shown(path)} is a spreadsheet, which is not read", code="SPDE-D121",
            do=f"save the sheet with the observations as CSV (UTF-8), times as 2024-01-31 06:00, and ingest that: "
            f"{shown(path.with_suffix('.csv'))}",
        )  # fmt: skip
