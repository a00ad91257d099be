"""A report as one HTML file that needs nothing else, and can be read back.

A report is plain data: a name, and sections, each with a table or pictures. The page
holds its data a second time, as JSON, so that another report can be laid beside it.
Reports come from other people's machines: all of their text is escaped, and the page
forbids itself scripts and the network.
"""

import json
import re
from html import escape
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from sidebyside.course.own_copies import write_whole

KIND = "side by side, report 1"
DATA = re.compile(r'<script type="application/json" id="reports">(.*?)</script>', re.S)
NOTHING_FROM_OUTSIDE = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: white;
       max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
h1 { margin-bottom: 0; } h2 { margin: 2.5rem 0 0.3rem; }
p { margin: 0.3rem 0 0.8rem; max-width: 45rem; } .pale { color: #595959; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: 0.25rem 1rem 0.25rem 0; }
tr { border-bottom: 1px solid #ddd; } thead tr { border-bottom: 2px solid #1a1a1a; }
th.of { border-bottom: 2px solid #0072B2; }
td.first, th.first { border-left: 1px solid #999; padding-left: 0.7rem; }
figure { margin: 0.5rem 0 1.5rem; } img { max-width: 100%; height: auto; }
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: 1rem; }
figcaption { color: #595959; font-size: 0.85rem; }
@media print { body { font-size: 11px; } tr, figure { break-inside: avoid; } }
"""


class ReportPicture(TypedDict):
    """A picture on the page: the file in base64, and what it shows in words."""

    alt: str
    png: str  # base64


class ReportSection(TypedDict):
    """A table whose first `keys` columns say what a row is about; or pictures."""

    title: str
    note: str
    columns: NotRequired[list[str]]
    keys: NotRequired[int]
    rows: NotRequired[list[list[str]]]
    pictures: NotRequired[list[ReportPicture]]


class Report(TypedDict):
    """All that a page shows, and what is read back from it."""

    kind: str
    name: str
    written: str  # the date
    sections: list[ReportSection]


def report_page(*reports: Report) -> str:
    """The page of one report, or of two side by side; the data of the first come first.

    A section of the second that the first does not have follows at the end.
    """
    names = " and ".join(escape(report["name"]) for report in reports)
    titles = dict.fromkeys(s["title"] for report in reports for s in report["sections"])
    sections = "\n".join(_section_of_page(title, reports) for title in titles)
    dates = ", ".join(f"{escape(r['name'])}: {escape(r['written'])}" for r in reports)
    # no "<" stands in the data, so nothing in them can end the element
    data = json.dumps(reports, ensure_ascii=True).replace("<", "\\u003c")
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{NOTHING_FROM_OUTSIDE}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Side by Side: {names}</title><style>{STYLE}</style></head><body>
<h1>Side by Side: {names}</h1>
<p class="pale">Written on {dates}. Measured there, unless a section says otherwise.</p>
{sections}
<script type="application/json" id="reports">{data}</script>
</body></html>
"""


def _section_of_page(title: str, reports: tuple[Report, ...]) -> str:
    of_each = [{s["title"]: s for s in r["sections"]}.get(title) for r in reports]
    there = next(section for section in of_each if section)
    body = _pictures_of_page(of_each, reports) if "pictures" in there else ""
    if "rows" in there:
        body += _table_of_page(of_each, reports)
    note = f"<p>{escape(there['note'])}</p>" if there["note"] else ""
    return f"<section><h2>{escape(title)}</h2>{note}{body}</section>"


def _table_of_page(
    of_each: list[ReportSection | None], reports: tuple[Report, ...]
) -> str:
    """Rows about the same thing become one row, with the other columns of each."""
    there = next(section for section in of_each if section)
    keys, columns = there.get("keys", 0), there.get("columns", [])
    wide = len(columns) - keys
    tables = [_rows_by_key(section, keys, len(columns)) for section in of_each]
    about = dict.fromkeys(key for table in tables for key in table)
    head = _cells_of_page("th", columns[:keys]) + "".join(
        _cells_of_page("th", columns[keys:], first=len(reports) > 1) for _ in reports
    )
    owners = "".join(
        f'<th class="of first" colspan="{wide}">{escape(report["name"])}</th>'
        for report in reports
    )
    above = f'<tr><td colspan="{keys}"></td>{owners}</tr>' if len(reports) > 1 else ""
    body = ""
    for key in about:
        cells = _cells_of_page("td", key[:keys])
        for table in tables:
            row = table.get(key, [""] * wide)
            cells += _cells_of_page("td", row, first=len(reports) > 1)
        body += f"<tr>{cells}</tr>\n"
    if not body:
        return '<p class="pale">Nothing yet.</p>'
    table = f"<table><thead>{above}<tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="wide">{table}</div>'


def _rows_by_key(section: ReportSection | None, keys: int, columns: int) -> dict:
    """The rest of each row by its first cells; a key that comes twice gets a number."""
    table: dict[tuple, list[str]] = {}
    same_shape = section and len(section.get("columns", ())) == columns
    for row in section.get("rows", ()) if section and same_shape else ():
        key, again = tuple(row[:keys]), 0
        while (*key, again) in table:
            again += 1
        table[*key, again] = row[keys:]
    return table


def _cells_of_page(tag: str, texts, first: bool = False) -> str:
    marks = [' class="first"' if first and not place else "" for place in range(99)]
    pairs = zip(texts, marks, strict=False)
    return "".join(f"<{tag}{mark}>{escape(text)}</{tag}>" for text, mark in pairs)


def _pictures_of_page(of_each: list, reports: tuple[Report, ...]) -> str:
    columns = ""
    for section, report in zip(of_each, reports, strict=True):
        figures = f"<h3>{escape(report['name'])}</h3>" if len(reports) > 1 else ""
        for picture in section["pictures"] if section and "pictures" in section else ():
            alt = escape(picture["alt"])
            source = f"data:image/png;base64,{escape(picture['png'])}"
            figures += f'<figure><img alt="{alt}" src="{source}">'
            figures += f"<figcaption>{alt}</figcaption></figure>"
        columns += f"<div>{figures}</div>"
    return f'<div class="pair">{columns}</div>' if len(reports) > 1 else columns


def write_report_page(path: Path, *reports: Report) -> None:
    """Write the page in one step: nobody ever finds half of one."""
    write_whole(path, report_page(*reports).encode(errors="backslashreplace"))


class NoReport(ValueError):
    """A file has no report that can be read; the message says why."""


def read_report(path: Path) -> Report:
    """The first report of a page that `write_report_page` has written; or NoReport."""
    if not path.is_file():  # a pipe would be waited for
        raise NoReport(f"{path} is not a file")
    try:
        found = DATA.search(path.read_text(encoding="utf-8"))
        report: Any = json.loads(found[1])[0] if found else {}
        if report["kind"] == KIND and report_page(report):  # it can be shown
            return report
    except OSError as error:
        raise NoReport(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        pass
    raise NoReport(f"{path} is not a page that my_report has written")
