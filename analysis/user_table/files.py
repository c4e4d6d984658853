"""Files as grids of text cells: any encoding, CSV, TSV, Markdown, HTML, JSON, LaTeX, XLSX and aligned text."""

from __future__ import annotations

import csv
import html
import io
import json
import re
import sys
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import TableError
from analysis.user_table import units
from analysis.user_table.numbers import has_value, units_of
from train.record import logs

SEPARATORS = {",": "','", ";": "';'", "\t": "tabs", "|": "'|'"}
_LARGEST = 64 * 2**20  # bytes of one file
_MOST_ROWS = 100_000  # of one sheet
_KINDS = {
    b"\x89PNG": "a picture", b"\xff\xd8\xff": "a picture", b"GIF8": "a picture", b"%PDF": "a PDF file",
    b"\x1f\x8b": "a compressed file", b"PK\x03\x04": "a ZIP archive", b"\xd0\xcf\x11\xe0": "an old Office file",
    b"\x7fELF": "a program", b"SQLite": "a database", b"\x89HDF": "an HDF5 file", b"PAR1": "a Parquet file",
}  # fmt: skip
Rows = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Grid:
    """The cells of one table as text, row by row, with the line of the file on which each row begins.

    format: the file format, in words. title: the text above it. decimal: the mark before decimals, "" for either.
    heads: the number of first rows that the format declares as headers. above: the paragraph above it. loose: whether
    it may be no table at all.
    """

    source: str
    format: str
    rows: Rows
    lines: tuple[int, ...]
    title: str = ""
    above: str = ""
    decimal: str = ""
    heads: int = 0
    loose: bool = False


@dataclass(frozen=True)
class Text:
    """The text of one file, or the rows of one sheet of a workbook."""

    source: str
    text: str
    rows: Rows = ()

    @property
    def lines(self) -> list[str]:
        """Return its lines, with any line ending."""
        return re.split(r"\r\n|\r|\n", self.text)


def texts(path: Path) -> list[Text]:
    """Return the text of a file, of each file in a folder (at any depth, by name), or of standard input for "-".

    Raises TableError naming the file if there is none, or it is no text.
    """
    if str(path) == "-":
        return _contents(sys.stdin.buffer.read(_LARGEST + 1), "standard input")
    try:
        if not path.is_dir():
            return _contents(_bytes(path), str(path))
        files = sorted(file for file in path.rglob("*") if file.is_file() and not file.name.startswith("."))
        if not files:
            raise TableError(f"{path}: an empty folder")
        return [content for file in files for content in _contents(_bytes(file), str(file))]
    except OSError as error:
        raise TableError(f"{path}: cannot be read: {error.strerror}") from error


def _bytes(path: Path) -> bytes:
    if path.exists() and not path.is_file():
        raise TableError(f"{path}: no regular file")
    with path.open("rb") as file:
        return file.read(_LARGEST + 1)


def _contents(data: bytes, source: str) -> list[Text]:
    """Return the sheets of a workbook, or the text of another file."""
    if len(data) > _LARGEST:
        raise TableError(f"{source}: larger than {_LARGEST >> 20} MiB: no table of measurements")
    if data.startswith(b"PK\x03\x04") and zipfile.is_zipfile(io.BytesIO(data)):
        parts = zipfile.ZipFile(io.BytesIO(data)).infolist()
        if any(part.filename == "xl/workbook.xml" for part in parts):
            if sum(part.file_size for part in parts) > 4 * _LARGEST:
                raise TableError(f"{source}: larger than {4 * _LARGEST >> 20} MiB unpacked: no table of measurements")
            return list(_sheets(data, source))
    return [Text(source, _decoded(data, source))]


def _sheets(data: bytes, source: str) -> Iterator[Text]:
    import openpyxl  # takes 0.2 s

    try:
        workbook = openpyxl.load_workbook(io.BytesIO(data), data_only=True)
    except Exception as error:  # a broken workbook can raise anything
        raise TableError(f"{source}: a workbook that cannot be read ({error}): save the sheet as CSV") from error
    for sheet in workbook.worksheets:
        if sheet.max_row > _MOST_ROWS:
            raise TableError(f"{source}, sheet '{sheet.title}': more than {_MOST_ROWS} rows: no table of measurements")
        rows = tuple(tuple(_sheet_cell(cell) for cell in row) for row in sheet.iter_rows())
        if any(any(row) for row in rows):
            yield Text(f"{source}, sheet '{sheet.title}'" if len(workbook.worksheets) > 1 else source, "", rows)


def _sheet_cell(cell: Any) -> str:
    """Return a cell of a sheet as displayed, if its number format is a percentage or fixed decimals; else its value."""
    number_format = re.fullmatch(r"[#,]*0(?:\.(0+))?(%?)", cell.number_format or "")
    if number_format and isinstance(cell.value, float | int) and not isinstance(cell.value, bool):
        return f"{cell.value:.{len(number_format[1] or '')}{'%' if number_format[2] else 'f'}}"
    return _cell(cell.value)


def _decoded(data: bytes, source: str) -> str:
    """Return bytes as text: by byte order mark, else UTF-16 if every other byte is 0, else UTF-8 or Windows-1252."""
    if kind := next((kind for magic, kind in _KINDS.items() if data.startswith(magic)), ""):
        raise TableError(f"{source}: {kind}, not text: save the table as CSV")
    head = data[:4000]
    encodings = ["utf-8-sig", "cp1252", "latin-1"]
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        encodings = ["utf-16"]
    elif head.count(0) > len(head) // 4:
        encodings = ["utf-16-be" if head[::2].count(0) > head[1::2].count(0) else "utf-16-le"]
    for encoding in encodings:
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        if "\0" not in text:
            return text
    raise TableError(f"{source}: not a text file: save the table as CSV in UTF-8")


def log_grids(file: Text) -> list[Grid]:
    """Return the runs in a log that `train.record.logs` knows, one a row, with the names of the kit; else none."""
    kind, rows = logs.rows(file.text, file.source)
    names = [*dict.fromkeys(name for row in rows for name in row if name != "line")]
    cells = [(row["line"], [str(row.get(name, "")) for name in names]) for row in rows]
    return [_grid(file, kind, [(0, names), *cells], decimal=".")] if rows else []


def grids(file: Text) -> list[Grid]:
    """Return the tables in a text: of JSON, HTML, LaTeX, Markdown, separated values, or aligned columns."""
    if file.rows:
        return [_grid(file, "a sheet of a workbook", enumerate(file.rows, 1), decimal=".")]
    drawn = re.sub("[┌┬┐├┼┤└┴┘╔╦╗╠╬╣╚╩╝]", "+", re.sub("[│┃║]", "|", re.sub("[─━═]", "-", file.text)))
    file = replace(file, text=drawn)
    text = file.text.strip()
    if not text:
        raise TableError(f"{file.source}: it is empty")
    if text[0] in "[{" and (content := _json(text)) is not None:
        return [_grid(file, "JSON", enumerate(_json_rows(content, file.source)), decimal=".")]
    grids = [*_html(file), *_latex(file), *_lined(file)]
    taken = {line for grid in grids for line in range(grid.lines[0], grid.lines[-1] + 1)}
    grids += [grid for grid in _fenced(file) if not taken & {*grid.lines}]
    if not (grids := grids or [*_statements(file)]):
        parts = [file] if _separated(file) else _parts(file)
        return [*map(_whole, parts)]
    about = _titles(file.lines)
    return [
        replace(grid, title=grid.title or about[grid.lines[0] - 1][0], above=about[grid.lines[0] - 1][1])
        for grid in sorted(grids, key=lambda grid: grid.lines[0])
    ]


def _whole(file: Text) -> Grid:
    """Return a text that is one table: separated values, or columns aligned by spaces."""
    return _separated(file) or _grid(file, "aligned text", _aligned(file))


def _parts(file: Text) -> list[Text]:
    """Return the parts of aligned text between blank lines or rules, if several begin with words and end in numbers."""
    edges = [at for at, line in enumerate(["", *file.lines, ""]) if re.fullmatch(r"\W*", line)]
    spans = [(start, file.lines[start : end - 1]) for start, end in pairwise(edges) if end > start + 3]
    tables = [span for span in spans if not has_value(span[1][0].split()[0]) and has_value(span[1][-1].split()[0])]
    return [Text(file.source, "\n" * start + "\n".join(lines)) for start, lines in tables] if tables[1:] else [file]


# A line that states a result: "8 GPUs: 5,000 img/s", "np = 4 => 33 min"; and words before a number with a unit.
_STATEMENT = re.compile(r"[-*•\s]*([^:=]*(?:= ?\d+)?)\s*(?::|[=-]>|→)\s*(.*?\d.*?)(?:,\s.*)?[.;\s]*")
_BETWEEN = re.compile(r"(?:[\s:=|→,-]|\b(?:[a-z]+ )?(?:time|takes?|took|speed|throughput|in|is|at|needs?)\b)*$", re.I)


def _statements(file: Text) -> Iterator[Grid]:
    """Yield the lines that state a time or a rate of a number of ranks, as a table of those in one paragraph."""
    rows: list[tuple[int, list[str]]] = []
    for number, line in enumerate([*file.lines, ""], 1):
        if statement := _statement(markup(line)):
            rows.append((number, statement))
            continue
        kinds = [unit.kind for unit in units_of([row[1] for _, row in rows]) if unit.kind in ("time", "rate")]
        if kinds and len(rows) > 1:
            yield _grid(file, "lines that state a result each", [(rows[0][0], ["ranks", kinds[0]]), *rows], heads=1)
        rows = []


def _statement(line: str) -> list[str] | None:
    """Return the condition and the result that a line states, behind a mark or as the first time or rate; else None."""
    condition, result = match.groups() if (match := _STATEMENT.fullmatch(line)) else ("", "")
    words = re.sub(r"[，|]", " | ", line).split()
    for start, end in ((start, start + length) for start in range(len(words)) for length in (3, 2, 1)):
        text = " ".join(words[start:end]).strip(" ,;.")
        if not result and "|" not in text and {unit.kind for unit in units_of([text])} & {"time", "rate"}:
            condition, result = _BETWEEN.sub("", " ".join(words[:start])).split(" | ")[0], text
    if not re.search(r"[a-z]", condition, re.I) or not units.sizes_in(condition):
        return None
    return [condition, re.sub(r".*=\s*(?=\d)", "", result)]


def _grid(
    file: Text, kind: str, rows: Iterable[tuple[int, Sequence[str]]], title: str = "", decimal: str = "", heads: int = 0
) -> Grid:
    """Return rows, each with its line, as a grid."""
    pairs = list(rows)
    cells, lines = tuple(tuple(row) for _, row in pairs), tuple(number for number, _ in pairs)
    return Grid(file.source, kind, cells, lines, title, decimal=decimal, heads=heads)


def _json(text: str) -> Any:
    """Return the content of JSON, or of JSON Lines; None for neither."""
    for parts in ([text], [line for line in text.splitlines() if line.strip()]):
        try:
            content = [json.loads(part) for part in parts]
        except (json.JSONDecodeError, RecursionError):
            continue
        return content[0] if len(parts) == 1 else content
    return None


def _json_rows(content: Any, source: str) -> list[list[str]]:
    """Return the headers and rows of a list of objects, or of an object of lists or of objects, at any depth."""

    def has_columns(item: Any) -> bool:
        lists = [value for value in item.values() if isinstance(value, list)]
        objects = any(isinstance(cell, dict) for cells in lists for cell in cells)
        return not objects and len(lists) == len(item) and len({*map(len, lists)}) == 1

    while isinstance(content, dict) and not has_columns(content):
        inner = [value for value in content.values() if isinstance(value, list | dict) and value]
        if len(inner) != 1:
            break
        content = inner[0]
    if isinstance(content, dict) and content and all(isinstance(item, dict) for item in content.values()):
        key = "key" if all(map(str.isdigit, content)) else "name"
        content = [{key: name, **item} for name, item in content.items()]
    if isinstance(content, dict) and has_columns(content):
        names, rows = list(map(str, content)), list(map(list, zip(*content.values(), strict=True)))
    elif isinstance(content, list) and content and all(isinstance(item, dict) for item in content):
        frame = pd.json_normalize(content, sep=" ").astype(object)
        frame = frame.where(frame.notna(), None)
        names, rows = list(map(str, frame)), frame.to_numpy().tolist()
    elif isinstance(content, list) and content and all(isinstance(item, list) for item in content):
        names, rows = list(map(_cell, content[0])), content[1:]
    else:
        raise TableError(f"{source}: JSON, but neither a list of objects nor an object of lists of one length")
    return [names, *([_cell(cell) for cell in row] for row in rows)]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return repr(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    return str(value)


def markup(text: str) -> str:
    """Return a cell without the markup of Markdown, HTML or LaTeX."""
    text = re.sub(r"<sup>.*?</sup>|\\footnote\{[^}]*\}|\[\^\w+\]", "", text)
    text = html.unescape(re.sub(r"<br\s*/?>", " ", text))
    text = re.sub(r"</?[a-zA-Z][^>]*>", "", text)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"\*\*|__|``?|~~", "", re.sub(r"\\([~*_<>#])", r"\1", text))
    text = re.sub(r"\$([^$]*)\$", lambda math: math[1].replace(r"\pm", "±").replace(r"\times", "×"), text)
    text = re.sub(r"^\s*([*_])(.*)\1\s*$", r"\2", text)
    return re.sub(r"\s+", " ", text).strip()


_LIST_TABLE = re.compile(r"\s*(?:\.\. |`{3,}|:{3,}) ?\{?list-table(?:::|\})\s*(.*)")
_FENCE = re.compile(r"\s*(?:```|~~~)")
_UNDERLINE = re.compile(r"([=\-~^\"'`#*+.])\1{2,}")
_TITLE = re.compile(r"\s*(?:(#+)\s+(.*?)\s*#*|(\*\*[^*]+\*\*[^|*.]{0,40}?):?|(?:\*\*)?((?:Table|Tab\.)\W*\d.*))\s*$")


def _titles(lines: Sequence[str]) -> list[tuple[str, str]]:
    """Return, for each line, the title above it, with that of the section around it, and the paragraph above it."""
    titles: list[tuple[str, str]] = []
    headings: dict[int, str] = {}
    styles: list[str] = []  # of underlines, in the order of their levels
    title, paragraph, ended, fenced = "", "", True, False
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        lead = paragraph.removesuffix(":") if len(paragraph.split()) < 5 and paragraph.endswith(":") else ""
        titles.append((", ".join(filter(None, (title, markup(lead)))), paragraph))
        words = line.strip()
        if (fence := bool(_FENCE.match(line))) or fenced:
            fenced, ended = fenced != fence, True
            continue
        heading, underline = _TITLE.match(line), _UNDERLINE.fullmatch(below.strip())
        if heading or (underline and words and not re.search(r"\s{2,}|^[|+=-]", words)):
            if not heading and underline and underline[1] not in styles:
                styles.append(underline[1])
            level = len(heading[1] or " " * 7) if heading else styles.index(below.strip()[0]) + 1
            text = markup(next(filter(None, heading.groups()[1:]), "")) if heading else markup(words)
            headings = {above: heading_text for above, heading_text in headings.items() if above < level}
            headings[level] = text
            over = [heading_text for above, heading_text in headings.items() if 2 < above < level][-1:]
            title, paragraph = ", ".join([*over, text]), ""
        elif not words or re.match(r"[|+=<]|-{3}|\.\. ", words):
            ended = True
        else:
            paragraph, ended = (words if ended else f"{paragraph} {words}"), False
    return titles


def _lined(file: Text) -> Iterator[Grid]:
    """Yield the tables of Markdown and reStructuredText, and tables drawn with lines."""
    rows: list[tuple[int, str]] = []
    for number, line in enumerate([*file.lines, ""], 1):
        if re.search(r"(?<!\\)\|", line) or re.fullmatch(r"\s*\+(?:[-=]+\+)+\s*", line):
            rows.append((number, line.strip()))
            continue
        if table := _markdown(file, rows):
            yield table
        rows = []
    yield from _simple_tables(file)
    yield from _list_tables(file)


def _cells(line: str) -> tuple[str, ...]:
    cells = re.split(r"(?<!\\)\|", re.sub(r"^\||(?<!\\)\|$", "", line))
    return tuple(markup(cell.replace("\\|", "|")) for cell in cells)


def _markdown(file: Text, lines: Sequence[tuple[int, str]]) -> Grid | None:
    """Return the table of lines with '|', if an early line has dashes alone, or rules are between lines; else None."""
    rules = [at for at, (_, line) in enumerate(lines) if re.fullmatch(r"\+(?:[-=]+\+)+", line)]
    if len(rules) > 1:
        return _drawn(file, lines, rules)
    rows = [(number, _cells(line)) for number, line in lines]
    dashes = [at for at, (_, row) in enumerate(rows) if all(re.fullmatch(r":?-+:?", cell) for cell in row)]
    if not dashes or dashes[0] > 2:
        return None
    heads = dashes[0] if any(cell for _, row in rows[: dashes[0]] for cell in row) else 0
    width = len(rows[dashes[0]][1])
    rows = [
        (number, row if line[0] != "|" or line[-1] == "|" else row[:width])  # text may stand behind the last bar
        for (number, row), (_, line) in zip(rows, lines, strict=True)
    ]
    return _grid(file, "Markdown", [row for at, row in enumerate(rows) if at not in dashes], heads=heads)


def _drawn(file: Text, lines: Sequence[tuple[int, str]], rules: Sequence[int]) -> Grid | None:
    """Return a table drawn with '+--+': each line is a row, or several lines if each row is between two rules."""
    between = [lines[start + 1 : end] for start, end in pairwise(rules)]
    one_a_line = sum(map(len, between)) > 2 * len(between) or len(between) < 3
    rows = [[row] for rows in between for row in rows] if one_a_line else [rows for rows in between if rows]
    cells_of_rows = [zip(*(_cells(line) for _, line in row), strict=False) for row in rows]
    joined = [
        (row[0][0], [" ".join(filter(None, cells)) for cells in columns])
        for row, columns in zip(rows, cells_of_rows, strict=True)
    ]
    double = next((at for at, rule in enumerate(rules) if "=" in lines[rule][1]), 1)
    heads = sum(map(len, between[:double])) if one_a_line else double
    return _grid(file, "a drawn table", joined, heads=heads) if joined else None


def _simple_tables(file: Text) -> Iterator[Grid]:
    """Yield the simple tables of reStructuredText: columns under rules of '='."""
    rules = [at for at, line in enumerate(file.lines) if re.fullmatch(r"\s*=+(?: +=+)+\s*", line)]
    while len(rules) > 1:
        top, *rest = rules
        marks = file.lines[top]
        ends = [at for at in rest if file.lines[at].strip() == marks.strip()][:2]
        if not ends:
            rules = rest
            continue
        edges = [match.span() for match in re.finditer("=+", marks)]
        edges[-1] = (edges[-1][0], 10_000)
        rows = [
            (at + 1, tuple(markup(file.lines[at][start:end]) for start, end in edges))
            for at in range(top + 1, ends[-1])
            if at not in ends and file.lines[at].strip()
        ]
        if rows:
            yield _grid(file, "reStructuredText", rows, heads=ends[0] - top - 1 if len(ends) > 1 else 0)
        rules = [at for at in rest if at > ends[-1]]


def _list_tables(file: Text) -> Iterator[Grid]:
    """Yield the list-tables of reStructuredText and MyST: rows are items "* -" of a list, cells items "-" in them."""
    starts = [(at, match[1]) for at, line in enumerate(file.lines) if (match := _LIST_TABLE.match(line))]
    for start, title in starts:
        rows: list[tuple[int, list[str]]] = []
        heads, edge = 0, 0
        for number, line in enumerate(file.lines[start + 1 :], start + 2):
            indent = len(line) - len(line.lstrip())
            if item := re.match(r"\s*(\*\s+)?-(?:\s+(.*))?$", line):
                edge = indent if item[1] else edge
                rows += [(number, [])] if item[1] else []
                cells = rows[-1][1] if rows else []
                cells.append(item[2] or "")
            elif line.strip() and rows and indent <= edge:
                break
            elif rows and line.strip():
                rows[-1][1][-1] += f" {line.strip()}"
            elif option := re.match(r"\s*:header-rows:\s*(\d+)", line):
                heads = int(option[1])
        if rows:
            cells_of_rows = [(number, [*map(markup, cells)]) for number, cells in rows]
            yield _grid(file, "a list-table", cells_of_rows, markup(title), heads=heads)


def _fenced(file: Text) -> Iterator[Grid]:
    """Yield the blocks of code in Markdown that may be tables of separated values, or of aligned text."""
    fences = [at for at, line in enumerate(file.lines) if _FENCE.match(line)]
    for start, end in zip(fences[::2], fences[1::2], strict=False):
        part = Text(file.source, "\n".join([*[""] * (start + 1), *file.lines[start + 1 : end]]))
        try:
            grid = _whole(part)
        except TableError:
            grid = _grid(part, "", [])
        if len(grid.rows) > 1:
            yield replace(grid, format=f"a block of code, {grid.format}", loose=True)


class _Rows(HTMLParser):
    """The rows of each <table> with their lines, and its title; cells that span rows or columns are repeated."""

    _TITLES = ("h1", "h2", "h3", "h4", "h5", "caption")

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tables: list[tuple[list[tuple[int, list[str]]], str]] = []
        self.text: list[str] | None = None  # of the open cell or title
        self.row: list[str] | None = None
        self.down: dict[int, tuple[int, str]] = {}  # by column, the number of further rows that a cell spans
        self.title, self.spans = "", (1, 1)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self.tables.append(([], self.title))
            self.down = {}
        elif tag == "tr" and self.tables:
            self._end_row()
            self.row = []
            self.tables[-1][0].append((self.getpos()[0], self.row))
        elif tag in ("td", "th") and self.row is not None:
            self._end_cell()
            sizes = [dict(attrs).get(name) or "" for name in ("colspan", "rowspan")]
            across, down = (min(int(size), 1000) if size.isdecimal() and int(size) else 1 for size in sizes)
            self.text, self.spans = [], (across, down)
        elif tag in self._TITLES:
            self.text = []
        elif tag in ("br", "sup") and self.text is not None:
            self.text.append(" " if tag == "br" else "<sup>")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._end_cell()
        elif tag in ("tr", "table"):
            self._end_row()
        elif tag == "sup" and self.text is not None:
            self.text.append("</sup>")
        elif tag in self._TITLES and self.text is not None:
            self.title, self.text = markup("".join(self.text)), None
            if tag == "caption" and self.tables:
                self.tables[-1] = (self.tables[-1][0], self.title)

    def handle_data(self, data: str) -> None:
        if self.text is not None:
            self.text.append(data)

    def _fill(self) -> None:
        """Add the cells of rows above that span this one."""
        assert self.row is not None
        while (above := self.down.get(len(self.row), (0, "")))[0] > 0:
            self.down[len(self.row)] = (above[0] - 1, above[1])
            self.row.append(above[1])

    def _end_cell(self) -> None:
        if self.row is None or self.text is None:
            return
        self._fill()
        text, self.text = markup("".join(self.text)), None
        for _ in range(self.spans[0]):
            self.down[len(self.row)] = (self.spans[1] - 1, text)
            self.row.append(text)

    def _end_row(self) -> None:
        self._end_cell()
        if self.row is not None:
            self._fill()
        self.row = None


def _html(file: Text) -> list[Grid]:
    if not re.search(r"<table\b", file.text, re.I):
        return []
    parser = _Rows()
    parser.feed(file.text)
    parser.close()
    return [_grid(file, "HTML", rows, title) for rows, title in parser.tables if rows]


_RULE = r"\\(?:hline|toprule|midrule|bottomrule|cline\{[^}]*\}|cmidrule(?:\([^)]*\))?\{[^}]*\})"
_LATEX_CHARACTERS = {r"\times": "×", r"\pm": "±", r"\%": "%", r"\,": "", "~": " ", r"\#": "#", r"\_": "_"}


def _latex(file: Text) -> list[Grid]:
    """Return the tables of LaTeX, or rows of one."""
    text = re.sub(r"(?<!\\)%.*", "", "\n".join(file.lines))
    parts = [*re.finditer(r"\\begin\{tabular.*?\\end\{tabular", text, re.S)]
    if not parts and re.search(r"\\\\\s*(?:\\hline)?\s*$", text, re.M) and text.count("&") > 2:
        return [_grid(file, "LaTeX", _latex_rows(text, 1))]
    rows = [[*_latex_rows(part[0], text[: part.start()].count("\n") + 1)] for part in parts]
    return [_grid(file, "LaTeX", table) for table in rows if table]


def _latex_rows(body: str, line: int) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a LaTeX table: cells between '&', which \\multicolumn repeats."""
    passed = 0
    for part in re.split(r"(\\\\(?:\[[^\]]*\])?)", body):
        text = re.split(rf"{_RULE}|\\begin\{{tabular\}}\{{[^}}]*\}}", part)[-1].lstrip()
        if "&" in text:
            cells = [cell for field in re.split(r"(?<!\\)&", text) for cell in _latex_cell(field)]
            yield body[: passed + len(part) - len(text)].count("\n") + line, cells
        passed += len(part)


def _latex_cell(text: str) -> list[str]:
    spanned = re.fullmatch(r"\\multicolumn\{(\d{1,3})\}\{[^}]*\}\{(.*)\}", text.strip(), re.S)
    count, text = (int(spanned[1]), spanned[2]) if spanned else (1, text)
    text = re.sub(r"\\multirow\{[^}]*\}\{[^}]*\}\{(.*)\}", r"\1", text)
    for command, character in _LATEX_CHARACTERS.items():
        text = text.replace(command, character)
    for _ in range(3):
        text = re.sub(r"\\[a-zA-Z]+\{([^{}]*)\}", r"\1", text)
    return [markup(re.sub(r"\\[a-zA-Z]+|[${}]", "", text))] * count


def _separated(file: Text) -> Grid | None:
    """Return separated values; None if no separator is in two or more lines alike."""
    text = "\n".join(file.lines)
    skipped, declared = 0, re.match(r"sep=(.)\n", text)
    if declared:
        text, skipped = text[declared.end() :], 1
    separator = declared[1] if declared and declared[1] in SEPARATORS else _separator(text)
    if not separator:
        return None
    rows, before = [], skipped
    reader = csv.reader(io.StringIO(text), delimiter=separator, skipinitialspace=separator != "\t", strict=True)
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                rows.append((before + 1, [markup(cell) for cell in row]))
            before = reader.line_num + skipped
    except csv.Error as error:
        raise TableError(f"{file.source}, line {before + 1}: not readable as CSV: {error}") from error
    if separator == "|" and all(len(row) == 1 or not (row[0] or row[-1]) for _, row in rows):
        rows = [(line, row[1:-1] or row) for line, row in rows]
    quoted = any(re.search(r"\d,\d", cell) for _, row in rows for cell in row)
    decimal = "." if separator == "," and not quoted else ""
    return _grid(file, f"separated by {SEPARATORS[separator]}", rows, decimal=decimal)


def _separator(text: str) -> str:
    """Return the separator that most lines share, as many of it in each; "" for none."""
    lines = [line for line in text.split("\n") if line.strip()][:200]
    scores = {}
    for separator in SEPARATORS:
        counts = pd.Series([len(next(csv.reader([line], delimiter=separator), [])) - 1 for line in lines])
        split = counts[counts > 0].mode()
        usual = split.iloc[-1] if len(split) else 0
        regular = counts.eq(usual).mean() if usual else 0.0
        scores[separator] = regular * (1 + min(usual, 20) / 100) * (0.9 if separator == "," else 1.0)
    best = max(scores, key=lambda separator: scores[separator])
    tabs = {line.count("\t") for line in lines}
    aligned = best == "\t" and len(tabs) > 1 and any(re.search(r"\t\t|\t {2,}|^\s+\S", line) for line in lines)
    return "" if scores[best] < 0.3 or aligned else best


_WORD = r"[^\s\0]+"
_PHRASE = rf"{_WORD}(?: {_WORD})*"  # words with single spaces between them


def _aligned(file: Text) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of columns of text that are aligned by spaces or tabs."""
    lines = [(number, _tabs_out(line)) for number, line in enumerate(file.lines, 1) if re.search(r"\w", line)]
    if commented := _commented(lines):
        yield from commented
        return
    texts_one_a_line = [line for _, line in lines]
    for pattern in (_PHRASE, _WORD):
        rows = [re.findall(pattern, line) for line in texts_one_a_line]
        titles = any(len(row) == 1 and has_value(row[0]) for row in rows)
        if len({len(row) for row in rows} - (set() if titles else {1})) == 1 < max(map(len, rows)):
            break
    else:
        numbered = [line for line in texts_one_a_line if sum(map(has_value, line.split())) * 2 > len(line.split())]
        phrases = any(len(re.findall(_PHRASE, line)) > 1 for line in numbered)
        edges = _edges(_PHRASE if phrases else _WORD, numbered or texts_one_a_line)
        rows = [_placed(line, edges) for line in texts_one_a_line]
    yield from ((number, [markup(cell) for cell in row]) for (number, _), row in zip(lines, rows, strict=True))


def _commented(lines: Sequence[tuple[int, str]]) -> list[tuple[int, list[str]]]:
    """Return rows of numbers under headers in the last comment with as many words as a row; [] if there is none."""
    rows = [(number, re.findall(_WORD, line.split("#")[0])) for number, line in lines if line.lstrip()[0] != "#"]
    comments = [(number, line) for number, line in lines if line.lstrip()[0] == "#"]
    lengths = {len(row) for _, row in rows}
    if len(lengths) != 1 or not comments or not all(has_value(row[0]) for _, row in rows):
        return []
    for number, line in reversed(comments):
        names = re.split(r"[\s\0]*#\s*", line)[1:] if line.count("#") > 1 else re.findall(_PHRASE, line.strip("# "))
        if number < rows[0][0] and len(names) in lengths and not has_value(names[0]):
            return [(number, names), *rows]
    return []


def _tabs_out(line: str) -> str:
    """Return a line with each tab replaced by NULs up to the next multiple of 8: cells end there."""
    return "".join(part + "\0" * (8 - len(part) % 8) for part in line.split("\t")).rstrip("\0 ")


def _edges(pattern: str, lines: Iterable[str]) -> list[tuple[int, int]]:
    """Return the begins and ends of columns: overlapping cells of all lines are joined."""
    edges: list[tuple[int, int]] = []
    for start, end in sorted(cell.span() for line in lines for cell in re.finditer(pattern, line)):
        if edges and start < edges[-1][1]:
            edges[-1] = (edges[-1][0], max(edges[-1][1], end))
        else:
            edges.append((start, end))
    return edges


def _placed(line: str, edges: Sequence[tuple[int, int]]) -> list[str]:
    """Return the cells of a line: in order if there are as many as columns, else each word in the nearest column."""
    for pattern in (_PHRASE, _WORD):
        if len(cells := re.findall(pattern, line)) == len(edges):
            return cells
    cells = [""] * len(edges)
    for word in re.finditer(_WORD, line):
        overlaps = [min(end, word.end()) - max(start, word.start()) for start, end in edges]
        at = overlaps.index(max(overlaps))
        cells[at] = f"{cells[at]} {word[0]}".strip()
    return cells
